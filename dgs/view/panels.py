"""The panels of the page: the sentence, the figures, the streams, the plan, the sinks, what changed over time, and the table of workers."""

from __future__ import annotations

from dgs.view.moments import Placed, Seen
from dgs.view.pictures.charts import charts
from dgs.view.pictures.markup import Markup, element, joined
from dgs.view.pictures.texts import clean, plural, seconds
from dgs.view.scenes import MOST_SINKS, Pictures, Scene

MOST_HAPPENINGS = 100


def _plan_pictures(pictures: Pictures, scene: Scene) -> Markup:
    """Return the drawings of all plans of the run; only that of the scene is visible."""
    drawn = []
    first = {moment.plan: moment for moment in reversed(pictures.seen.moments)}
    for place in sorted(first):
        picture = pictures.plans[place]
        is_shown = str(place) == scene.get("plan", "0")
        values = scene if is_shown else picture.values(first[place])
        hidden = {} if is_shown else {"hidden": ""}
        box = element(
            "div",
            picture.drawn(values),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label="Drawing of the plan",
            data_plan=str(place),
            **hidden,
        )
        drawn.append(box)
    return joined(drawn)


def chart_pictures(seen: Seen) -> Markup:
    """Return the drawings of what changed over time."""
    return joined([element("div", element("h3", title), picture) for title, picture in charts(seen)])


def happening_list(seen: Seen) -> Markup:
    """Return what happened in the run, the latest first."""
    told = [happening for happening in seen.happenings if happening.kind != "checkpoint"]
    lines = [
        element("li", f"{seconds(one.at)}: {clean(one.text, 500)}")
        for one in reversed(told[-MOST_HAPPENINGS:])
    ]
    return (
        joined(lines)
        if lines
        else element("li", "Nothing but work: no restart, no plan switch, no failed checkpoint.")
    )


def header(seen: Seen, scene: Scene) -> Markup:
    """Return the name of a run and its state."""
    status = scene.get("status", clean(seen.status))
    parts = [
        element("h1", clean(seen.name)),
        element("span", status, class_=scene.get("status@class", f"status {status}"), data_s="status"),
        element(
            "p", element("span", scene.get("size", ""), data_s="size"), clean(seen.about), class_="dim about"
        ),
        element("p", "", id="connection", class_="notice", role="status"),
    ]
    notice = [element("p", clean(seen.note, 1000), class_="notice")] if seen.note else []
    return joined([element("header", joined(parts)), *notice])


def main(seen: Seen, pictures: Pictures, scene: Scene) -> Markup:
    """Return everything below the name of a run, with the values of a scene."""
    if not scene:
        nothing = element(
            "section",
            element("h2", "No figures"),
            element("p", clean(seen.resume)),
            element("ul", happening_list(seen)),
        )
        return element("main", nothing, joined(_controls()))
    says = element(
        "div",
        element("p", element("strong", scene["sentence"], data_s="sentence"), aria_live="polite"),
        element("p", scene["more"], data_s="more"),
        class_=scene["says@class"],
        data_s="says",
    )
    grid = [
        _streams(pictures, scene),
        element("div", _plan(pictures, scene), _worker(), id="middle"),
        _side(seen, scene),
        _time(seen),
        _lists(seen, scene),
    ]
    return element("main", says, _figures(scene), element("div", joined(grid), class_="grid"))


def _controls() -> list[Markup]:
    """Return the empty elements that the script expects, for a page without figures."""
    return [
        element("div", id=name, hidden="")
        for name in ("slider", "follow", "range", "charts", "plan", "worker")
    ]


def _slot(name: str, scene: Scene, slot: str, **attributes: str) -> Markup:
    return element(name, scene.get(slot, ""), data_s=slot, **attributes)


def _figures(scene: Scene) -> Markup:
    rows = [
        ("Events in", "rate", "events"),
        ("Running for", "clock", "done"),
        ("Held back by", "by", "by.note"),
        ("A synchronisation", "sync", "sync.note"),
        ("Events held", "held", "held.note"),
        ("Last commit", "commit", "epoch"),
    ]
    cards = [
        element(
            "div",
            element("dt", title),
            _slot("dd", scene, value, class_=scene.get(f"{value}@class", "value")),
            _slot("dd", scene, note),
        )
        for title, value, note in rows
    ]
    return element("dl", joined(cards), class_="figures")


