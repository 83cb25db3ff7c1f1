"""Bounds: every number by which the protocol chooses between ways that give the same outputs.

None of them may change outputs, states or positions. The simulation draws them for every seed, so that small workloads take every way.
Production uses the defaults, which were measured.

What is in flight is bounded by time. Many synchronisations in flight hide the round trips to the children. But a keyless request, for
a checkpoint or a stop, waits for all earlier ones. So a `Window` has room for as many as complete within a quarter of a second, estimated
from the time that the last ones were in flight (Little's law). If not even one completes in that time, there is no room: the worker first
asks its children to prepare the next synchronisation (`dgs.workers.protocol.pending.Preparations`), and announces it when they have.

>>> now = [0.0]
>>> window = Window(lambda: now[0])
>>> window.room, window.prepare(), window.announce(1, last_ts=10), window.room      # nothing is known yet
(0, None, None, -1)
>>> now[0] += 0.0025                    # it is complete after 2.5 ms
>>> window.complete(1), window.room, window.until
(None, 4, 10)
>>> window.announce(16, last_ts=200)
>>> now[0] += 5.0                       # from now on they take long
>>> window.complete(16), window.room
(None, 0)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the workers and hosts of a run.

    Synchronisations in flight of a worker with children, without preparation: `first_in_flight` at the beginning, `least_in_flight` at
    least. After a fast round `growth` times as many are allowed, up to the number that takes `seconds_in_flight` by earlier rounds.
    `most_requests`: requests of the parent that are passed on at once where the subtree accumulates. `most_windows`: partial states in
    one answer of a leaf.

    Folding: a leaf folds for `seconds_at_once`, and looks at the clock after `least_piece` events, and then after as many as take
    `seconds_in_flight`, but at most `piece_growth` times as many as before; up to `few_events` are folded one by one even
    where there is an `update_batch`, a call of which costs more; `events_at_once` are turned into Python objects at a time, so that
    their columns stay in the cache; where one event in `dense` emits, outputs are counted after every event; stretches of fewer than
    `short_stretch` events on average cost more than merging, or of fewer than `short_loop` if `update` is called for each event in either
    way; up to `singly` events for which `update_batch` has failed are folded with `update`.

    Lanes: up to `most_told_apart` listed tags of a kind are told apart by predicates, for other workers; more share a lane; up to
    `few_lanes`, a pass over a batch for each is cheaper than sorting it; with more than `most_remembered` tags, those whose lane is known
    are forgotten.
    """

    first_in_flight: int = 0
    least_in_flight: int = 0
    growth: int = 4
    seconds_in_flight: float = 0.25
    most_requests: int = 4096
    most_windows: int = 4096
    least_piece: int = 4
    piece_growth: int = 1000
    seconds_at_once: float = 0.1
    few_events: int = 32
    events_at_once: int = 4096
    dense: int = 4
    short_stretch: int = 16
    short_loop: int = 64
    singly: int = 32
    most_told_apart: int = 64
    few_lanes: int = 8
    most_remembered: int = 2**20


BOUNDS = Bounds()
"""The bounds of production."""

RESOLUTION = 1e-6
"""The least seconds that a round counts as."""

LAST = 2**63 - 1
"""The last time that an event may have."""

Clock = Callable[[], float]
"""Seconds, of which only differences matter."""


def no_time() -> float:
    """Return 0: by this clock nothing takes time."""
    return 0.0


class _Round(NamedTuple):
    """A group of synchronisations that a worker announces at once.

    `last`: the number of the last one. `depth`: how many were in flight then. `since`: when it was announced. `complete_ts`: the time of
    the last event that was complete then. `last_ts`: the time of its own last event.
    """

    last: int
    depth: int
    since: float
    complete_ts: int
    last_ts: int


class Window:
    """Counts synchronisations in flight, and bounds their number. `clock` is read once per round of requests, not per event.

    A round is what a worker announces at once for its own events. It takes until the last of it is complete, counted from when it was
    announced, or, if it was prepared, from when the children were asked to prepare. Requests of a parent are in flight, too, but teach
    nothing. `most`: the number of synchronisations that may be in flight. `reach`: how far their events may be ahead in event time. It
    matters when the events of a stream become rare: as many as before could then take very long.
    """

    def __init__(self, clock: Clock, bounds: Bounds = BOUNDS) -> None:
        self._clock, self._bounds = clock, bounds
        self._rounds: deque[_Round] = deque()
        self._preparing_since: float | None = None
        self._announced = 0
        self._complete = 0
        self._complete_ts: int | None = None
        self.most = max(bounds.first_in_flight, bounds.least_in_flight)
        self.reach = math.inf if self.most else 0.0

    @property
    def room(self) -> int:
        """The number of synchronisations that may still be announced. Requests of a parent may make it negative."""
        return self.most - self.in_flight

    @property
    def until(self) -> int:
        """The last time of an event that may be announced without preparation."""
        return int(min((self._complete_ts or 0) + self.reach, LAST))

    @property
    def in_flight(self) -> int:
        """The number of synchronisations that are announced but not complete."""
        return self._announced - self._complete

    def prepare(self) -> None:
        """Note that the children are asked to prepare the next round."""
        self._preparing_since = self._clock()

    def announce(self, count: int, last_ts: int = 0) -> None:
        """Note that synchronisations for `count` own events are announced; the last of them is at `last_ts`."""
        self.pass_on(count)
        since = self._clock() if self._preparing_since is None else self._preparing_since
        self._preparing_since = None
        complete_ts = last_ts if self._complete_ts is None else self._complete_ts
        self._rounds.append(_Round(self._announced, self.in_flight, since, complete_ts, last_ts))

    def pass_on(self, count: int) -> None:
        """Note that `count` requests of the parent are announced to the children."""
        self._announced += count

    def complete(self, count: int) -> None:
        """Note that `count` more are complete, and adapt the bounds to the time of the last whole round."""
        self._complete += count
        done = None
        while self._rounds and self._rounds[0].last <= self._complete:
            done = self._rounds.popleft()
        if done is not None:
            self._learn(done)

    def _learn(self, done: _Round) -> None:
        bounds = self._bounds
        times = bounds.seconds_in_flight / max(self._clock() - done.since, RESOLUTION)
        most = min(int(done.depth * times), bounds.growth * max(self.most, 1))
        self.most = max(bounds.least_in_flight, most)
        self._complete_ts = done.last_ts
        self.reach = max(bounds.growth * times * (done.last_ts - done.complete_ts), self.reach / 2)

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        if self.in_flight < 0 or self.most < self._bounds.least_in_flight:
            yield f"{self.in_flight} synchronisations are in flight, of {self.most} at most"
        last = self._rounds[-1].last if self._rounds else self._complete
        if last > self._announced:
            yield f"{self._announced} synchronisations are announced, and {last} in rounds"
