"""A generator as a live source: its rows pass at a given rate, by the clock. Their times do not change.

Row n is due n / rate seconds after the host began to read. When a run resumes, events that it has already processed pass at once,
and the pace begins at the first new event. A row that is due waits up to `linger` for more, so that a batch is worth its cost. With a
`linger` of 0 no row waits. At rates of a row every few microseconds reading alone would then keep a core busy, so rows come in slices of
half a millisecond.

>>> import numpy as np
>>> clock = [0]
>>> rows = Arrivals(0, np.array([10, 20, 30, 40]))
>>> paced = Paced(iter([rows]), rate=1000, time=LiveTime(linger=2_000_000, elapsed=lambda: clock[0]), batch_rows=100)
>>> paced.wait()                                        # the first row is due, and may wait 2 ms for others
0.002
>>> clock[0] = 2_000_000
>>> paced.wait(), next(paced).ts
(0.0, array([10, 20, 30]))
>>> clock[0] = 2_500_000
>>> paced.reached()                                     # half way from the row at 30 to the row at 40
35
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from dgs.model.order import OrderKey
from dgs.workers.sources.rows import SECOND, Arrivals, Live, LiveTime, nothing

SHORTEST_AHEAD = 10**7
"""Rows of this many nanoseconds are taken from the generator at once, even with `linger` 0: single rows would cost too much."""

SLICE = 500_000
"""Nanoseconds. At more than one row in this time, rows wait this long for others, even if `linger` is shorter."""


class Paced(Live):
    """Lets rows through at `rate` per second, at most `batch_rows` at a time.

    It always holds the next row, to know whether there is one and how far time has advanced before it.
    """

    def __init__(self, arrivals: Iterator[Arrivals], *, rate: float, time: LiveTime, batch_rows: int) -> None:
        self._arrivals = arrivals
        self._rate = rate
        self._time = time
        self._linger = max(time.linger, SLICE) if rate * SLICE > SECOND else time.linger
        self._batch_rows = batch_rows
        self._passed = 0
        self._latest: int | None = None
        self._ahead: Arrivals | None = None
        self._position = 0
        self._is_started = False
        self._base: OrderKey | None = None
        self._first = 0
        self._began = 0

    def begin_at(self, base: OrderKey) -> None:
        """Let the events before the first one at or above `base` pass at once. The pace begins at that event."""
        self._base = base

    def wait(self) -> float:
        """Return the seconds until a batch is due: until it has `batch_rows` rows, or its first row has waited for `linger`."""
        self._start()
        # The end, heartbeats, and rows from before a resume do not wait.
        if self._ahead is None or not len(self._ahead) or self._known():
            return 0.0
        full = self._due(self._passed + self._batch_rows - 1)
        return max(0, min(full, self._due(self._passed) + self._linger) - self._time.elapsed()) / SECOND

    def __next__(self) -> Arrivals:
        """Return the rows that are due, at most one piece of the generator; no rows if `wait` is not over."""
        if self.wait() > 0:
            return nothing(self._passed)
        whole = self._ahead
        if whole is None:
            raise StopIteration
        start = self._position
        stop = min(len(whole), start + self._batch_rows, start + (self._known() or self._rows_due()))
        self._passed += stop - start
        self._position = stop
        if stop > start:
            self._latest = int(whole.ts[stop - 1])
        if stop == len(whole):
            self._pull()
        return whole.cut(start, stop)

    def reached(self) -> int | None:
        """Return the time that the stream has reached by its pace, between the last row that passed and the next one.

        None before the first row, and if the next row goes back in time. The result is never above the time of the next row.
        """
        self._start()
        if self._latest is None or self._ahead is None or not len(self._ahead):
            return None
        step = int(self._ahead.ts[self._position]) - self._latest
        if step < 0:
            return None
        since = self._time.elapsed() - self._due(self._passed - 1)
        share = min(1.0, max(0.0, since * self._rate / SECOND))
        return self._latest + int(step * share)

    def close(self) -> None:
        """Close the generator."""
        if isinstance(self._arrivals, Generator):
            self._arrivals.close()

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._time.elapsed()  # the first call starts the clock
            self._pull()

    def _pull(self) -> None:
        self._ahead, self._position = next(self._arrivals, None), 0
        if self._ahead is not None:
            self._passed = self._ahead.first

    def _known(self) -> int:
        """Return how many of the next rows in this piece a resumed run has processed. The pace begins at the first new row."""
        if self._base is None or self._ahead is None:
            return 0
        ts, row = self._ahead.ts[self._position :], self._passed
        is_new = (ts > self._base.ts) | (
            (ts == self._base.ts) & (np.arange(row, row + len(ts)) >= self._base.seq)
        )
        known = int(is_new.argmax()) if is_new.any() else len(ts)
        if not known and len(ts):
            self._base, self._first, self._began = None, row, self._time.elapsed()
        return known

    def _due(self, row: int) -> int:
        return self._began + int((row - self._first) * SECOND / self._rate)

    def _rows_due(self) -> int:
        """Return how many rows are due. It is at least one, since this is called only when a row is due."""
        elapsed = self._time.elapsed() - self._began
        return max(1, int(elapsed * self._rate / SECOND) + 1 + self._first - self._passed)


def rows_ahead(rate: float, linger: int, most: int) -> int:
    """Return how many rows to take from a paced generator at once, not long before they are due.

    >>> rows_ahead(100_000, 5_000_000, 16_384), rows_ahead(10, 5_000_000, 16_384)
    (1000, 1)
    """
    return max(1, min(most, int(rate * max(linger, SHORTEST_AHEAD) / SECOND)))
