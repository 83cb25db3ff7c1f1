"""The last checkpoint, in memory: lets runs without a directory of checkpoints restart when a host dies.

>>> from dgs.workers.recovery.positions import Positions
>>> store = MemoryStore()
>>> store.begin().generation, store.begin().state
(1, None)
>>> store.commit(Checkpoint(epoch=1, state=b"seven", positions=Positions()))
>>> point = store.begin()
>>> point.generation, point.epoch, point.state
(3, 1, b'seven')
"""

from __future__ import annotations

from dgs.workers.recovery.checkpoint import Checkpoint, Publish, ResumePoint, resume_point


class MemoryStore:
    """A CheckpointStore that lasts as long as the driver. `publish` gives staged files their final names."""

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish or (lambda _files: None)
        self._generation = 0
        self._newest: Checkpoint | None = None
        self._with_state: Checkpoint | None = None

    def begin(self) -> ResumePoint:
        """Begin a generation from the last checkpoint."""
        self._generation += 1
        if self._newest is not None:
            self._publish(self._newest.files)
        return resume_point(self._generation, self._newest, self._with_state)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Replace the previous checkpoint, and publish the files of this one."""
        self._newest = checkpoint
        if checkpoint.state is not None:
            self._with_state = checkpoint
        self._publish(checkpoint.files)

    def close(self) -> None:
        """Do nothing: no other process can have this store."""
