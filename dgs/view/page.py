"""The page of a run: one HTML document with its style, its script and its data, which needs nothing else.

The same document is the report of a run and the live page. Its head forbids every load from elsewhere, and names the digests of the
only script and style that may be used.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dgs.view.moments import Moment, Placed, Seen
from dgs.view.panels import header, main
from dgs.view.pictures.charts import LEFT, RIGHT, WIDTH
from dgs.view.pictures.markup import Markup, element, joined
from dgs.view.pictures.texts import clean
from dgs.view.scenes import Pictures, Scene, changes

MARK = '<meta name="generator" content="dgs report"/>'
"""The head of all pages."""

MOST_MOMENTS = 240
BUDGET = 600_000
"""The most bytes of the moments in a page: with the drawings it stays below a megabyte."""

MOST_TAGS = 160
"""The most characters of a worker's tags in a page of many workers."""


@dataclass(frozen=True)
class Page:
    """A page, and the last scene in it."""

    html: str
    scene: Scene


def page(seen: Seen, *, is_live: bool = False, most: int = MOST_MOMENTS, budget: int = BUDGET) -> Page:
    """Return the page of a run with at most `most` moments, fewer if they would take more than `budget` bytes."""
    pictures = Pictures(seen)
    moments = _moments(pictures, seen, most, budget)
    scene: Scene = {}
    for moment in moments:
        scene |= moment["changes"]
    data = {
        "live": is_live,
        "shape": shape_of(seen),
        "plans": _plans_as_data(seen),
        "moments": moments,
        "axis": [LEFT, WIDTH - RIGHT],
        "width": WIDTH,
    }
    body = [
        header(seen, scene),
        main(seen, pictures, scene),
        element("script", _as_script(data), type="application/json", id="data"),
    ]
    html = f'<!doctype html>\n<html lang="en">{_head(seen, is_live=is_live)}<body>{joined(body)}<script>{asset("page.js")}</script></body></html>\n'
    return Page(html, scene)


def policy() -> str:
    """Return the content security policy of a page."""
    script, style = (_digest(asset(name)) for name in ("page.js", "page.css"))
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _plans_as_data(seen: Seen) -> list[list[dict[str, str]]]:
    """Return the plans of a run for the script."""
    most = 10 * MOST_TAGS if sum(map(len, seen.plans)) < 50 else MOST_TAGS  # noqa: PLR2004 - many workers
    return [[_as_data(worker, most) for worker in plan] for plan in seen.plans]


def shape_of(seen: Seen) -> str:
    """Return the data on which the drawings of a run depend; a live page is reloaded when it changes."""
    plans = {moment.plan for moment in seen.moments}
    streams = max((len(moment.streams) for moment in seen.moments), default=0)
    sinks = max((len(moment.sinks) for moment in seen.moments), default=0)
    return f"{len(plans)} {streams} {sinks}"


def _as_data(worker: Placed, most: int) -> dict[str, str]:
    return {
        "name": clean(worker.name),
        "tags": clean(worker.tags, most),
        "lanes": clean(worker.lanes, most),
    }


def _moments(pictures: Pictures, seen: Seen, most: int, budget: int) -> list[dict[str, Any]]:
    while True:
        chosen = _spread(seen, most)
        found: list[dict[str, Any]] = []
        before: Scene = {}
        for moment in chosen:
            scene = pictures.scene(moment)
            found.append({"at": round(moment.at, 2), "changes": changes(before, scene)})
            before = scene
        taken = len(json.dumps(found))
        if taken <= budget or most <= 2:  # noqa: PLR2004 - the first and the last stay
            return found
        most = max(2, int(min(most, len(chosen)) * budget / taken * 0.9))


def _spread(seen: Seen, most: int) -> list[Moment]:
    """Return at most `most` moments, evenly spread, with the first and the last."""
    last = len(seen.moments) - 1
    if last < most:
        return list(seen.moments)
    return [seen.moments[round(number * last / (most - 1))] for number in range(most)]


def _head(seen: Seen, *, is_live: bool) -> Markup:
    parts = [
        Markup('<meta charset="utf-8"/>'),
        element("meta", http_equiv="Content-Security-Policy", content=policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Markup(MARK),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{clean(seen.name)} · {clean(seen.status)} · dgs"),
        Markup('<link rel="icon" href="data:,"/>'),
        Markup('<noscript><meta http-equiv="refresh" content="5"/></noscript>' if is_live else ""),
        Markup(f"<style>{asset('page.css')}</style>"),
    ]
    return element("head", joined(parts))


def _as_script(data: Any) -> Markup:
    """Return data as JSON in which an HTML parser finds no markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files("dgs.view").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
