"""Outputs that hosts send to the caller: for stdout, for `collect`, and events that were left out.

Outputs for the sink `memory` are those of `collect`: a caller that does not collect them needs none. What waits for a commit is on
disk beyond `buffer_bytes`, unless it is collected.

>>> from dgs.model.tags import Tag
>>> def batch(*values):
...     rows = list(range(len(values)))
...     return OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=list(values))
>>> held = HeldOutputs(bound=500)
>>> for value in "abcdef":
...     held.add(1, batch(value))
>>> held.bytes_in_memory <= 500, [one.to_list() for one in held.take(1)], held.bytes_in_memory
(True, [['a'], ['b'], ['c'], ['d'], ['e'], ['f']], 0)
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import getsizeof
from typing import IO

from dgs import codec
from dgs.model import columns
from dgs.model.outputs import OutputBatch
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.runtime.job import Job
from dgs.workers.sinks import HostSink
from dgs.workers.sinks.simple_sinks import StdoutSink
from dgs.workers.storage.whole_files import refusing

Held = OutputBatch | DeadLetter

BYTES_PER_ROW = 100
"""The memory that the id of an output is taken to need."""

_LENGTH = struct.Struct("<Q")


@dataclass
class _Epoch:
    """The outputs of an epoch, in the order in which they came: first those in memory, then those in the file."""

    in_memory: list[Held] = field(default_factory=list)
    size: int = 0
    file: IO[bytes] | None = None


class HeldOutputs:
    """Outputs that wait for their commit: in memory up to a bound, the rest in a file without a name. `bound`: the bytes that may be in memory, None for any; `directory`: where the file is.

    Raises OutputUnwritableError.
    """

    def __init__(self, *, bound: int | None, directory: Path | None = None) -> None:
        self._bound, self._directory = bound, Path(tempfile.gettempdir()) if directory is None else directory
        self._epochs: dict[int, _Epoch] = {}

    @property
    def bytes_in_memory(self) -> int:
        """The bytes that are taken to be in memory."""
        return sum(epoch.size for epoch in self._epochs.values())

    @property
    def epochs(self) -> list[int]:
        """The epochs that have outputs, in order."""
        return sorted(self._epochs)

    def add(self, number: int, one: Held) -> None:
        """Let an output of an epoch wait. A dead letter is small, and stays in memory."""
        epoch = self._epochs.setdefault(number, _Epoch())
        if self._bound is None or isinstance(one, DeadLetter):
            epoch.in_memory.append(one)
            return
        values = one.values
        objects = sum(map(getsizeof, values)) if isinstance(values, list) else columns.nbytes(values)
        size = objects + BYTES_PER_ROW * len(one)
        if epoch.file is None and self.bytes_in_memory + size <= self._bound:
            epoch.in_memory.append(one)
            epoch.size += size
            return
        with refusing(self._directory):
            if epoch.file is None:
                epoch.file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - `take` or `clear` closes it
            data = codec.encode(one, keeps_order=True)
            epoch.file.write(_LENGTH.pack(len(data)))
            epoch.file.write(data)

    def take(self, number: int) -> Iterator[Held]:
        """Remove the outputs of an epoch, one by one, in the order in which they came."""
        epoch = self._epochs.pop(number)
        yield from epoch.in_memory
        if epoch.file is None:
            return
        with refusing(self._directory), epoch.file as file:
            file.seek(0)
            while length := file.read(_LENGTH.size):
                yield codec.decode(file.read(*_LENGTH.unpack(length)))

    def clear(self) -> None:
        """Forget all outputs."""
        for epoch in self._epochs.values():
            if epoch.file is not None:
                epoch.file.close()
        self._epochs.clear()


class CallerOutputs:
    """Writes outputs to stdout, and keeps them if the job collects outputs (`outputs`).

    These sinks can neither take an output back nor recognise a repeat. So outputs wait here until their epoch is committed. Only
    stdout gets them at once if the run takes no checkpoints or `delivery` is `at_least_once`.
    """

    def __init__(self, job: Job) -> None:
        holds = job.checkpoint is not None and job.delivery == "exactly_once"
        sinks: list[HostSink] = [StdoutSink() for config in job.sinks if config.kind == "stdout"]
        self._at_once, self._sinks = ([], sinks) if holds else (sinks, [])
        self._collect = job.collect
        self._may_repeat = job.delivery == "at_least_once"
        self.held = HeldOutputs(
            bound=None if job.collect else job.runtime.buffer_bytes, directory=job.output_dir
        )
        self._has_shown = False
        self.outputs: list[OutputBatch] = []
        self.skipped = 0
        self.dead_letters: list[DeadLetter] = []

    @staticmethod
    def is_needed(job: Job) -> bool:
        """Return whether hosts must send outputs to the caller."""
        return job.collect or any(config.kind == "stdout" for config in job.sinks)

    def write(self, made: Iterable[tuple[int, OutputBatch | DeadLetter]]) -> None:
        """Take outputs of a host and the events that it left out, each with its epoch."""
        for epoch, batch in made:
            if isinstance(batch, DeadLetter):
                self.held.add(epoch, batch)
                continue
            for sink in self._at_once:
                sink.write(batch, epoch)
                self._has_shown = True
            if self._sinks or self._collect:
                self.held.add(epoch, batch)

    def commit(self, epoch: int) -> None:
        """Release the outputs of an epoch and of earlier ones, since these are committed."""
        for due in (number for number in self.held.epochs if number <= epoch):
            for batch in self.held.take(due):
                self._release(due, batch)
        for sink in (*self._sinks, *self._at_once):
            sink.stage(epoch)

    @property
    def can_discard(self) -> bool:
        """Whether the run may start again without showing an output twice that must be shown once."""
        return self._may_repeat or not self._has_shown

    def discard(self) -> None:
        """Forget outputs that are not committed. The run goes on from its last checkpoint, and makes them again."""
        self.held.clear()

    def _release(self, epoch: int, batch: OutputBatch | DeadLetter) -> None:
        if isinstance(batch, DeadLetter):
            self.skipped += 1
            if self._collect:
                self.dead_letters.append(batch)
            return
        for sink in self._sinks:
            sink.write(batch, epoch)
        if self._collect:
            self.outputs.append(batch)

    def close(self, *, complete: bool) -> None:
        """End the run: no more outputs will come, and those held here are not committed."""
        self.held.clear()
        for sink in (*self._sinks, *self._at_once):
            if complete:
                sink.close()
            else:
                sink.abort()
