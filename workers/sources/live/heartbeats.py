"""Heartbeats of live sources: they advance the frontier of a quiet stream, so that others need not wait for it.

When no rows have come for `every`, and again after each further `every`, the stream's frontier moves to the time it has
*reached*, minus `max_delay`. An event that arrives with a smaller time is disorder, which `on_disorder` handles.

A stream with real times has reached the present by the clock of this machine, in the plan's unit (`Wall`). A paced generator may
have any times; it has reached the time that its pace gives (`Paced.reached`).

>>> class Mute(Live):
...     def wait(self): return 60.0
...     def __next__(self): return nothing(7)
...     def close(self): pass
>>> clock = [0]
>>> beating = Heartbeats(Mute(), every=10**9, max_delay=5, clock=lambda: clock[0], reached=lambda: 100)
>>> beating.wait()
1.0
>>> clock[0] = 10**9
>>> beating.wait(), next(beating).beats.ts                 # nothing up to 94: the frontier is 95
(0.0, array([94]))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.model.order import MIN_TS, OrderKey
from dgs.workers.sources.live.decisions import Decisions, Replay
from dgs.workers.sources.rows import SECOND, Arrivals, Live, nothing


class Heartbeats(Live):
    """A live source with heartbeats. `every`: nanoseconds by `clock`. `max_delay` and `reached` are in the plan's unit.

    `reached` returns None if the time is not known. `decisions`: those of the run so far; new ones are noted there before they take effect.
    `notes_rows`: also note which rows pass. Laws: heartbeats only grow; a row that comes again has the same heartbeats before it.
    """

    def __init__(
        self,
        source: Live,
        *,
        every: int,
        max_delay: int,
        clock: Callable[[], int],
        reached: Callable[[], int | None],
        decisions: Decisions | None = None,
        notes_rows: bool = False,
    ) -> None:
        self._source = source
        self._every = every
        self._max_delay = max_delay
        self._clock = clock
        self._reached = reached
        self._decisions = decisions or Decisions()
        self._replay = Replay(self._decisions)
        self._notes_rows = notes_rows
        self._ready: deque[Arrivals] = deque()
        self._row = 0
        self._quiet_since: int | None = None

    def wait(self) -> float:
        """Return the seconds until rows or the next heartbeat are due."""
        wait = 0.0 if self._ready else self._source.wait()
        return min(wait, self._until_beat() / SECOND) if wait > 0 else 0.0

    def __next__(self) -> Arrivals:
        """Return rows if there are any, else a heartbeat if it is time. Raises OutputUnwritableError."""
        if not self._ready and self._source.wait() <= 0:
            self._ready.extend(self._arrived(next(self._source)))
        if self._ready:
            return self._ready.popleft()
        if self._until_beat() > 0:
            return nothing(self._row)
        self._quiet_since = self._clock()
        reached = self._reached()
        beat = MIN_TS if reached is None else reached - self._max_delay - 1
        # a replay: these rows were read before
        if beat <= self._replay.beat or self._row < self._decisions.rows:
            return nothing(self._row)
        self._decisions.note(self._row, beat)
        self._replay.beat = beat
        return nothing(self._row, beat)

    def begin_at(self, base: OrderKey) -> None:
        """Pass the key on to the source."""
        self._source.begin_at(base)

    def close(self) -> None:
        """Close the source, and the file of decisions."""
        self._source.close()
        self._decisions.close()

    def _arrived(self, arrivals: Arrivals) -> Iterator[Arrivals]:
        if len(arrivals) or arrivals.beats.before:
            self._quiet_since = self._clock()
        self._row = max(self._row, arrivals.first + len(arrivals))
        if self._notes_rows and len(arrivals) and self._row > self._decisions.rows:
            self._decisions.note(self._row)
        return self._replay.merged(arrivals)

    def _until_beat(self) -> int:
        now = self._clock()
        if self._quiet_since is None:
            self._quiet_since = now
        return max(0, self._quiet_since + self._every - now)


class Wall:
    """The time that streams with real times have reached: now, in the plan's unit, since 1970-01-01 UTC, rounded down.

    >>> Wall("s", clock=lambda: 1_999_999_999)()
    1
    """

    def __init__(self, unit: TimeUnit, *, clock: Callable[[], int]) -> None:
        self._nanoseconds = NANOSECONDS[unit]
        self._clock = clock

    def __call__(self) -> int:
        """Return the time."""
        return self._clock() // self._nanoseconds


def delay_in(unit: TimeUnit, nanoseconds: int) -> int:
    """Return a delay in the plan's unit, rounded up, so that an event just within the delay is in time.

    >>> delay_in("ms", 1_500_000)
    2
    """
    return -(-nanoseconds // NANOSECONDS[unit])
