"""Partial states of windows, encoded for the way from tasks to driver, in chunks of the same windows at all leaves.

>>> rows = list(chunks([(0, "a"), (1, "b"), (WINDOWS_A_CHUNK, "c")]))
>>> [(chunk, codec.decode(data)) for chunk, data in rows]
[(0, [(0, 'a'), (1, 'b')]), (1, [(256, 'c')])]
>>> list(joined([[(0, "a"), (1, "b")], [(1, "d"), (3, "e")]], lambda left, right: left + right).items())
[(0, 'a'), (1, 'bd'), (3, 'e')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from dgs import codec
from dgs.model.program import State

Window = tuple[int, State]
"""The number of a window, and its partial state."""

WINDOWS_A_CHUNK = 256
"""Windows in a chunk: a join holds this many states in memory."""

LARGEST_ROW = 8 * 2**20
"""Approximate limit on the bytes of a row of states; a single state may exceed it."""

FIRST = 16
"""States in the first row of a chunk, while their size is unknown."""


def chunks(windows: Iterable[Window]) -> Iterator[tuple[int, bytes]]:
    """Yield windows, sorted by number, as rows: the number of a chunk and encoded windows of it."""
    for chunk, part in groupby(windows, key=lambda window: window[0] // WINDOWS_A_CHUNK):
        for data in encoded(list(part)):
            yield chunk, data


def encoded(windows: Sequence[Window]) -> Iterator[bytes]:
    """Yield windows as encoded rows of limited size."""
    start, count = 0, FIRST
    while start < len(windows):
        data = codec.encode(list(windows[start : start + count]), keeps_order=True)
        yield data
        start += count
        count = max(1, count * LARGEST_ROW // len(data))


def joined(parts: Iterable[Iterable[Window]], join: Callable[[State, State], State]) -> dict[int, State]:
    """Return one state for each window, joined from left to right. The states given are not used again."""
    states: dict[int, State] = {}
    for part in parts:
        for number, state in part:
            states[number] = join(states[number], state) if number in states else state
    return dict(sorted(states.items()))
