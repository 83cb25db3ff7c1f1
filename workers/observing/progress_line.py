"""The progress of a run: its rates from figures over time, and one line of how far it is, how fast, how long it will take, and what it waits for.

On a narrow terminal the line first loses words, then the names of what waits, but no numbers.

>>> from dgs.workers.observing.figures import StreamFigures, WorkerFigures
>>> shown = Progressing()
>>> for t in range(3):
...     shown.add(RunFigures(t=100.0 + t, name="sums", events=500 * t, outputs=t, workers={"w": WorkerFigures(0, 500 * t)},
...               streams={"s": StreamFigures(rows=500 * t, events=500 * t, frontier=70 + t, heard=100.0 + t, share=t / 8)}))
>>> shown.line()
'sums: 25 %, 1,000 events, 2 outputs, 500 events/s (500 on average), 6 s to go, event time 72'
>>> shown.line(width=60)
'sums 25% 1,000 ev 2 out 500/s (500) 6 s left at 72'
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from dgs.workers.observing.blame import Blame, blame, shown_time
from dgs.workers.observing.figures import RunFigures

WAITING_SECONDS = 2.0
"""Shorter waits are part of the work, and are not shown."""

MINUTE, HOUR, DAY = 60, 3600, 86_400

RECENT_SECONDS = 5.0
"""The time over which the current rate is measured."""


LATE_PART, LATE_SECONDS, MOST_LATE = 1 / 3, 5.0, 200
"""The seconds left follow from the speed in the last part of the time so far, which lasts at least LATE_SECONDS; about so many figures of
it are kept."""


class _Seen(NamedTuple):
    t: float
    events: int
    share: float | None


class Rates:
    """Rates of one run: `add` its figures one after the other."""

    def __init__(self) -> None:
        self._recent: deque[_Seen] = deque()
        self._late: deque[_Seen] = deque()
        self._first: _Seen | None = None
        self._generation = 0

    def add(self, figures: RunFigures) -> None:
        """Take the next figures. After a restart the counts begin at the checkpoint, sometimes before the figures name the new generation."""
        if figures.generation != self._generation or (
            self._recent and figures.events < self._recent[-1].events
        ):
            self._generation, self._first = figures.generation, None
            self._recent.clear()
            self._late.clear()
        seen = _Seen(figures.t, figures.events, share_of(figures))
        if self._first is None or (self._first.share is None and seen.share is not None):
            self._first = seen  # the first figures of a generation know no stream yet
        self._recent.append(seen)
        while len(self._recent) > 2 and seen.t - self._recent[1].t >= RECENT_SECONDS:  # noqa: PLR2004 - two make a rate
            self._recent.popleft()
        self._keep_late(seen, seen.t - self._first.t)

    def _keep_late(self, seen: _Seen, elapsed: float) -> None:
        """Keep the shares of the recent past only."""
        late = self._late
        if seen.share is not None and (not late or seen.t - late[-1].t >= elapsed * LATE_PART / MOST_LATE):
            late.append(seen)
        while len(late) > 2 and seen.t - late[1].t >= max(LATE_PART * elapsed, LATE_SECONDS):  # noqa: PLR2004
            late.popleft()

    @property
    def now(self) -> float | None:
        """Recent events per second, None before there are two figures."""
        return None if not self._recent else _events_per_second(self._recent[0], self._recent[-1])

    @property
    def mean(self) -> float | None:
        """Events per second since this generation was first seen."""
        return None if self._first is None else _events_per_second(self._first, self._recent[-1])

    @property
    def share(self) -> float | None:
        """The share of the input that is processed, 0 to 1; None if that is not known."""
        return self._recent[-1].share if self._recent else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the end of the input, at the recent speed; None if that is not known."""
        if not self._late:
            return None
        first, last = self._late[0], self._recent[-1]
        if first.share is None or last.share is None or last.share <= first.share:
            return None
        return (1 - last.share) * (last.t - first.t) / (last.share - first.share)


def _events_per_second(first: _Seen, last: _Seen) -> float | None:
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


class Progressing:
    """The progress of a run: it takes the figures as they come, and makes a line of the newest."""

    def __init__(self) -> None:
        self._rates = Rates()
        self._figures = RunFigures()

    def add(self, figures: RunFigures) -> None:
        """Take the next figures."""
        self._figures = figures
        self._rates.add(figures)

    def line(self, *, width: int | None = None, more: str = "") -> str:
        """Return the line, if possible in at most `width` columns. `more`: words before the counts, which are dropped first."""
        cause = blame(self._figures, after=WAITING_SECONDS)
        lines = [self._long(cause, more), self._long(cause, ""), self._short(cause), self._short(None)]
        return next((line for line in lines if width is None or len(line) <= width), lines[-1])

    def _long(self, cause: Blame | None, more: str) -> str:
        figures, rates = self._figures, self._rates
        lag = lag_of(figures)
        parts = [
            more,
            "" if rates.share is None else f"{rates.share:.0%}".replace("%", " %"),
            f"{figures.events:,} events",
            f"{figures.outputs:,} outputs",
            _rate(rates, "{:,.0f} events/s", " ({:,.0f} on average)"),
            "" if rates.seconds_left is None else f"{duration(rates.seconds_left)} to go",
            "" if rates.share is not None or lag is None else f"{duration(lag)} behind",
            _watermark(figures, "event time {}"),
            figures.phase if figures.phase in ("restarting", "stopping") else "",
            "" if cause is None else cause.sentence,
        ]
        return f"{figures.name}: {', '.join(filter(None, parts))}"

    def _short(self, cause: Blame | None) -> str:
        figures, rates = self._figures, self._rates
        lag = lag_of(figures)
        parts = [
            figures.name,
            "" if rates.share is None else f"{rates.share:.0%}",
            f"{figures.events:,} ev {figures.outputs:,} out",
            _rate(rates, "{:,.0f}/s", " ({:,.0f})"),
            "" if rates.seconds_left is None else f"{duration(rates.seconds_left)} left",
            "" if rates.share is not None or lag is None else f"-{duration(lag)}",
            _watermark(figures, "at {}"),
            "" if cause is None else cause.short,
        ]
        return " ".join(filter(None, parts))


def _rate(rates: Rates, now: str, mean: str) -> str:
    if rates.now is None:
        return ""
    return now.format(rates.now) + ("" if rates.mean is None else mean.format(rates.mean))


def lag_of(figures: RunFigures) -> float | None:
    """Return how many seconds the stream furthest behind is behind the clock, None unless times are dates."""
    return max(
        (one.lag_seconds for one in figures.streams.values() if one.lag_seconds is not None), default=None
    )


def watermark_of(figures: RunFigures) -> int | None:
    """Return the time of events that all streams have reached, None before that and after the end of all streams."""
    frontiers = [stream.frontier for stream in figures.streams.values() if not stream.has_ended]
    known = [frontier for frontier in frontiers if frontier is not None]
    return min(known) if known and len(known) == len(frontiers) else None


def _watermark(figures: RunFigures, words: str) -> str:
    reached = watermark_of(figures)
    return "" if reached is None else words.format(shown_time(reached, figures.unit))


def duration(seconds: float) -> str:
    """Return a length of time in words.

    >>> [duration(seconds) for seconds in (0.4, 59.7, 61, 7_300, 200_000)]
    ['0 s', '1 min 0 s', '1 min 1 s', '2 h 1 min', '2 d 7 h']
    """
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"
