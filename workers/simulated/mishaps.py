"""The mishaps of a simulated run: clean stops, faults in place of a step, and the remains of killed generations.

`Stops`: a request to stop, met at the next checkpoint. `strikes`: a generation is killed, or frames between its hosts are late,
lost, repeated or overtaken. `Remains`: frames of a killed generation that arrive later, and zombies, which are killed generations that go
on. The next generation must drop the frames (R1), and stores and sinks must refuse the zombies (R10).
"""

from __future__ import annotations

import random

from dgs.errors import CheckpointFailedError, FrameGapError, OutputUnwritableError, UserCodeError
from dgs.workers.recovery.coordinator import ControlRequest, StopRequest
from dgs.workers.simulated.faults import CrashedError, Faults
from dgs.workers.simulated.generation import Generation
from dgs.workers.simulated.network import Edge, some_of
from dgs.workers.simulated.user_code import Fuse

STOP_CHANCE = 0.02
"""The chance of a request to stop, per step."""

ZOMBIE_CHANCE = 0.2
"""The chance that a zombie takes a step before each step of the living generation."""

STRAY_CHANCE = 0.1
MOST_STRAYS = 5

MOST_STARTS = 10
"""So many processes of a run may find another sink than its own."""

LONGEST_DELAY = 50
"""The most steps for which a delayed edge delivers no frame."""


class Stops:
    """The number of clean stops still to come, and the progress of the current generation with one."""

    def __init__(self, rnd: random.Random, count: int) -> None:
        self._random, self._left = rnd, count
        self._stop = StopRequest()
        self._commits = 0

    def begin_generation(self) -> None:
        """Note that another generation begins."""
        self._stop.generation_lost()

    def forget_all(self) -> None:
        """Allow no more stops."""
        self._left = 0

    def has_stopped(self, generation: Generation) -> bool:
        """Perhaps request a stop; return whether the generation has stopped at a checkpoint."""
        if not self._left:
            return False
        driver, now = generation.driver, generation.world.now
        if not self._stop.is_asked:
            if self._random.random() < STOP_CHANCE:
                self._commits = driver.commits
                generation.world.tells("has a request to stop, or to move")
                self._stop.ask(ControlRequest("stop"), now=now)
                generation.request_snapshot()
                self._stop.snapshot_requested()
            return False
        if driver.commits > self._commits and driver.final is None:
            self._stop.committed(generation.world.acknowledged)
        if self._stop.due(now=now) is None:
            return False
        self._left -= 1
        self._stop.end()
        return True


class Starts:
    """The starts of a run's processes: with the run's sink, with another sink, or with a sink that has lost its table.

    `home`: the name of the run's sink. Only a run that has committed nothing may go on with another one. `count`: the number of processes.
    """

    def __init__(self, rnd: random.Random, *, has_tables: bool) -> None:
        self._random, self._has_tables = rnd, has_tables
        self.home = self.place = "sink 0"
        self.is_emptied = False
        self.count = 0

    @property
    def is_as_before(self) -> bool:
        """Whether the process has found the sink as the run left it."""
        return self.place == self.home and not self.is_emptied

    def next(self, chance: float) -> None:
        """Draw the sink of the next process. `chance`: that it is not as the run left it."""
        self.count += 1
        self.place, self.is_emptied = self.home, False
        if self.count <= MOST_STARTS and self._random.random() < chance:
            self.is_emptied = self._has_tables and self._random.random() < 0.5  # noqa: PLR2004 - as often as not
            if not self.is_emptied:
                self.place = f"sink {self.count}"


class Remains:
    """The zombies, and the stray frames of the last generation that was killed. `fuse`: the fuse of the program."""

    def __init__(self, rnd: random.Random, fuse: Fuse) -> None:
        self._random, self._fuse = rnd, fuse
        self._zombies: list[Generation] = []
        self._strays: list[tuple[Edge, bytes]] = []

    def leave(self, generation: Generation, faults: Faults) -> bool:
        """Perhaps keep the remains of a killed generation. Return whether it goes on as a zombie."""
        if self._random.random() < faults.straggling:
            self._strays = some_of(self._random, list(generation.network.left_behind()), MOST_STRAYS)
        is_zombie = self._random.random() < faults.zombie_chance
        if is_zombie:
            self._zombies.append(generation)
        return is_zombie

    def send_stray(self, generation: Generation) -> bool:
        """Perhaps deliver a frame of an older generation; return whether one was delivered."""
        if self._strays and self._random.random() < STRAY_CHANCE:
            generation.stray(*self._strays.pop(0))
            return True
        return False

    def wake_a_zombie(self) -> None:
        """Perhaps let a zombie take a step. A zombie that is fenced or fails ends."""
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
        """End all zombies."""
        self._zombies.clear()


def strikes(
    rnd: random.Random,
    faults: Faults,
    generation: Generation,
    remains: Remains,
    *,
    may_crash: bool,
    may_break: bool,
) -> bool:
    """Perhaps let a fault strike; return whether it took the place of a step. Raises CrashedError.

    `may_crash`: whether the generation may be killed. `may_break`: whether frames may be lost or overtaken, which ends it, too.
    """
    if may_crash and rnd.random() < faults.crash_chance:
        raise CrashedError
    return remains.send_stray(generation) or _strikes_the_network(
        rnd, faults, generation, may_break=may_break
    )


def _strikes_the_network(
    rnd: random.Random, faults: Faults, generation: Generation, *, may_break: bool
) -> bool:
    if faults.delay + faults.swizzle + faults.loss + faults.repetition + faults.reordering == 0:
        return False
    edges = generation.busy_edges()
    if not edges:
        return False
    network, now = generation.network, generation.world.now
    if rnd.random() < faults.delay:
        network.clog(rnd.choice(edges), now + rnd.randint(1, LONGEST_DELAY))
    if rnd.random() < faults.swizzle:
        network.swizzle(rnd, now)
    if rnd.random() < faults.repetition:
        generation.repeat(rnd.choice(edges))
        return True
    if may_break and rnd.random() < faults.reordering:
        edge = rnd.choice(edges)
        generation.world.tells("lets a frame of host {} to host {} overtake another".format(*edge))
        network.overtake(edge)
    if may_break and rnd.random() < faults.loss:
        generation.lose(rnd.choice(edges))
        return True
    return False
