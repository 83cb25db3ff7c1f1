"""Plans as SVG, with a layout of our own: boxes with lines, readable on light and dark backgrounds.

>>> from dgs.model.impl_tags import ImplTagSet
>>> drawn = as_svg(Plan(PlanNode("<w0>", ImplTagSet())))
>>> drawn.startswith("<svg "), "&lt;w0&gt;" in drawn
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dgs.planner.drawing.labels import lines
from dgs.planner.plan import Plan, PlanNode

CHARACTER, LINE, PADDING, GAP, DROP = 6.7, 16, 8, 18, 36
"""Sizes in pixels: width of a character, height of a line, margin around text, gaps between boxes and between levels."""

STYLE = (
    "<style>rect{fill:#eef3fb;stroke:#4a6fa5}.leaf rect{fill:#e9f6ec;stroke:#3d8b57}"
    "path{fill:none;stroke:#8a94a6}text{font:11px monospace;fill:#1d2733}.id{font-weight:bold}</style>"
)


def as_svg(plan: Plan) -> str:
    """Return the plan as an SVG document."""
    nodes = list(plan.nodes())
    position = {id(node): i for i, node in enumerate(nodes)}
    children = [[position[id(child)] for child in node.children] for node in nodes]
    labels = [lines(node, plan) for node in nodes]
    widths = [2 * PADDING + CHARACTER * max(map(len, label)) for label in labels]
    heights = [2 * PADDING + LINE * len(label) for label in labels]
    centres = tidy(widths, children, gap=GAP)
    tops = _tops(children, heights)
    width = max(x + w / 2 for x, w in zip(centres, widths, strict=True)) + 2 * PADDING
    height = max(y + h for y, h in zip(tops, heights, strict=True)) + 2 * PADDING
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img">',
        STYLE,
    ]
    parts.append(f'<g transform="translate({PADDING} {PADDING})">')
    for i, below in enumerate(children):
        parts += [_line(centres[i], tops[i] + heights[i], centres[j], tops[j]) for j in below]
    for i, node in enumerate(nodes):
        parts.append(_box(node, labels[i], (centres[i] - widths[i] / 2, tops[i]), (widths[i], heights[i])))
    return "\n".join([*parts, "</g></svg>"])


def _tops(children: Sequence[Sequence[int]], heights: Sequence[float]) -> list[float]:
    """Return the upper edge of each box: a level starts below the highest box of the one above."""
    tops = [0.0] * len(heights)
    level, top = [0], 0.0
    while level:
        for i in level:
            tops[i] = top
        top += max(heights[i] for i in level) + DROP
        level = [j for i in level for j in children[i]]
    return tops


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (y1 + y2) / 2
    return f'<path d="M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"/>'


def _box(node: PlanNode, label: Sequence[str], corner: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height) = corner, size
    kinds = ["id"] + ["tags"] * (len(label) - 1)
    rows = [
        f'<text class="{kind}" x="{x + PADDING:.1f}" y="{y + PADDING + LINE * i + 12:.1f}">{escape(_printable(line))}</text>'
        for i, (kind, line) in enumerate(zip(kinds, label, strict=True))
    ]
    rect = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
    return f'<g class="{"leaf" if node.is_leaf else "inner"}">{rect}{"".join(rows)}</g>'


def _printable(text: str) -> str:
    """Return text without control characters: XML does not allow them, escaped or not."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


@dataclass(slots=True)
class _Block:
    """A subtree: its extent per level and the centres of its children, relative to its root's centre."""

    left: list[float]
    right: list[float]
    offsets: list[float]


def tidy(widths: Sequence[float], children: Sequence[Sequence[int]], *, gap: float) -> list[float]:
    """Return the horizontal centre of every box, the leftmost edge at 0; box 0 is the root.

    `widths` are those of the boxes, `children` their positions; parents come before their children. Parents are centred over their
    children. Each subtree is laid out once and knows its left and right contour by level; siblings move apart until their contours
    are `gap` from each other, so no two boxes overlap.

    >>> tidy([3.0, 2.0, 2.0], [[1, 2], [], []], gap=1.0)
    [2.5, 1.0, 4.0]
    """
    blocks: list[_Block | None] = [None] * len(widths)
    for i in reversed(range(len(widths))):
        below = [block for j in children[i] if (block := blocks[j]) is not None]
        blocks[i] = _over(widths[i], below, gap)
        for j in children[i]:
            kept = blocks[j]
            if kept is not None:
                kept.left, kept.right = [], []  # only the offsets are needed from here on
    centres = [0.0] * len(widths)
    for i, block in enumerate(blocks):
        for j, offset in zip(children[i], block.offsets if block else [], strict=True):
            centres[j] = centres[i] + offset
    shift = min(centre - width / 2 for centre, width in zip(centres, widths, strict=True))
    return [centre - shift for centre in centres]


def _over(width: float, below: Sequence[_Block], gap: float) -> _Block:
    """Return a box centred over subtrees that are moved side by side."""
    left: list[float] = []
    right: list[float] = []
    places: list[float] = []
    for block in below:
        apart = max((r + gap - b for r, b in zip(right, block.left, strict=False)), default=0.0)
        places.append(apart)
        left += [apart + edge for edge in block.left[len(left) :]]
        right[: len(block.right)] = [apart + edge for edge in block.right]
    middle = (places[0] + places[-1]) / 2 if places else 0.0
    return _Block(
        [-width / 2, *(edge - middle for edge in left)],
        [width / 2, *(edge - middle for edge in right)],
        [place - middle for place in places],
    )
