"""The common part of live sources: events arrive by a clock, and reading neither runs ahead of it nor waits for it.

A `Live` is the stage of a source before its ordering. It never blocks, and says how long there will be no events. Clocks are
arguments, in nanoseconds, so that tests need no real one.

>>> time = LiveTime(linger=5_000_000, elapsed=lambda: 0, now=lambda: 1_700_000_000 * 10**9)
>>> time.now() // 10**9
1700000000
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dgs.model.order import OrderKey
from dgs.workers.sources.rows import NO_BEATS, Arrivals, Beats

SECOND = 10**9
"""A second in nanoseconds."""


class Live(ABC, Iterator[Arrivals]):
    """Events as they arrive. Laws: `next` never blocks; StopIteration means that nothing will ever come again."""

    @abstractmethod
    def wait(self) -> float:
        """Return the seconds until `next` may return events, 0 for now. Before that it returns none."""

    def begin_at(self, base: OrderKey) -> None:
        """Note, before the first call of `next`, that a run resumes at this key. Events below it need not wait for a clock."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open. It may be called twice."""


@dataclass(frozen=True)
class LiveTime:
    """The clocks that the live sources of one host share, in nanoseconds.

    `linger`: how long a row may wait for more. `elapsed`: since the host began to read, by a clock that never jumps.
    `now`: since 1970-01-01 UTC.
    """

    linger: int
    elapsed: Callable[[], int]
    now: Callable[[], int] = time.time_ns


class Stopwatch:
    """Nanoseconds since its first call, by the clock of this machine. `began`: the time of that call, None before.

    >>> watch = Stopwatch(iter([500, 520]).__next__)
    >>> watch(), watch(), watch.began
    (0, 20, 500)
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self.began: int | None = None

    def __call__(self) -> int:
        """Return the time since the first call."""
        now = self._clock()
        if self.began is None:
            self.began = now
        return now - self.began


def nothing(first: int, beat: int | None = None) -> Arrivals:
    """Return an Arrivals without rows, before row `first`, with or without a heartbeat."""
    beats = NO_BEATS if beat is None else Beats((0,), np.array([beat], dtype=np.int64))
    return Arrivals(first, np.empty(0, dtype=np.int64), beats=beats)
