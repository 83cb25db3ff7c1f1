"""What a sink is to the runtimes."""

from __future__ import annotations

from typing import Protocol

from dgs.outputs import OutputBatch


class Sink(Protocol):
    """A place for outputs. `write` may be called any number of times, then either `close` or `abort`, once.

    Law: what `close` leaves behind is exactly what was written since the sink was opened, nothing of earlier runs.
    """

    def write(self, batch: OutputBatch) -> None:
        """Take outputs. Raises OutputUnwritableError."""

    def close(self) -> None:
        """Give the outputs their final names: the run is complete."""

    def abort(self) -> None:
        """Leave the outputs so far, recognisably incomplete (`.partial`): the run has failed."""
