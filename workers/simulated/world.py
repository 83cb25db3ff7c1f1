"""The world of a simulated run, which outlives its generations: chance, time, the program and its input, disk, sinks, and notes.

A generation reaches everything outside itself through the world, which notes what the oracles need.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Mapping, Sequence

from dgs.errors import OutputUnwritableError
from dgs.model.events import EventBatch
from dgs.model.identity import identity_of
from dgs.model.program import Program
from dgs.workers.protocol.story import Story
from dgs.workers.recovery.checkpoint import Checkpoint, StagedFile, StagedOutput
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.faults import Faults
from dgs.workers.simulated.live import LiveStreams
from dgs.workers.simulated.result import Simulated
from dgs.workers.simulated.sinks import SimulatedSinks
from dgs.workers.simulated.store import storage_for
from dgs.workers.simulated.user_code import Fuse, with_fuse


class World(SimulatedSinks):
    """The world that outlives a generation. `storage`: the place of checkpoints.

    `live`: the streams that arrive over time, if any. `skips`: events at which user code raises are left out. `validates`: hosts check
    themselves after every step.
    """

    def __init__(
        self,
        program: Program,
        streams: Mapping[str, Sequence[EventBatch]],
        *,
        seed: int,
        buffer_bytes: int | None,
        faults: Faults,
        skips: bool,
        validates: bool,
    ) -> None:
        super().__init__()
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.fuse = Fuse()
        self.program = with_fuse(program, self.fuse) if faults.raises or faults.exits else program
        self.streams, self.buffer_bytes, self.faults, self.skips = streams, buffer_bytes, faults, skips
        self.validates = validates
        self.bounds = faults.bounds
        self.is_transactional = self.random.random() < 0.5  # noqa: PLR2004 - half of the seeds
        self.result = Simulated()
        self.storage = storage_for(lambda: identity_of(program, list(streams)), faults, seed)
        self.live: LiveStreams | None = None
        if faults.live:
            rnd = random.Random(f"live {seed}")  # noqa: S311 - reproducible, not secret
            self.live = LiveStreams(streams, rnd, faults.live, lambda: self.now)
            for one in self.live.streams.values():
                one.decisions.torn = self._torn
        self.acknowledged = 0
        self.story = Story(None, log=self.result.log)

    @property
    def now(self) -> int:
        """Virtual time: the number of steps."""
        return self.result.steps

    def begin(self, generation: int) -> None:
        """Begin a generation, and fence older ones."""
        super().begin(generation)
        self.story = Story(None, generation=generation, log=self.result.log)

    def says(self, text: str) -> None:
        """Note something other than a step of a host, in the trace and in the story."""
        self.result.trace.append(text)
        self.tells(text)

    def tells(self, text: str) -> None:
        """Note something in the story only."""
        self.story.tick(self.now)
        self.story.says(text)

    def is_odd(self) -> bool:
        """Draw whether to take a legal but rare path here."""
        return self.faults.oddity > 0 and self.random.random() < self.faults.oddity

    def _torn(self, size: int) -> int | None:
        """Perhaps kill a process that writes down a decision: return how many bytes of it are durable."""
        faults, rnd = self.faults, self.random
        if self.result.crashes >= faults.crashes or rnd.random() >= 4 * faults.crash_chance:
            return None
        return rnd.randint(0, size)

    def stage(self, path: str) -> tuple[StagedFile, ...]:
        """Make a file durable, if there is one. Raises OutputUnwritableError if the disk is full."""
        files = super().stage(path)
        if files and self.storage.is_full():
            self.says(f"{path} is not staged: the disk is full")
            raise OutputUnwritableError(path=path, problem=os.strerror(errno.ENOSPC))
        return files

    def publish(self, files: Sequence[StagedOutput]) -> None:
        """Give staged files their final names, or only some of them."""
        for file in files:
            if self.faults.publishing and self.random.random() < self.faults.publishing:
                raise OSError(errno.EIO, "a file does not get its name", file.final)
            super().publish([file])

    def saw_snapshot(self, generation: int, state: bytes, positions: Positions) -> None:
        """Note a snapshot, for the oracle. A zombie's do not count: it may read live rows without the heartbeats that were decided since."""
        if self.live is None or generation == self.story.generation:
            self.result.snapshots.append((state, positions))

    def made_durable(self, checkpoint: Checkpoint) -> None:
        """Note a commit, for the oracle: when it is durable, which a slow driver, or a zombie's, may learn after the next generation has begun."""
        self.result.commits.append(checkpoint)

    def acknowledge(self, epoch: int) -> None:
        """Note that a driver has learned of a commit, which may not be lost from now on."""
        self.acknowledged = max(self.acknowledged, epoch)

    def object_to(self, problem: str) -> None:
        """Note a broken promise."""
        self.result.problems.append(problem)
