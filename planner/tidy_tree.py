"""A tidy layout for trees of boxes: levels in rows, parents centred over their children, subtrees close.

Each subtree is laid out once and knows its left and right contour by level; siblings move apart until their contours are
`gap` from each other. No two boxes overlap.

>>> boxes = tidy([3.0, 2.0, 2.0], [[1, 2], [], []], gap=1.0)
>>> boxes
[2.5, 1.0, 4.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Block:
    """A subtree: its extent per level relative to its root's centre, and where its children's centres are."""

    left: list[float]
    right: list[float]
    offsets: list[float]


def tidy(widths: Sequence[float], children: Sequence[Sequence[int]], *, gap: float) -> list[float]:
    """Return the horizontal centre of every box, the leftmost edge at 0; box 0 is the root.

    `widths` are those of the boxes, `children` their positions; parents come before their children.
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
