"""The places of the workers of a plan in its drawing: the upper levels as cards, the levels below them folded into tiles.

A level is drawn as cards while it has few workers. Below the last such level each card has a block of tiles, one for each
worker of its subtree, and the sum of what they do: so 3, 20 and 200 workers are read in the same way.

>>> from dgs.view.moments import Placed
>>> small = layout((Placed("w0", None), Placed("w1", 0), Placed("w2", 0)))
>>> [box.worker for box in small.cards], small.tiles
([0, 1, 2], ())
>>> large = layout((Placed("w0", None), *(Placed(f"w{i}", 0) for i in range(1, 200))))
>>> len(large.cards), len(large.tiles), large.folded[0][:2]
(1, 199, (1, 2))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dgs.view.moments import Placed

CARD_WIDTH, NARROW, CARD_HEIGHT, GAP, LEVEL = 172, 104, 62, 12, 58
"""Pixels: the width of a card, and among many cards, the height of a card, and the gaps between cards and between levels."""

MOST_CARDS, MOST_LEVELS = 6, 5
"""The most cards in a level, and the most levels; workers that do not fit are folded."""

LARGE_TILES = 40
"""Folded workers that have room for their names and rates; more are small squares."""

LARGE, SMALL = (78, 38), (18, 18)
TOP, SIDE = 54, 22
_WIDEST = 670


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a worker: the middle of its upper edge, its width and height."""

    worker: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all workers. `folded`: for each card with tiles, the workers of its subtree."""

    cards: tuple[Box, ...]
    tiles: tuple[Box, ...]
    folded: dict[int, tuple[int, ...]]
    width: float
    height: float


def children_of(workers: Sequence[Placed]) -> list[list[int]]:
    """Return the positions of each worker's children."""
    children: list[list[int]] = [[] for _ in workers]
    for place, worker in enumerate(workers):
        if worker.parent is not None:
            children[worker.parent].append(place)
    return children


def below(worker: int, children: list[list[int]]) -> tuple[int, ...]:
    """Return the positions of all workers below one, parents first."""
    found: list[int] = []
    rest = list(reversed(children[worker]))
    while rest:
        found.append(rest.pop())
        rest += reversed(children[found[-1]])
    return tuple(found)


def layout(workers: Sequence[Placed]) -> Layout:
    """Return the places of the workers of a plan."""
    children = children_of(workers)
    levels = _levels(workers, children)
    last = set(levels[-1])
    shown = {worker for level in levels for worker in level}
    ends = [
        worker
        for worker in below_or_self(workers, children)
        if worker in shown and (worker in last or not children[worker])
    ]
    folded = {worker: below(worker, children) for worker in ends if children[worker]}
    size = LARGE if sum(map(len, folded.values())) <= LARGE_TILES else SMALL
    room = max(NARROW, (_WIDEST - GAP * (len(ends) - 1)) / len(ends))
    card_width = min(CARD_WIDTH, room)
    most = max(map(len, folded.values()), default=0)
    columns = max(1, min(most, math.floor((room + 4) / (size[0] + 4))))
    block = max(card_width, columns * (size[0] + 4) - 4) if folded else card_width
    middles = {worker: SIDE + block / 2 + place * (block + GAP) for place, worker in enumerate(ends)}
    for level in reversed(levels):
        for worker in level:
            if worker not in middles:
                under = [middles[child] for child in children[worker]]
                middles[worker] = (min(under) + max(under)) / 2
    cards = [
        Box(worker, middles[worker], TOP + depth * (CARD_HEIGHT + LEVEL), card_width, CARD_HEIGHT)
        for depth, level in enumerate(levels)
        for worker in level
    ]
    tiles = [tile for card in cards for tile in _tiles(card, folded.get(card.worker, ()), columns, size)]
    floor = max(box.y + box.height for box in (*cards, *tiles))
    width = SIDE * 2 + len(ends) * (block + GAP) - GAP
    return Layout(tuple(cards), tuple(tiles), folded, width, floor + 14)


def below_or_self(workers: Sequence[Placed], children: list[list[int]]) -> list[int]:
    """Return the positions of all workers, parents first, children in order."""
    root = next(place for place, worker in enumerate(workers) if worker.parent is None)
    return [root, *below(root, children)]


def _levels(workers: Sequence[Placed], children: list[list[int]]) -> list[list[int]]:
    """Return the levels that are drawn as cards, the root's first."""
    levels = [[below_or_self(workers, children)[0]]]
    ended = 0
    while following := [child for worker in levels[-1] for child in children[worker]]:
        ended += sum(not children[worker] for worker in levels[-1])
        if ended + len(following) > MOST_CARDS or len(levels) == MOST_LEVELS:
            break
        levels.append(following)
    return levels


def _tiles(card: Box, folded: Sequence[int], columns: int, size: tuple[int, int]) -> list[Box]:
    width, height = size
    used = min(columns, max(1, len(folded)))
    left = card.x - (used * (width + 4) - 4) / 2 + width / 2
    top = card.y + card.height + 46
    return [
        Box(
            worker, left + place % columns * (width + 4), top + place // columns * (height + 4), width, height
        )
        for place, worker in enumerate(folded)
    ]
