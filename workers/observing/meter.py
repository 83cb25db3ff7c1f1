"""A meter of where the time of a host goes: to its workers' updates, forks and joins, to its sinks, and to nothing.

There is one clock reading at each change, so the parts add up to the whole.

>>> times = iter(range(0, 100, 10))
>>> meter = Meter(clock=times.__next__)
>>> meter.turn("w0")                     # 0 to 10: nothing
>>> before = meter.enter(FORK)           # 10 to 20: update
>>> _ = meter.enter(before)              # 20 to 30: fork
>>> meter.rest()                         # 30 to 40: update
>>> meter.of("w0"), meter.elapsed
(Spent(update=20.0, fork=10.0, join=0.0, sink=0.0), 40)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UPDATE, FORK, JOIN, SINK = range(4)
"""The activities of a worker in its turn. Everything that is none of the others counts as update."""


class Spent(NamedTuple):
    """The seconds of a worker so far. `sink`: while sinks took its outputs."""

    update: float = 0.0
    fork: float = 0.0
    join: float = 0.0
    sink: float = 0.0


class NoMeter:
    """A meter that measures nothing, and asks no clock."""

    def turn(self, worker: str) -> None:
        """Note that a worker begins to act."""

    def enter(self, part: int) -> int:  # noqa: ARG002 - the signature of Meter
        """Note that the worker begins a part of its work; return the part that it was in."""
        return UPDATE

    def rest(self) -> None:
        """Note that no worker acts."""

    def of(self, worker: str) -> Spent:  # noqa: ARG002 - the signature of Meter
        """Return the seconds of a worker so far."""
        return Spent()

    @property
    def elapsed(self) -> float:
        """The seconds since the meter began."""
        return 0.0


NO_METER = NoMeter()


class Meter(NoMeter):
    """Measures. `clock`: seconds, of which only differences matter."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._spent: dict[str, list[float]] = {}
        self._account, self._part = [0.0] * 4, UPDATE  # the first account is nobody's

    def _pass(self) -> None:
        now = self._clock()
        self._account[self._part] += now - self._last
        self._last = now

    def turn(self, worker: str) -> None:
        """Note that a worker begins to act."""
        self._pass()
        self._account = self._spent.setdefault(worker, [0.0] * 4)
        self._part = UPDATE

    def enter(self, part: int) -> int:
        """Note that the worker begins a part of its work; return the part that it was in."""
        # No further call: this happens several times a synchronisation.
        before, now = self._part, self._clock()
        self._account[before] += now - self._last
        self._last, self._part = now, part
        return before

    def rest(self) -> None:
        """Note that no worker acts."""
        self._pass()
        self._account, self._part = [0.0] * 4, UPDATE

    def of(self, worker: str) -> Spent:
        """Return the seconds of a worker so far."""
        return Spent(*self._spent.get(worker, ()))

    @property
    def elapsed(self) -> float:
        """The seconds since the meter began."""
        return self._last - self._began
