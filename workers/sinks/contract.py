"""The contract between sinks and runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import StagedOutput


@dataclass(frozen=True, slots=True)
class Staged:
    """The outputs of an epoch that is over: durable files without final names, and outputs it has not accepted (R7)."""

    files: tuple[StagedOutput, ...] = ()
    unaccepted: tuple[OutputBatch, ...] = ()


class HostSink(Protocol):
    """A sink: takes the outputs of one host. `write` and `stage` any number of times, then either `close` or `abort`, once.

    Outputs of two successive epochs may be written in turns: the workers of a host close an epoch at different moments.
    A run without checkpoints has one epoch, whatever its number.

    Law: when all staged files are published (`dgs.workers.sinks.files.publishing`) and the sink is closed, what is left behind is
    exactly what was written since the run began, nothing of earlier runs.
    """

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs. Raises OutputUnwritableError."""

    def stage(self, epoch: int) -> Staged:
        """Make everything of an epoch durable: no more of it will come. Raises OutputUnwritableError."""

    def close(self) -> None:
        """Release everything: the run is complete, and all that was staged is published."""

    def abort(self) -> None:
        """Leave what is not committed, recognisably incomplete (`.partial`): the run has failed."""
