"""Bounds: every number by which the protocol chooses between ways that give the same outputs.

None of them may matter to outputs, states or positions. The simulation draws them for every seed, so that small workloads take every
way: production uses the defaults, which were measured.

What is in flight is bounded by time. Many synchronisations in flight hide the round trips to the children. But a keyless request, for
a checkpoint or a stop, waits for all earlier ones. So a `Window` has room for as many as complete within a quarter of a second, by
how long the last ones were in flight (Little's law).

>>> now = [0.0]
>>> window = Window(lambda: now[0])
>>> window.room, window.announce(4), window.room
(4, None, 0)
>>> now[0] += 0.001                     # all are complete after 1 ms
>>> window.complete(4), window.room
(None, 16)
>>> window.announce(16)
>>> now[0] += 1.0                       # from now on they are slow
>>> window.complete(16), window.room
(None, 4)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the workers and hosts of a run.

    In flight, at a worker with children: `first_in_flight` synchronisations before anything is known, `least_in_flight` at least,
    `growth` times as many after a round that was fast, for at most `seconds_in_flight` once it is known how long others took;
    `most_requests` of the parent are passed on at once where the subtree accumulates; `most_windows`, partial states that one answer
    of a leaf carries at most.

    Folding: up to `few_events` are folded one by one even where there is an `update_batch`, a call of which costs more;
    `events_at_once` are turned into Python objects at a time, so that their columns stay in the cache; where one event in `dense`
    emits, outputs are counted after every event; stretches of fewer than `short_stretch` events on average cost more than merging;
    `singly`, so many events for which `update_batch` has failed are folded with `update`.

    Lanes: up to `most_single_tags` listed tags of a kind with a predicate rule get a lane each, more share one; up to `few_lanes`, a
    pass over a batch for each is cheaper than sorting it; with more than `most_remembered` tags, those whose lane is known are forgotten.
    """

    first_in_flight: int = 4
    least_in_flight: int = 2
    growth: int = 4
    seconds_in_flight: float = 0.25
    most_requests: int = 4096
    most_windows: int = 4096
    few_events: int = 32
    events_at_once: int = 4096
    dense: int = 4
    short_stretch: int = 16
    singly: int = 32
    most_single_tags: int = 64
    few_lanes: int = 8
    most_remembered: int = 2**20


BOUNDS = Bounds()
"""The bounds of production."""

RESOLUTION = 1e-6
"""The least number of seconds that a round counts for."""

Clock = Callable[[], float]
"""Seconds, of which only differences matter."""


def no_time() -> float:
    """Return 0: with this clock everything happens at once."""
    return 0.0


class Window:
    """Counts synchronisations in flight, and bounds their number. `clock` is read once per round of requests, not per event."""

    def __init__(self, clock: Clock, bounds: Bounds = BOUNDS) -> None:
        self._clock, self._bounds = clock, bounds
        self._rounds: deque[tuple[int, int, float]] = (
            deque()
        )  # the last of a round, how many were in flight, when
        self._announced = 0
        self._complete = 0
        self.most = max(bounds.first_in_flight, bounds.least_in_flight)

    @property
    def room(self) -> int:
        """The number of synchronisations that may still be announced."""
        return self.most - self.in_flight

    @property
    def in_flight(self) -> int:
        """The number of synchronisations that are announced but not complete."""
        return self._announced - self._complete

    def announce(self, count: int) -> None:
        """Note that `count` synchronisations are announced."""
        self._announced += count
        self._rounds.append((self._announced, self.in_flight, self._clock()))

    def complete(self, count: int) -> None:
        """Note that `count` more are complete, and adapt the bound to the time of the last whole round."""
        self._complete += count
        last = None
        while self._rounds and self._rounds[0][0] <= self._complete:
            last = self._rounds.popleft()
        if last is not None:
            _, depth, announced = last
            fitting = int(depth * self._bounds.seconds_in_flight / max(self._clock() - announced, RESOLUTION))
            self.most = max(self._bounds.least_in_flight, min(fitting, self._bounds.growth * self.most))

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        if self.in_flight < 0 or self.most < self._bounds.least_in_flight:
            yield f"{self.in_flight} synchronisations are in flight, of {self.most} at most"
        last = self._rounds[-1][0] if self._rounds else self._complete
        if last != self._announced:
            yield f"{self._announced} synchronisations are announced, and {last} in rounds"
