"""Windows over blocks and over counts, and the queue of panes that makes a sliding window cheap.

>>> sliding("10s").blocks(1000), tumbling("10s").blocks(5000), count(10, 5)
((10, 1), (2, 2), CountWindow(size=10, slide=5, partial='drop', allow_gaps=False))
>>> panes = PaneQueue(lambda a, b: a + b, 0)
>>> for block, number in enumerate([1, 2, 4, 8]): panes.push(block, number)
>>> panes.drop_before(2), panes.total()
(None, 12)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dgs.flow.clock import Duration, ticks_of

Partial = Literal["emit", "drop"]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The last `size` of time, at every multiple of `slide`; `slide` None: at the end of every block."""

    size: Duration
    slide: Duration | None = None
    allow_gaps: bool = False

    def blocks(self, period: int) -> tuple[int, int]:
        """Return size and slide in blocks of a clock's period."""
        size = ticks_of(self.size) or 0
        slide = period if self.slide is None else ticks_of(self.slide) or 0
        return size // period, slide // period


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of `size` elements of one key, which start at element 0, `slide`, 2 `slide` ...

    `partial`: whether those that the end of the input cuts short are emitted or dropped.
    """

    size: int
    slide: int
    partial: Partial = "drop"
    allow_gaps: bool = False


Window = TimeWindow | CountWindow


def tumbling(size: Duration) -> TimeWindow:
    """Return windows side by side: each element is in one."""
    return TimeWindow(size, size)


def sliding(size: Duration, slide: Duration | None = None, *, allow_gaps: bool = False) -> TimeWindow:
    """Return windows of the last `size` of time, at every multiple of `slide`, by default at the end of every block."""
    return TimeWindow(size, slide, allow_gaps)


def count(
    size: int, slide: int | None = None, *, partial: Partial = "drop", allow_gaps: bool = False
) -> CountWindow:
    """Return windows of `size` elements of one key, one every `slide` elements."""
    return CountWindow(size, size if slide is None else slide, partial, allow_gaps)


class PaneQueue:
    """A queue of panes in two stacks: pushing, dropping the oldest and the total take constant time each, for any monoid.

    `old` has (block, total of this pane and the younger ones in `old`), the oldest last; `young` the panes behind them.
    `join` must not change its arguments.
    """

    __slots__ = ("_identity", "_join", "old", "sum", "young")

    def __init__(self, join: Callable[[Any, Any], Any], identity: Any) -> None:
        self._join = join
        self._identity = identity
        self.old: list[tuple[int, Any]] = []
        self.young: list[tuple[int, Any]] = []
        self.sum = identity

    def __bool__(self) -> bool:
        return bool(self.old or self.young)

    def push(self, block: int, state: Any) -> None:
        """Add the pane of a later block."""
        self.young.append((block, state))
        self.sum = self._join(self.sum, state)

    def drop_before(self, block: int) -> None:
        """Drop the panes of the blocks before this one."""
        while self.old and self.old[-1][0] < block:
            self.old.pop()
        if self.old or not self.young or self.young[0][0] >= block:
            return
        total = self._identity
        while self.young and self.young[-1][0] >= block:
            number, state = self.young.pop()
            total = self._join(state, total)
            self.old.append((number, total))
        self.young, self.sum = [], self._identity

    def total(self) -> Any:
        """Return all panes joined."""
        return self._join(self.old[-1][1], self.sum) if self.old else self.sum

    def __iter__(self) -> Iterator[int]:
        return iter([number for number, _ in reversed(self.old)] + [number for number, _ in self.young])
