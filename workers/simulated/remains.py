"""What a killed generation leaves behind: frames that arrive later, and zombies, which do not know that they are dead.

The generation that follows must drop the frames (R1), and stores and sinks must refuse the zombies (R10).
"""

from __future__ import annotations

import random

from dgs.errors import CheckpointFailedError, FrameGapError, OutputUnwritableError, UserCodeError
from workers.simulated.faults import Faults
from workers.simulated.generation import Generation
from workers.simulated.network import Edge, some_of
from workers.simulated.user_code import Fuse

ZOMBIE_CHANCE = 0.2
"""Of a step of a zombie before each step of the living."""

STRAY_CHANCE = 0.1
MOST_STRAYS = 5


class Remains:
    """The zombies, and the strays of the last generation that was killed. `fuse`: that of the program they run."""

    def __init__(self, rnd: random.Random, fuse: Fuse) -> None:
        self._random, self._fuse = rnd, fuse
        self._zombies: list[Generation] = []
        self._strays: list[tuple[Edge, bytes]] = []

    def leave(self, generation: Generation, faults: Faults) -> bool:
        """Keep what is left of a generation, perhaps. Return whether it goes on as a zombie."""
        if self._random.random() < faults.straggling:
            self._strays = some_of(self._random, list(generation.network.left_behind()), MOST_STRAYS)
        is_zombie = self._random.random() < faults.zombie_chance
        if is_zombie:
            self._zombies.append(generation)
        return is_zombie

    def send_stray(self, generation: Generation) -> bool:
        """Deliver a frame of an older generation, perhaps; return whether one was."""
        if self._strays and self._random.random() < STRAY_CHANCE:
            generation.stray(*self._strays.pop(0))
            return True
        return False

    def wake_a_zombie(self) -> None:
        """Let a zombie take a step, perhaps. One that is fenced or breaks is dead at last."""
        if not self._zombies or self._random.random() > ZOMBIE_CHANCE:
            return
        zombie = self._random.choice(self._zombies)
        steps = list(zombie.steps())
        if not steps or zombie.is_fenced:
            self._zombies.remove(zombie)
            return
        try:
            zombie.do(*self._random.choice(steps))
        except (FrameGapError, CheckpointFailedError, OutputUnwritableError):
            self._zombies.remove(zombie)
        except UserCodeError:
            if not self._fuse.has_gone_off():
                raise
            self._zombies.remove(zombie)

    def bury_zombies(self) -> None:
        """Let none of them go on."""
        self._zombies.clear()
