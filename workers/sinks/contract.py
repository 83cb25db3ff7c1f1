"""The contract between sinks and runtimes, and the simplest sinks: none, and a function of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from dgs.model.outputs import OutputBatch
from dgs.model.user_code import calling
from dgs.workers.recovery.checkpoint import StagedOutput


@dataclass(frozen=True, slots=True)
class Staged:
    """The outputs of a closed epoch: durable files without final names, and outputs that were not accepted yet (R7).

    `holds`: for each part of the sink a number that only grows, and that it has reached once the epoch is committed. A run that goes
    on finds by it that an older copy stands in the place of the sink.
    """

    files: tuple[StagedOutput, ...] = ()
    unaccepted: tuple[OutputBatch, ...] = ()
    holds: Mapping[str, int] = field(default_factory=dict)


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


@runtime_checkable
class Waiting(Protocol):
    """A sink that says what it waits for."""

    @property
    def waiting(self) -> str | None:
        """Return the lock or the like for which the sink waits, and since when; None if it does not wait."""


def with_own_list(batch: OutputBatch) -> OutputBatch:
    """Return outputs for user code, which may sort or empty its list of values. Other sinks share the batch."""
    return replace(batch, values=list(batch.values)) if isinstance(batch.values, list) else batch


class AroundSink:
    """The base of wrappers around a sink that change `write` only."""

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


class CallableSink(Delivered):
    """Calls `function(batch, **arguments)` with each batch of outputs, at the hosts. When it returns, the outputs are delivered.

    The function sees every output at least once, and some of them again after a crash. A repeat has the same id, (stream, ts, seq,
    tag, index) of an `OutputBatch` row, and the ids of a tag only grow.

    >>> from dgs.model.tags import Tag
    >>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=["hello"])
    >>> sink = CallableSink(lambda outputs, end: print(outputs.to_list(), end=end), {"end": "!"}, ref="notes.py:say")
    >>> sink.write(batch, epoch=1), sink.stage(1)
    ['hello']!(None, Staged(files=(), unaccepted=(), holds={}))
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], *, ref: str, program: str = ""
    ) -> None:
        self._function, self._arguments = function, arguments
        self._ref, self._program = ref, program

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - everything goes out at once
        """Call the function. Its exceptions become a UserCodeError, with the user's traceback first."""
        if not len(batch):
            return
        where = f"as a sink, for {len(batch)} outputs of stream {batch.stream!r}"
        with calling(self._ref, program=self._program, where=lambda: where):
            self._function(with_own_list(batch), **self._arguments)
