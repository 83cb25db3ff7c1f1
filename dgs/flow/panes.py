"""Windows over blocks and over counts, and the queue of panes that makes a sliding window cheap.

>>> sliding("10s").blocks(1000), tumbling("10s").blocks(5000), count(10, 5)
((10, 1), (2, 2), CountWindow(size=10, slide=5, partial='drop', allow_gaps=False))
>>> panes = Panes(lambda a, b: a + b, 0)
>>> queue = panes.empty()
>>> for block, number in enumerate([1, 2, 4, 8]): panes.push(queue, block, number)
>>> panes.drop_before(queue, 2), panes.total(queue)
(None, 12)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dgs.flow.clock import Duration, ticks_of
from dgs.flow.mistakes import checks_call

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

    `partial`: whether windows that the end of the input cuts short are emitted or dropped.
    """

    size: int
    slide: int
    partial: Partial = "drop"
    allow_gaps: bool = False


Window = TimeWindow | CountWindow


@checks_call
def tumbling(size: Duration) -> TimeWindow:
    """Return windows side by side: each element is in one."""
    return TimeWindow(size, size)


@checks_call
def sliding(size: Duration, slide: Duration | None = None, *, allow_gaps: bool = False) -> TimeWindow:
    """Return windows of the last `size` of time, at every multiple of `slide`, by default at the end of every block."""
    return TimeWindow(size, slide, allow_gaps)


@checks_call
def count(
    size: int, slide: int | None = None, *, partial: Partial = "drop", allow_gaps: bool = False
) -> CountWindow:
    """Return windows of `size` elements of one key, one every `slide` elements."""
    return CountWindow(size, size if slide is None else slide, partial, allow_gaps)


PaneQueue = list[Any]
"""[old, young, total of the young]. `old`: (block, total of this pane and of the younger ones in `old`), the oldest last."""


class Panes:
    """Queues of panes, each in two stacks: pushing, dropping the oldest and the total take constant time, for any monoid.

    A queue is plain data. `join` must not change its arguments.
    """

    def __init__(self, join: Callable[[Any, Any], Any], identity: Any) -> None:
        self._join = join
        self._identity = identity

    def empty(self) -> PaneQueue:
        """Return a queue without panes."""
        return [[], [], self._identity]

    def push(self, queue: PaneQueue, block: int, state: Any) -> None:
        """Add the pane of a later block."""
        queue[1].append((block, state))
        queue[2] = self._join(queue[2], state)

    def drop_before(self, queue: PaneQueue, block: int) -> None:
        """Drop the panes of the blocks before this one."""
        old, young, _ = queue
        while old and old[-1][0] < block:
            old.pop()
        if old or not young or young[0][0] >= block:
            return
        total = self._identity
        while young and young[-1][0] >= block:
            number, state = young.pop()
            total = self._join(state, total)
            old.append((number, total))
        queue[1], queue[2] = [], self._identity

    def slide(self, queue: PaneQueue, block: int) -> Any:
        """Drop the panes of the blocks before this one; return all others joined."""
        old, young, total = queue
        if old and old[-1][0] < block:  # usually only the oldest pane leaves
            old.pop()
        if old:
            if old[-1][0] >= block:
                return self._join(old[-1][1], total)
        elif not young or young[0][0] >= block:
            return total
        self.drop_before(queue, block)
        return self.total(queue)

    def total(self, queue: PaneQueue) -> Any:
        """Return all panes joined."""
        old, _, young = queue
        return self._join(old[-1][1], young) if old else young
