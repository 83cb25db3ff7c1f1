"""Which faults strike a simulated run, and how often. Every seed draws its own (swarm testing): often few, sometimes many.

>>> import random
>>> Faults.swarm(random.Random(7)) == Faults.swarm(random.Random(7))
True
"""

from __future__ import annotations

import random
from dataclasses import dataclass


class CrashedError(Exception):
    """The process was killed, here."""


@dataclass(frozen=True, slots=True)
class Faults:
    """`crashes`: at most so many; the others are chances per step. A lost frame ends its generation, as a crash does."""

    crashes: int = 0
    crash_chance: float = 0.0
    zombie_chance: float = 0.0
    repetition: float = 0.0
    loss: float = 0.0

    @classmethod
    def swarm(cls, rnd: random.Random) -> Faults:
        """Draw the faults of a seed."""
        return cls(
            crashes=rnd.choice([0, 1, 1, 2, 3, 6]),
            crash_chance=rnd.choice([0.002, 0.01, 0.03, 0.1]),
            zombie_chance=rnd.choice([0.0, 0.5, 1.0]),
            repetition=rnd.choice([0.0, 0.0, 0.1, 0.4]),
            loss=rnd.choice([0.0, 0.0, 0.0, 0.02]),
        )


NO_FAULTS = Faults()
