"""Rates of a run, from its figures over time: events per second now and on the whole, and the time that is left of bounded input.

>>> from dgs.workers.observing.figures import StreamFigures, WorkerFigures
>>> rates = Rates()
>>> for t in range(3):
...     rates.add(RunFigures(t=100.0 + t, events=10 * t, workers={"w": WorkerFigures(0, 10 * t)},
...               streams={"s": StreamFigures(rows=10 * t, events=10 * t, share=t / 10)}))
>>> rates.now, rates.mean, rates.share, rates.seconds_left
(10.0, 10.0, 0.2, 8.0)
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from dgs.workers.observing.figures import RunFigures

RECENT_SECONDS = 5.0
"""The time over which the present rate is taken."""


class _Seen(NamedTuple):
    t: float
    events: int
    share: float | None


class Rates:
    """Rates of one run: `add` its figures one after the other."""

    def __init__(self) -> None:
        self._recent: deque[_Seen] = deque()
        self._first: _Seen | None = None
        self._generation = 0

    def add(self, figures: RunFigures) -> None:
        """Take the next figures. After a restart the counts begin at the checkpoint."""
        if figures.generation != self._generation:
            self._generation, self._first = figures.generation, None
            self._recent.clear()
        seen = _Seen(figures.t, figures.events, share_of(figures))
        self._first = self._first or seen
        self._recent.append(seen)
        while len(self._recent) > 2 and seen.t - self._recent[1].t >= RECENT_SECONDS:  # noqa: PLR2004 - two make a rate
            self._recent.popleft()

    @property
    def now(self) -> float | None:
        """Events per second of late, None before there are two figures."""
        return None if not self._recent else _rate(self._recent[0], self._recent[-1])

    @property
    def mean(self) -> float | None:
        """Events per second since this generation was first seen."""
        return None if self._first is None else _rate(self._first, self._recent[-1])

    @property
    def share(self) -> float | None:
        """How much of the input is processed, 0 to 1; None if that is not known."""
        return self._recent[-1].share if self._recent else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the end of the input, at the speed so far; None if that is not known."""
        if self._first is None:
            return None
        first, last = self._first, self._recent[-1]
        if first.share is None or last.share is None or last.share <= first.share:
            return None
        return (1 - last.share) * (last.t - first.t) / (last.share - first.share)


def _rate(first: _Seen, last: _Seen) -> float | None:
    return (last.events - first.events) / (last.t - first.t) if last.t > first.t else None


def share_of(figures: RunFigures) -> float | None:
    """Return how much of the input a run has processed, 0 to 1; None unless every stream says how much of it is read.

    Streams count by their rows. What was read and is not processed yet does not count.

    >>> from dgs.workers.observing.figures import StreamFigures, WorkerFigures
    >>> read = {"a": StreamFigures(rows=50, events=50, share=0.5), "b": StreamFigures(rows=100, events=100, share=1.0)}
    >>> share_of(RunFigures(streams=read, workers={"w": WorkerFigures(0, events=75)}))
    0.375
    """
    if figures.phase == "done":
        return 1.0
    rows = total = 0.0
    for stream in figures.streams.values():
        if stream.share is None:
            return None
        rows += stream.rows
        total += stream.rows / stream.share if stream.share else 0.0
    read = sum(stream.events for stream in figures.streams.values())
    if not total or not read:
        return 0.0 if figures.streams else None
    processed = sum(worker.events for worker in figures.workers.values())
    return rows / total * min(processed / read, 1.0)
