"""The medians as a drawing in SVG: bars on a logarithmic scale, one group per application.

>>> row = {"app": "fraud", "engine": "loop", "mode": "scalar", "leaves": 1, "hosts": 1, "eps": 5e6, "problem": None}
>>> drawing = as_svg([row])
>>> drawing.count("<rect"), "5.00 M/s" in drawing
(1, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

BAR, GAP, LABEL, SPAN, VALUE = 14, 22, 250, 480, 90
"""Pixels: the height of a bar with its gap, the gap between groups, and the widths of the three columns."""
COLOURS = {"loop": "#9aa0a6", "numpy": "#e8a33d", "local": "#3f7cac", "ray": "#5b9279"}


def as_svg(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the drawing of the rows of `medians`, without failed ones."""
    drawn = [row for row in rows if row["eps"] > 0 and not row["problem"]]
    powers = [math.log10(row["eps"]) for row in drawn]
    low, high = math.floor(min(powers, default=0)), math.ceil(max(powers, default=1))
    lines: list[str] = []
    top, app = GAP, None
    for row, power in zip(drawn, powers, strict=True):
        if row["app"] != app:
            app, top = row["app"], top + (GAP if app is not None else 0)
            lines.append(f'<text x="4" y="{top - 6}" font-weight="bold">{escape(app)}</text>')
        lines += _bar(row, top, SPAN * (power - low) / max(high - low, 1))
        top += BAR
    width, height = LABEL + SPAN + VALUE, top + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">'
    scale = f'<text x="{LABEL}" y="10">events per second, logarithmic from 10^{low} to 10^{high}</text>'
    return "\n".join([head, scale, *lines, "</svg>", ""])


def _bar(row: Mapping[str, Any], top: int, length: float) -> Iterator[str]:
    label = f"{row['engine']} {row['mode']}, {_count(row['leaves'], 'leaf')}, {_count(row['hosts'], 'host')}"
    colour = COLOURS.get(row["engine"].partition("-")[0], "#9aa0a6")
    yield f'<text x="12" y="{top + BAR - 4}">{escape(label)}</text>'
    yield f'<rect x="{LABEL}" y="{top}" width="{max(length, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>'
    yield f'<text x="{LABEL + length + 4:.1f}" y="{top + BAR - 4}">{row["eps"] / 1e6:,.2f} M/s</text>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {'leaves' if noun == 'leaf' else noun + 's'}"
