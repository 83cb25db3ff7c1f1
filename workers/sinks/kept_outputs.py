"""Outputs that wait or are kept: in memory up to a bound, the rest in a file without a name.

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
from collections.abc import Iterator
from pathlib import Path
from sys import getsizeof
from typing import IO

from dgs import codec
from dgs.errors import CodecError
from dgs.model import columns
from dgs.model.outputs import OutputBatch
from dgs.workers.storage.disk import refusing

BYTES_PER_ROW = 100
"""The memory that the id of an output is taken to need."""

ONE_IN = 16
"""One in so many objects of a batch is measured, the first among them."""

_LENGTH = struct.Struct("<Q")


class KeptOutputs:
    """Outputs in memory up to a bound, and then in a file without a name; what the codec does not carry stays in memory.

    `bound`: the bytes that may be in memory; `directory`: where the file is, if it is there. Iterating gives those in memory, then those in the file, each
    in the order in which they came, as often as it is asked for. `bytes`: taken by those in memory and by those in the file.
    Raises OutputUnwritableError.
    """

    def __init__(self, *, bound: int, directory: Path) -> None:
        self._bound = bound
        self._directory = directory if directory.is_dir() else Path(tempfile.gettempdir())
        self._in_memory: list[OutputBatch] = []
        self._file: IO[bytes] | None = None
        self.bytes_in_memory = 0
        self.bytes = 0

    def append(self, one: OutputBatch, *, others: int = 0) -> None:
        """Keep an output. `others`: bytes that others have in memory."""
        size = _size(one)
        self.bytes += size
        has_room = self._file is None and others + self.bytes_in_memory + size <= self._bound
        if has_room or not self._is_put(one):
            self._in_memory.append(one)
            self.bytes_in_memory += size

    def extend(self, others: KeptOutputs) -> None:
        """Keep the outputs of another object, too."""
        are_in_memory = self._file is None and others._file is None
        if are_in_memory and self.bytes_in_memory + others.bytes_in_memory <= self._bound:
            self._in_memory += others._in_memory
            self.bytes_in_memory += others.bytes_in_memory
            self.bytes += others.bytes
            return
        for one in others:
            self.append(one)

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

    def __iter__(self) -> Iterator[OutputBatch]:
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
        self._in_memory, self.bytes_in_memory, self.bytes = [], 0, 0
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
        self._epochs: dict[int, KeptOutputs] = {}

    @property
    def bytes_in_memory(self) -> int:
        """The bytes that are taken to be in memory."""
        return sum(epoch.bytes_in_memory for epoch in self._epochs.values())

    @property
    def epochs(self) -> list[int]:
        """The epochs that have outputs, in order."""
        return sorted(self._epochs)

    def add(self, number: int, one: OutputBatch) -> None:
        """Let an output of an epoch wait."""
        epoch = self._epochs.get(number)
        if epoch is None:
            epoch = self._epochs[number] = KeptOutputs(bound=self._bound, directory=self._directory)
        others = self.bytes_in_memory - epoch.bytes_in_memory if len(self._epochs) > 1 else 0
        epoch.append(one, others=others)

    def take(self, number: int) -> KeptOutputs:
        """Remove and return the outputs of an epoch, in the order in which they came."""
        return self._epochs.pop(number)

    def clear(self) -> None:
        """Forget all outputs."""
        for epoch in self._epochs.values():
            epoch.close()
        self._epochs.clear()
