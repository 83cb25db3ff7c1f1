"""Outputs that hosts send to the caller: for stdout, for `collect`, and events that were left out.

Outputs for the sink `memory` are those of `collect`: a caller that does not collect them needs none. What waits for a commit, and what
is collected, is on disk beyond `buffer_bytes`.

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

import os
import struct
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from sys import getsizeof
from typing import IO, Generic, TypeVar

from dgs import codec
from dgs.errors import CodecError
from dgs.model import columns
from dgs.model.outputs import OutputBatch
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.runtime.job import Job
from dgs.workers.sinks import HostSink
from dgs.workers.sinks.simple_sinks import StdoutSink
from dgs.workers.storage.whole_files import refusing

Held = OutputBatch | DeadLetter
One = TypeVar("One", bound=Held)

BYTES_PER_ROW = 100
"""The memory that the id of an output is taken to need."""

ONE_IN = 16
"""One in so many objects of a batch is measured, the first among them."""

_LENGTH = struct.Struct("<Q")


class KeptOutputs(Generic[One]):
    """Outputs in memory up to a bound, and then in a file without a name; what the codec does not carry stays in memory.

    `bound`: the bytes that may be in memory; `directory`: where the file is, if it is there. Iterating gives those in memory, then those in the file, each
    in the order in which they came, as often as it is asked for. Raises OutputUnwritableError.
    """

    def __init__(self, *, bound: int, directory: Path) -> None:
        self._bound = bound
        self._directory = directory if directory.is_dir() else Path(tempfile.gettempdir())
        self._in_memory: list[One] = []
        self._file: IO[bytes] | None = None
        self.bytes_in_memory = 0

    def append(self, one: One, *, others: int = 0) -> None:
        """Keep an output. `others`: bytes that others have in memory. A dead letter is small, and stays in memory."""
        if isinstance(one, DeadLetter):
            self._in_memory.append(one)
            return
        size = _size(one)
        has_room = self._file is None and others + self.bytes_in_memory + size <= self._bound
        if has_room or not self._is_put(one):
            self._in_memory.append(one)
            self.bytes_in_memory += size

    def _is_put(self, one: OutputBatch) -> bool:
        """Put an output into the file; return whether the codec carries it."""
        try:
            data = codec.encode(one, keeps_order=True)
        except CodecError:
            return False
        with refusing(self._directory):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed with this object
                weakref.finalize(self, self._file.close)
            self._file.write(_LENGTH.pack(len(data)))
            self._file.write(data)
        return True

    def __iter__(self) -> Iterator[One]:
        yield from self._in_memory
        if self._file is None:
            return
        with refusing(self._directory):
            self._file.flush()
            file, place = self._file.fileno(), 0
            while head := os.pread(file, _LENGTH.size, place):
                (length,) = _LENGTH.unpack(head)
                yield codec.decode(os.pread(file, length, place + _LENGTH.size))
                place += _LENGTH.size + length

    def close(self) -> None:
        """Forget all outputs."""
        self._in_memory, self.bytes_in_memory = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _size(one: OutputBatch) -> int:
    """Return the bytes that an output is taken to need in memory."""
    values = one.values
    if isinstance(values, list):
        some = values[::ONE_IN]  # asking each of them costs a third of a scalar run
        objects = sum(map(getsizeof, some)) * len(values) // max(len(some), 1)
    else:
        objects = columns.nbytes(values)
    return objects + BYTES_PER_ROW * len(one)


class HeldOutputs:
    """Outputs that wait for their commit, by epoch: in memory up to a bound, the rest in files without names. See `KeptOutputs`."""

    def __init__(self, *, bound: int, directory: Path | None = None) -> None:
        self._bound, self._directory = bound, Path(tempfile.gettempdir()) if directory is None else directory
        self._epochs: dict[int, KeptOutputs[Held]] = {}

    @property
    def bytes_in_memory(self) -> int:
        """The bytes that are taken to be in memory."""
        return sum(epoch.bytes_in_memory for epoch in self._epochs.values())

    @property
    def epochs(self) -> list[int]:
        """The epochs that have outputs, in order."""
        return sorted(self._epochs)

    def add(self, number: int, one: Held) -> None:
        """Let an output of an epoch wait."""
        if number not in self._epochs:
            self._epochs[number] = KeptOutputs(bound=self._bound, directory=self._directory)
        epoch = self._epochs[number]
        epoch.append(one, others=self.bytes_in_memory - epoch.bytes_in_memory)

    def take(self, number: int) -> Iterator[Held]:
        """Remove the outputs of an epoch, one by one, in the order in which they came."""
        epoch = self._epochs.pop(number)
        yield from epoch
        epoch.close()

    def clear(self) -> None:
        """Forget all outputs."""
        for epoch in self._epochs.values():
            epoch.close()
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
        bound, directory = job.runtime.buffer_bytes, job.output_dir
        self.held = HeldOutputs(bound=bound, directory=directory)
        self._has_shown = False
        self.outputs: KeptOutputs[OutputBatch] = KeptOutputs(bound=bound, directory=directory)
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