def _section(name: str, title: str, note: str, *content: Markup) -> Markup:
    head = element("div", element("h2", title), element("span", note), class_="head")
    return element("section", head, joined(list(content)), id=name, aria_label=title)


def _streams(pictures: Pictures, scene: Scene) -> Markup:
    return _section(
        "streams",
        "Streams, by event time",
        "the one furthest behind first",
        pictures.streams.drawn(scene),
        _slot("p", scene, "streams.more", class_="dim"),
        _slot("p", scene, "complete", class_="complete"),
        _slot("p", scene, "streams.left_out", class_="key"),
    )


def _plan(pictures: Pictures, scene: Scene) -> Markup:
    drawn = element("div", _plan_pictures(pictures, scene), id="plan-pictures")
    key = "▶ works   ◆ waits   ■ is held back behind it   ○ has nothing to do"
    return _section(
        "plan",
        "Plan",
        "width of an edge: events a second",
        drawn,
        element("p", key, class_="key"),
        _slot("p", scene, "between", class_="key"),
    )


def _side(seen: Seen, scene: Scene) -> Markup:
    most = min(MOST_SINKS, max((len(moment.sinks) for moment in seen.moments), default=0))
    rows = [
        element(
            "div",
            _slot("h3", scene, f"k{k}.name"),
            _slot("div", scene, f"k{k}.outputs"),
            _slot("div", scene, f"k{k}.note", class_="key"),
        )
        for k in range(most)
    ]
    sinks = _section(
        "sinks",
        "Sinks",
        "",
        *rows,
        _slot("p", scene, "sinks.more", class_="dim"),
        _slot("p", scene, "outputs", class_="dim"),
    )
    happened = element("ul", happening_list(seen), id="happenings", tabindex="0")
    onward = [element("p", clean(seen.resume), class_="key")] if seen.resume else []
    return element(
        "div", sinks, _section("happened", "What happened", "the latest first", happened, *onward), id="side"
    )


def _time(seen: Seen) -> Markup:
    label = element("label", "Moment", for_="range")
    parts = [
        label,
        element("input", id="range", type="range", min="0", max="0", value="0"),
        element("output", "", data_s="clock", for_="range"),
        element("button", "Back to now", id="follow", type="button", hidden=""),
    ]
    slider = element("div", joined(parts), class_="slider", id="slider", hidden="")
    drawn = element("div", chart_pictures(seen), class_="charts", id="charts")
    return _section("time", "Over time", "a click, or the slider, shows the run as it was", slider, drawn)


def _worker() -> Markup:
    parts = [
        element("h2", "Worker", id="worker-name"),
        element("dl", "", id="worker-facts", class_="facts"),
        element("h3", "Its story"),
        element("ol", "", id="worker-story"),
    ]
    return element("section", joined(parts), id="worker", aria_label="The chosen worker", hidden="")


def _lists(seen: Seen, scene: Scene) -> Markup:
    plan = seen.plans[int(scene["plan"])] if seen.plans else ()
    head = element(
        "tr",
        *(
            element("th", name, scope="col", class_="number" if name in _NUMBERS else None)
            for name in ("worker", "host", "tags", *_NUMBERS, "state")
        ),
    )
    rows = [_row(place, worker, scene) for place, worker in enumerate(plan)]
    table = element("table", element("thead", head), element("tbody", joined(rows)))
    box = element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="Table of the workers"
    )
    return element(
        "div",
        element("details", element("summary", f"Table of {plural(len(plan), 'worker')}"), box),
        id="list",
    )


_NUMBERS = {
    "events": "rate",
    "busy": "busy",
    "waits": "blocked",
    "holds": "held",
    "synchronisations": "syncs",
}


def _row(place: int, worker: Placed, scene: Scene) -> Markup:
    button = element("button", clean(worker.name, 40), type="button", data_w=str(place))
    cells = [
        element("td", button),
        _slot("td", scene, f"w{place}.host"),
        element("td", clean(worker.tags, 80)),
        *(_slot("td", scene, f"w{place}.{slot}", class_="number") for slot in _NUMBERS.values()),
        _slot("td", scene, f"w{place}.state"),
    ]
    return element("tr", joined(cells))
