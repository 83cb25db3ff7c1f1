"""A store of checkpoints for simulated runs whose disk is good: nothing is written, everything is kept.

>>> kept = KeptCheckpoints()
>>> store = KeptStore(kept, publish=lambda files: None)
>>> store.begin().generation, KeptStore(kept, publish=lambda files: None).begin().generation
(1, 2)
>>> store.commit(Checkpoint(1, b"", store.begin().positions))
>>> KeptStore(kept, publish=lambda files: None).begin().epoch
1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgs.errors import FencedError
from workers.checkpoints.contract import Checkpoint, ResumePoint, StagedFile


@dataclass
class KeptCheckpoints:
    """What outlives every crash: the last checkpoint, and the number of the last generation."""

    generation: int = 0
    last: Checkpoint | None = None


class KeptStore:
    """The store as one generation has it open."""

    def __init__(self, kept: KeptCheckpoints, publish: Callable[[Sequence[StagedFile]], None]) -> None:
        self._kept, self._publish = kept, publish
        self._generation = 0

    def begin(self) -> ResumePoint:
        """Begin a generation, at the last checkpoint."""
        self._kept.generation += 1
        self._generation = self._kept.generation
        last = self._kept.last
        if last is None:
            return ResumePoint(self._generation)
        self._publish(last.files)
        return ResumePoint(
            self._generation, last.epoch, last.state, last.positions, last.positions, last.outbox,
            last.sources, last.events, last.is_final,
        )  # fmt: skip

    def commit(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint. Raises FencedError if a newer generation has begun."""
        if self._generation != self._kept.generation:
            raise FencedError(path="memory", generation=self._generation, newest=self._kept.generation)
        self._kept.last = checkpoint
        self._publish(checkpoint.files)

    def close(self) -> None:
        """Nothing to do."""
