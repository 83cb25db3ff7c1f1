"""The window of synchronisations in flight: as many as are complete within a quarter of a second, as measured.

Many in flight hide the way to the children and back. But a keyless request, for a checkpoint or a stop, waits for those before it,
so their number is bounded by time: by how long the last ones were in flight (Little's law).

>>> now = [0.0]
>>> window = Window(lambda: now[0])
>>> window.room, window.announce(FIRST), window.room
(4, None, 0)
>>> now[0] += 0.001                     # all are complete after 1 ms
>>> window.complete(FIRST), window.room
(None, 16)
>>> window.announce(16)
>>> now[0] += 1.0                       # from now on they are slow
>>> window.complete(16), window.room
(None, 4)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

SECONDS = 0.25
"""How long a synchronisation may be in flight, once it is known how long the others were."""

FIRST = 4
"""In flight before anything is known."""

LEAST = 2
"""In flight at least: while one is at the parent, its children may be at the next."""

GROWTH = 4
"""So many times as many may be in flight after a round that was fast."""

RESOLUTION = 1e-6
"""Seconds that a round takes at least."""

Clock = Callable[[], float]
"""Seconds, of which only differences matter."""


def no_time() -> float:
    """Return a time at which everything happens at once."""
    return 0.0


class Window:
    """Counts what is in flight, and says how much more there may be. `clock` is read once a round of requests, not once an event."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: deque[tuple[int, int, float]] = (
            deque()
        )  # the last of a round, how many were in flight, when
        self._announced = 0
        self._complete = 0
        self.most = FIRST

    @property
    def room(self) -> int:
        """How many more synchronisations may be announced."""
        return self.most - self.in_flight

    @property
    def in_flight(self) -> int:
        """The synchronisations that are announced and not complete."""
        return self._announced - self._complete

    def announce(self, count: int) -> None:
        """Note that so many are announced."""
        self._announced += count
        self._rounds.append((self._announced, self.in_flight, self._clock()))

    def complete(self, count: int) -> None:
        """Note that so many more are complete, and adapt to how long the last whole round of them took."""
        self._complete += count
        last = None
        while self._rounds and self._rounds[0][0] <= self._complete:
            last = self._rounds.popleft()
        if last is not None:
            _, depth, announced = last
            fitting = int(depth * SECONDS / max(self._clock() - announced, RESOLUTION))
            self.most = max(LEAST, min(fitting, GROWTH * self.most))

    def broken_invariants(self) -> Iterator[str]:
        """Yield what is not as it is between steps."""
        if self.in_flight < 0 or self.most < LEAST:
            yield f"{self.in_flight} synchronisations are in flight, of {self.most} at most"
        last = self._rounds[-1][0] if self._rounds else self._complete
        if last != self._announced:
            yield f"{self._announced} synchronisations are announced, and {last} in rounds"
