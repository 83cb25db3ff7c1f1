"""Charts over time, in SVG: events a second, seconds of synchronisation, lag, events held, on equal axes.

Red lines are restarts, violet ones plan switches. A stroke of the last drawing is a checkpoint, and its height the duration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgs.view.moments import Happening, Moment, Seen
from dgs.view.pictures.markup import Markup, element, joined
from dgs.view.pictures.texts import count, seconds
from dgs.view.sentences import ENDED

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FLOOR = 300, 104, 50, 6, 18, 80
POINTS = 240
"""The most points of a line: of more, neighbours are merged into their greatest value."""

MOST_MARKS = 200


@dataclass(frozen=True)
class Line:
    """A number that changes over time. `text` shows it. `key`: its name in the script."""

    title: str
    key: str
    colour: str
    value: Callable[[Moment], float]
    text: Callable[[float], str]


LINES = (
    Line("Events a second", "rate", "blue", lambda moment: moment.rate, count),
    Line(
        "Synchronisation, mean",
        "sync",
        "violet",
        lambda moment: moment.synchronisation_ms,
        lambda ms: seconds(ms / 1000),
    ),
    Line("Lag", "lag", "amber", lambda moment: moment.lag or 0.0, seconds),
    Line("Events held", "held", "red", lambda moment: float(moment.held), count),
)


def charts(seen: Seen) -> list[tuple[str, Markup]]:
    """Return the drawings by their titles; lag only where event times are dates."""
    has_lag = any(moment.lag is not None for moment in seen.moments)
    drawn = [(line.title, _chart(seen, line)) for line in LINES if has_lag or line.key != "lag"]
    return [*drawn, ("Checkpoints, time of a commit", _checkpoints(seen))]


def place_of(at: float, seen: Seen) -> float:
    """Return the place of a moment on the axis, in pixels."""
    first, last = _ends(seen)
    return LEFT + (WIDTH - LEFT - RIGHT) * (at - first) / (last - first)


def _ends(seen: Seen) -> tuple[float, float]:
    first = seen.moments[0].at if seen.moments else 0.0
    return first, max(seen.moments[-1].at if seen.moments else 0.0, first + 1.0)


def _chart(seen: Seen, line: Line) -> Markup:
    # the last one has means of the whole run
    going_on = [moment for moment in seen.moments if moment.status not in ENDED]
    values = [(place_of(moment.at, seen), line.value(moment)) for moment in going_on]
    top = _round(max((high for _, high in values), default=0.0))
    points = [(x, _height(high, top)) for x, high in _thinned(values)]
    path = "L".join(f"{x:.0f} {y:.1f}" for x, y in points)
    parts = []
    if points:
        area = f"M{points[0][0]:.0f} {FLOOR}L{path}L{points[-1][0]:.0f} {FLOOR}Z"
        parts = [
            element("path", d=area, class_=f"area {line.colour}"),
            element("path", d=f"M{path}", class_=f"line {line.colour}"),
        ]
    now = line.text(values[-1][1]) if values else "-"
    return _framed(seen, f"{line.title} over time, now {now}", line.key, line.text(top), parts)


def _checkpoints(seen: Seen) -> Markup:
    """Return the drawing of the checkpoints, with failed ones in red."""
    found = [happening for happening in seen.happenings if "checkpoint" in happening.kind]
    top = _round(max((happening.height for happening in found), default=0.0))
    parts = []
    for one in _few(found):
        is_bad = one.kind == "failed checkpoint"
        path = f"M{place_of(one.at, seen):.1f} {FLOOR}V{TOP if is_bad else _height(one.height, top):.1f}"
        title = element("title", f"at {seconds(one.at)}: {one.text}")
        parts.append(element("path", title, d=path, class_="mark bad" if is_bad else "mark good"))
    failed = sum(happening.kind == "failed checkpoint" for happening in found)
    return _framed(
        seen,
        f"Checkpoints over time: {len(found) - failed} committed, {failed} failed",
        "checkpoints",
        seconds(top),
        parts,
    )


def _framed(seen: Seen, label: str, key: str, top: str, inside: list[Markup]) -> Markup:
    """Return a drawing with its axes, the marks of restarts and plan switches, and the cursor."""
    first, last = _ends(seen)
    parts = [
        *(element("path", d=f"M{LEFT} {y}H{WIDTH - RIGHT}", class_="axis") for y in (TOP, FLOOR)),
        element("text", top, x=LEFT - 5, y=TOP + 4, text_anchor="end", class_="dim small"),
        element("text", "0", x=LEFT - 5, y=FLOOR + 4, text_anchor="end", class_="dim small"),
        element("text", seconds(first), x=LEFT, y=HEIGHT - 6, class_="dim small"),
        element("text", seconds(last), x=WIDTH - RIGHT, y=HEIGHT - 6, text_anchor="end", class_="dim small"),
        *inside,
        *(mark for happening in seen.happenings for mark in _marks(happening, seen)),
        element(
            "line", x1=WIDTH - RIGHT, x2=WIDTH - RIGHT, y1=TOP - 4, y2=FLOOR, class_="cursor", data_s="cursor"
        ),
    ]
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": str(WIDTH), "height": str(HEIGHT)}
    return element("svg", joined(parts), role="img", aria_label=label, class_="chart", data_chart=key, **size)


def _marks(happening: Happening, seen: Seen) -> list[Markup]:
    """Return a line with a sign for a restart or a plan switch."""
    known = {"restart": ("mark bad", "▼"), "switch": ("mark switch", "◆")}
    if happening.kind not in known:
        return []
    kind, sign = known[happening.kind]
    x = max(float(LEFT), place_of(happening.at, seen))
    title = element("title", f"at {seconds(happening.at)}: {happening.text}")
    line = element("path", title, d=f"M{x:.1f} {TOP}V{FLOOR}", class_=f"{kind} dashed")
    return [line, element("text", sign, x=x, y=TOP - 3, text_anchor="middle", class_=kind)]


def _height(value: float, top: float) -> float:
    return FLOOR - (FLOOR - TOP) * min(value, top) / top


def _few(happenings: Sequence[Happening]) -> list[Happening]:
    """Return the checkpoints that are drawn: all that failed, and at most MOST_MARKS others."""
    often = [happening for happening in happenings if happening.kind == "checkpoint"]
    step = -(-len(often) // MOST_MARKS) or 1
    return [happening for happening in happenings if happening.kind != "checkpoint"] + often[::step]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // POINTS) or 1
    return [
        max(points[start : start + step], key=lambda point: point[1]) for start in range(0, len(points), step)
    ]


def _round(most: float) -> float:
    """Return a round number that is at least `most`.

    >>> _round(412_900), _round(0)
    (500000.0, 1.0)
    """
    if most <= 0:
        return 1.0
    power = 10.0 ** (len(f"{most:.0f}") - 1) if most >= 1 else 10.0 ** float(f"{most:e}".split("e")[1])
    return next(step * power for step in (1, 2, 3, 5, 8, 10, 20) if step * power >= most)
