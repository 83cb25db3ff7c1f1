"""The outputs of one task: it opens the plan file's sinks as a host does and stages its outputs; the driver commits them.

An error of dgs goes from a task to the driver as bytes without pickle: the name of its class and its facts.

>>> from dgs.errors import OutOfOrderError
>>> error = error_of(error_row(OutOfOrderError(stream="a", row=7, ts=1, previous=2)))
>>> type(error).__name__, error.row
('OutOfOrderError', 7)
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from dgs import codec
from dgs.errors import CodecError, DgsError, InternalError
from dgs.model.outputs import OutputBatch, Stamps
from dgs.workers.protocol.messages import Skipped
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime import process
from dgs.workers.runtime.job import Job
from dgs.workers.sinks import HostSink, is_central, open_sink
from dgs.workers.sinks.contract import Staged
from dgs.workers.sinks.dead_letters import DeadLetters, dead_letters
from dgs.workers.sinks.files.places import TRANSACTIONAL
from dgs.workers.sinks.opening import put


class TaskOutputs:
    """The sinks of task `number`. Without `stage`, leaving the context leaves the written files as `.partial`."""

    def __init__(self, job: Job, point: ResumePoint, number: int) -> None:
        self._job, self._point = job, point
        self.epoch = point.epoch + 1
        self._stamps = Stamps.of(job.program.stamps)
        self.count = self.skipped = 0
        self.first: float | None = None
        self._is_staged = False
        self._sinks: list[tuple[HostSink, bool]] = []
        for sink in job.sinks:
            if not is_central(sink):
                opened = open_sink(
                    sink,
                    output_dir=job.output_dir,
                    base_dir=job.base_dir,
                    host=number,
                    generation=point.generation,
                    by_epoch=True,
                    run=job.run_id,
                    continues=point.epoch > 0,
                    epoch=point.epoch,
                    splits=job.splits,
                    program=job.program.name,
                )
                self._sinks.append((opened, sink.kind in TRANSACTIONAL))
        self._letters: DeadLetters | None = None
        if job.dead_letter_dir is not None:
            self._letters = dead_letters(
                job.dead_letter_dir, host=number, generation=point.generation, by_epoch=True
            )

    def write(self, batch: OutputBatch) -> OutputBatch:
        """Write outputs; return those that are not committed yet."""
        all_of_them, of = (batch, None) if self._stamps is None else self._stamps.put(batch)
        new = all_of_them
        if self._point.epoch:
            splits = self._job.splits[declared(batch.stream)[0]]
            new = self._point.committed.outputs_above(batch, splits, put=(all_of_them, of))
        if self.first is None:
            self.first = process.now()
        self.count += len(new)
        for sink, is_transactional in self._sinks:
            put(sink, new if is_transactional else all_of_them, self.epoch)
        return new

    def leave_out(self, skipped: Skipped) -> bool:
        """Write the dead letter of a skipped event. Return whether it is new, not committed before."""
        letter = skipped.letter
        if self._point.epoch:
            splits = self._job.splits[letter.stream]
            if not len(self._point.committed.above(skipped.event, splits)):
                return False
        if self._letters is not None:
            self._letters.write(letter, self.epoch)
        self.skipped += 1
        return True

    def stage(self) -> Staged:
        """Make everything durable; the driver publishes it."""
        staged = [sink.stage(self.epoch) for sink, _ in self._sinks]
        if self._letters is not None:
            staged.append(self._letters.stage(self.epoch))
        for sink, _ in self._sinks:
            sink.close()
        self._is_staged = True
        return Staged(
            tuple(file for part in staged for file in part.files),
            tuple(batch for part in staged for batch in part.unaccepted),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if not self._is_staged:
            for sink, _ in self._sinks:
                sink.abort()


def error_row(error: DgsError) -> bytes:
    """Return an error as bytes; facts that the codec cannot encode become text."""
    return codec.encode(
        [type(error).__qualname__, {name: _plain(fact) for name, fact in error.facts.items()}]
    )


def error_of(data: bytes) -> DgsError:
    """Return the error encoded in bytes."""
    name, facts = codec.decode(data)
    found = _classes(DgsError).get(name)
    if found is None:
        return InternalError(problem=f"a task ended with {name}: {facts}")
    return found(**facts)


def _plain(fact: Any) -> Any:
    try:
        codec.encode(fact)
    except CodecError:
        return str(fact)
    return fact


def _classes(base: type[DgsError]) -> dict[str, type[DgsError]]:
    found = {base.__qualname__: base}
    for below in base.__subclasses__():
        found |= _classes(below)
    return found
