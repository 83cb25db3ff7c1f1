"""The contract between sinks and runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import StagedOutput


@dataclass(frozen=True, slots=True)
class Staged:
    """The outputs of a closed epoch: durable files without final names, and outputs that were not accepted yet (R7)."""

    files: tuple[StagedOutput, ...] = ()
    unaccepted: tuple[OutputBatch, ...] = ()


class HostSink(Protocol):
    """A sink for the outputs of one host. Call `write` and `stage` any number of times, then either `close` or `abort`, once.

    Outputs of two successive epochs may be written in turns, since the workers of a host close an epoch at different moments.
    A run without checkpoints has one epoch, whatever its number.

    Law: when all staged files are published (`dgs.workers.sinks.files.publishing`) and the sink is closed, the sink holds exactly
    the outputs written since the run began, and none of earlier runs.
    """

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs. Raises OutputUnwritableError."""

    def stage(self, epoch: int) -> Staged:
        """Make all outputs of an epoch durable: no more of them will come. Raises OutputUnwritableError."""

    def close(self) -> None:
        """Close the sink: the run is complete, and all staged outputs are published."""

    def abort(self) -> None:
        """Close the sink after a failure. Outputs that are not committed stay, marked as incomplete (`.partial`)."""


class AroundSink:
    """The base of what takes something else than outputs, or more, and passes the rest on to a sink."""

    def __init__(self, sink: HostSink) -> None:
        self._sink = sink

    def stage(self, epoch: int) -> Staged:
        """Make an epoch durable."""
        return self._sink.stage(epoch)

    def close(self) -> None:
        """Close the sink: the run is complete."""
        self._sink.close()

    def abort(self) -> None:
        """Close the sink after a failure."""
        self._sink.abort()
