"""Slow parts of a simulated generation: a sink, a host that stages its outputs, or a commit is busy until a given step.

Everything else goes on meanwhile, and may fail. Virtual time is the number of steps. If nothing else can move, slow parts are done.

>>> slowness = Slowness(random.Random(1), says=lambda text: None)
>>> slowness.begins(COMMIT, chance=1.0, now=3), slowness.is_busy(COMMIT, now=4), slowness.next_end(now=4) > 4
(True, True, True)
>>> slowness.end()
>>> slowness.is_busy(COMMIT, now=4), slowness.next_end(now=4)
(False, None)
"""

from __future__ import annotations

import random
from collections.abc import Callable

LONGEST = 200
"""The most steps for which a part is busy."""

Place = tuple[str, int]
COMMIT: Place = ("commit", 0)


def staging(host: int) -> Place:
    """Return the place where a host stages its outputs. The host does nothing else meanwhile."""
    return "staging", host


def sink(host: int) -> Place:
    """Return the place where a sink takes the outputs of a host."""
    return "sink", host


class Slowness:
    """The step until which each place is busy. `says` is called with a line when a place becomes busy."""

    def __init__(self, rnd: random.Random, says: Callable[[str], None]) -> None:
        self._random, self._says = rnd, says
        self._until: dict[Place, int] = {}

    def begins(self, place: Place, *, chance: float, now: int) -> bool:
        """Perhaps make a place busy for long; return whether it is."""
        if not chance or self._random.random() >= chance:
            return False
        self._until[place] = now + self._random.randint(1, LONGEST)
        self._says(f"{place[0]} {place[1]} takes long: until step {self._until[place]}")
        return True

    def is_busy(self, place: Place, now: int) -> bool:
        """Return whether a place is busy at step `now`."""
        return self._until.get(place, 0) > now

    def next_end(self, now: int) -> int | None:
        """Return the next step at which a place is free again, None if none is busy."""
        return min((until for until in self._until.values() if until > now), default=None)

    def end(self) -> None:
        """Free all places."""
        self._until.clear()
