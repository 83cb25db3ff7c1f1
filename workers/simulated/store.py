"""The stores of a simulated run: the real store on a disk that fails, or a fast one that keeps everything in memory.

>>> kept = KeptCheckpoints()
>>> store = KeptStore(kept, publish=lambda files: None)
>>> store.begin().generation, KeptStore(kept, publish=lambda files: None).begin().generation
(1, 2)
>>> store.commit(Checkpoint(1, b"", store.begin().positions))
>>> KeptStore(kept, publish=lambda files: None).begin().epoch
1
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from dgs.errors import FencedError
from dgs.model.identity import ProgramIdentity
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore, Publish, ResumePoint, resume_point
from dgs.workers.simulated.directory import DirectoryStorage
from dgs.workers.simulated.faults import Faults


class Storage(Protocol):
    """The disk, which outlives the processes of a run. `sinks`: the descriptions of the next process's sinks."""

    sinks: tuple[str, ...]

    def open(self, publish: Publish) -> CheckpointStore:
        """Return the store for another generation."""

    def threaten(self) -> None:
        """Draw the faults of the disk for the next generation."""

    def crash(self) -> None:
        """Lose content that is not durable, since the machine or only the process has stopped."""

    def heal(self) -> None:
        """End all faults. Existing damage stays."""

    def is_beyond_promise(self) -> bool:
        """Return whether so much is damaged that no run can begin from it."""

    def is_full(self) -> bool:
        """Return whether there is no space for a file of outputs, this time."""

    def own_damage(self) -> Iterator[str]:
        """Yield damage of files that no fault has touched. The store must have written them wrongly."""


@dataclass
class KeptCheckpoints:
    """Memory that outlives every crash: the last checkpoint, the last one with a state, and the number of the last generation."""

    generation: int = 0
    last: Checkpoint | None = None
    with_state: Checkpoint | None = None


class KeptStore:
    """A store that one generation has open."""

    def __init__(self, kept: KeptCheckpoints, publish: Publish) -> None:
        self._kept, self._publish = kept, publish
        self._generation = 0

    def begin(self) -> ResumePoint:
        """Begin a generation, at the last checkpoint."""
        self._kept.generation += 1
        self._generation = self._kept.generation
        if self._kept.last is not None:
            self._publish(self._kept.last.files)
        return resume_point(self._generation, self._kept.last, self._kept.with_state)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint. Raises FencedError if a newer generation has begun."""
        if self._generation != self._kept.generation:
            raise FencedError(path="memory", generation=self._generation, newest=self._kept.generation)
        with_state = self._kept.with_state if checkpoint.state is None else checkpoint
        self._kept.last, self._kept.with_state = checkpoint, with_state
        self._publish(checkpoint.files)

    def close(self) -> None:
        """Do nothing."""


class KeptStorage:
    """A disk without faults."""

    def __init__(self) -> None:
        self._kept = KeptCheckpoints()
        self.sinks: tuple[str, ...] = ()

    def open(self, publish: Publish) -> CheckpointStore:
        """Return the store for another generation."""
        return KeptStore(self._kept, publish)

    def threaten(self) -> None:
        """Do nothing: there are no faults."""

    def crash(self) -> None:
        """Do nothing: everything is durable."""

    def heal(self) -> None:
        """Do nothing: there are no faults."""

    def is_beyond_promise(self) -> bool:
        """Nothing is damaged."""
        return False

    def is_full(self) -> bool:
        """Return False: there is always space."""
        return False

    def own_damage(self) -> Iterator[str]:
        """Nothing is damaged."""
        return iter(())


def storage_for(identity: Callable[[], ProgramIdentity], faults: Faults, seed: int) -> Storage:
    """Return the disk of a run."""
    if faults.disk is None and not faults.other_sinks:
        return KeptStorage()
    return DirectoryStorage(identity(), faults, random.Random(f"disk {seed}"))  # noqa: S311 - reproducible, not secret
