"""The sink without a place: none, and the base of sinks that have delivered outputs when `write` returns.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[1, 2], seq=[0, 1], index=[0, 0], values=["x", "y"])
>>> sink = NoneSink()
>>> sink.write(batch, epoch=1)
>>> sink.count
2
"""

from __future__ import annotations

from dgs.model.outputs import OutputBatch
from dgs.workers.sinks.contract import Staged


class Delivered:
    """The base of sinks that have delivered outputs when `write` returns."""

    def stage(self, epoch: int) -> Staged:  # noqa: ARG002 - there is nothing to stage
        """Nothing to do."""
        return Staged()

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""


class NoneSink(Delivered):
    """Counts outputs and drops them, for measurements."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - there is nothing to stage
        """Count the outputs."""
        self.count += len(batch)
