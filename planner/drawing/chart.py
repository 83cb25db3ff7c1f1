"""Line charts in SVG, readable on light and dark backgrounds. Full lines join measured points, dashed lines join others.

>>> measured = Line("fraud", [(1, 2.0), (2, 3.5)])
>>> drawing = as_svg([measured, Line("fraud, predicted", [(2, 3.5), (4, 6.0)], is_measured=False)], x="hosts", y="M events/s")
>>> drawing.count("<circle"), drawing.count("stroke-dasharray"), "M events/s" in drawing
(4, 1, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, LEGEND = 460, 280, 64, 24, 330
"""Pixels: the size of the plot, the margins at its left and above it, the width of the legend at its right."""
TICKS = 5
COLOURS = ("#3f7cac", "#c8553d", "#5b9279", "#a06cd5", "#e8a33d", "#6b705c", "#2a9d8f", "#b5838d")
INK = "#7a828c"


@dataclass(frozen=True)
class Line:
    """Points (x, y) in increasing order of x. `colour`: the number of the colour, to show that two lines belong together."""

    name: str
    points: Sequence[tuple[float, float]]
    is_measured: bool = True
    colour: int | None = None


def as_svg(lines: Sequence[Line], *, x: str, y: str, title: str = "", is_logarithmic: bool = False) -> str:
    """Return a chart of the lines with points. Axes begin at 0; a logarithmic y axis at a power of ten."""
    drawn = [line for line in lines if line.points]
    across = _ticks(max((px for line in drawn for px, _ in line.points), default=1.0))
    heights = [py for line in drawn for _, py in line.points if py > 0 or not is_logarithmic]
    up = _powers(heights) if is_logarithmic else _ticks(max(heights, default=1.0))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        low, high = (math.log10(up[0]), math.log10(up[-1])) if is_logarithmic else (0.0, up[-1])
        value = math.log10(max(point[1], up[0])) if is_logarithmic else point[1]
        return LEFT + WIDTH * point[0] / across[-1], TOP + HEIGHT * (1 - (value - low) / (high - low))

    size = f'width="{LEFT + WIDTH + LEGEND}" height="{TOP + HEIGHT + 44}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11" fill="{INK}">',
        f'<text x="{LEFT}" y="14" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="14" y="{TOP + HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {TOP + HEIGHT / 2})">{escape(y)}</text>',
    ]
    for tick in up:
        _, top = place((0, tick))
        parts.append(f'<path d="M{LEFT} {top:.1f}h{WIDTH}" stroke="{INK}" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{top + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in across:
        left, _ = place((tick, up[-1]))
        parts.append(f'<text x="{left:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{tick:g}</text>')
    for number, line in enumerate(drawn):
        colour = COLOURS[(number if line.colour is None else line.colour) % len(COLOURS)]
        parts += _line(line, [place(point) for point in line.points], colour)
        parts += _named(line, number, colour)
    return "\n".join([*parts, "</svg>", ""])


def _line(line: Line, points: Sequence[tuple[float, float]], colour: str) -> Iterator[str]:
    path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
    dashes = "" if line.is_measured else ' stroke-dasharray="5 4"'
    yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>'
    fill = colour if line.is_measured else "none"
    for px, py in points:
        yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{fill}" stroke="{colour}"/>'


def _named(line: Line, number: int, colour: str) -> Iterator[str]:
    left, top = LEFT + WIDTH + 16, TOP + 12 + 16 * number
    mark = colour if line.is_measured else "none"
    yield f'<rect x="{left}" y="{top - 8}" width="9" height="9" fill="{mark}" stroke="{colour}"/>'
    yield f'<text x="{left + 15}" y="{top}">{escape(line.name)}</text>'


def _ticks(most: float) -> list[float]:
    """Return round numbers from 0 to at least `most`.

    >>> _ticks(19.0), _ticks(0.7), _ticks(0.0)
    ([0, 5, 10, 15, 20], [0.0, 0.2, 0.4, 0.6, 0.8], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    most = most or 1.0
    rough = max(most, 1e-9) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough)
    count = math.ceil(most / step - 1e-9)
    ticks = [round(step * number, 12) for number in range(count + 1)]
    return [int(tick) for tick in ticks] if step >= 1 else ticks


def _powers(values: Sequence[float]) -> list[float]:
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(values, default=1.0))))
    return [10.0**power for power in range(low, high + 1)]
