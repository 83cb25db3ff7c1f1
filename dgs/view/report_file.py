"""The report of a run: its page as one file, and its picture, one SVG for READMEs and slides.

It never overwrites a file that is not a report of ours.
"""

from __future__ import annotations

from pathlib import Path

from dgs.named_files import write_named
from dgs.view.moments import Moment, Seen
from dgs.view.page import MARK, asset, page
from dgs.view.pictures.charts import HEIGHT as CHART_HEIGHT
from dgs.view.pictures.charts import RIGHT as CHART_RIGHT
from dgs.view.pictures.charts import WIDTH as CHART_WIDTH
from dgs.view.pictures.charts import charts
from dgs.view.pictures.markup import Markup, cut, element, joined
from dgs.view.pictures.texts import clean, count
from dgs.view.scenes import Pictures, Scene

MARGIN, HEAD, SPACE = 20, 96, 16
_CHARTS = 4
BY = "dgs report"


def picture(seen: Seen, at: float | None = None) -> str:
    """Return the picture of a run, at its last moment or `at` seconds after it began."""
    moment = seen.moments[-1] if at is None else min(seen.moments, key=lambda one: abs(one.at - at))
    pictures = Pictures(seen)
    scene = pictures.scene(moment)
    plan = pictures.plans[moment.plan]
    over_time = charts(seen)[:_CHARTS]
    width = max(
        MARGIN * 2 + pictures.streams.width + SPACE * 3 + plan.width,
        MARGIN * 2 + _CHARTS * (CHART_WIDTH + SPACE),
    )
    middle = max(pictures.streams.height + 30, int(plan.layout.height) + 30)
    height = HEAD + middle + SPACE + CHART_HEIGHT + 40
    room = width - 2 * MARGIN - pictures.streams.width - 3 * SPACE
    left = MARGIN + pictures.streams.width + 3 * SPACE + max(0.0, (room - plan.width) / 2)
    parts = [
        element("style", Markup(asset("page.css"))),
        element("rect", width="100%", height="100%", class_="back"),
        *_heading(seen, moment, scene, width),
        _placed(pictures.streams.drawn(scene), MARGIN, HEAD + 20),
        _placed(plan.drawn(scene), left, HEAD + 10),
    ]
    for place, (title, drawn) in enumerate(over_time):
        x, y = MARGIN + place * (CHART_WIDTH + SPACE), HEAD + middle + SPACE
        parts += [_text(title, x, y + 12, "dim"), _placed(_with_cursor(drawn, scene), x, y + 18)]
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    label = f"The run {clean(seen.name)}. {clean(moment.sentence)} {clean(moment.more)}"
    about = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria_label": label, "class_": "run"}
    return element("svg", joined(parts), **about, **size) + "\n"


def _heading(seen: Seen, moment: Moment, scene: Scene, width: float) -> list[Markup]:
    """Return the name of a run, its numbers, and the sentences that explain it."""
    numbers = f"{scene['status']}   {count(moment.rate)} events/s   {moment.outputs:,} outputs"
    return [
        _text(seen.name, MARGIN, 36, "title"),
        element("text", numbers, x=width - MARGIN, y=36, class_="dim", text_anchor="end"),
        element("text", cut(moment.sentence, 130), x=MARGIN, y=62, class_=f"sentence {scene['status']}"),
        element("text", cut(moment.more, 170), x=MARGIN, y=82, class_="dim"),
        _text("Streams, by event time", MARGIN, HEAD + 14, "name"),
    ]


def _text(text: str, x: float, y: float, kind: str) -> Markup:
    return element("text", cut(text, 120), x=x, y=y, class_=kind)


def _with_cursor(drawn: Markup, scene: Scene) -> Markup:
    """Return a drawing of what changed over time with its cursor at the moment of a scene."""
    end, at = CHART_WIDTH - CHART_RIGHT, scene["cursor@x1"]
    return Markup(drawn.replace(f'x1="{end}" x2="{end}"', f'x1="{at}" x2="{at}"'))


def _placed(drawn: Markup, x: float, y: float) -> Markup:
    """Return a drawing at a place inside another one."""
    return Markup(drawn.replace("<svg ", f'<svg x="{x:.0f}" y="{y:.0f}" ', 1))


NAME = "report.html"
"""The file in the run directory that `report: true` asks for."""


def write_report(seen: Seen, path: Path, *, force: bool = False) -> int:
    """Write the page of a run; return its size in bytes. Raises ForeignFileError, OutputUnwritableError."""
    return write_named(path, page(seen).html, BY, mark=MARK, force=force)


def write_picture(seen: Seen, path: Path, *, at: float | None = None, force: bool = False) -> int:
    """Write the picture of a run, at its last moment or `at` seconds after it began; return its size in bytes.

    Raises ForeignFileError, OutputUnwritableError.
    """
    return write_named(path, picture(seen, at), BY, mark='class="run"', force=force)
