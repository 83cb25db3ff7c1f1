"""The progress of a run as one line: how far it is, how fast, how long it will take, and what it waits for.

On a narrow terminal the line loses words, then the names of what waits, and never numbers.

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

from dgs.workers.observing.blame import Blame, blame, shown_time
from dgs.workers.observing.figures import RunFigures
from dgs.workers.observing.pace_of_run import Rates

WAITING_SECONDS = 2.0
"""Shorter waits are part of the work, and are not shown."""

MINUTE, HOUR, DAY = 60, 3600, 86_400


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
        """Return the line, in at most `width` columns if that can be. `more`: words before the counts, that go first."""
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
    """Return the time of events that all streams have reached, None before that, and behind the end of all."""
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
