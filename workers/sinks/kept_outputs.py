r"""Outputs at the caller: kept until they are committed or collected, and lines for stdout.

They are in memory up to a bound that all of them share, the rest in files without names.

>>> from dgs.model.tags import Tag
>>> def batch(*values):
...     rows = list(range(len(values)))
...     return OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=list(values))
>>> room = Room(500)
>>> held = HeldOutputs(room)
>>> for value in "abcdef":
...     held.add(1, batch(value))
>>> room.taken <= 500, [one.to_list() for one in held.take(1)]
(True, [['a'], ['b'], ['c'], ['d'], ['e'], ['f']])

Lines for stdout are printed only as fast as their reader takes them, so a run never blocks in a write. If the reader of a pipe or a
terminal stops, lines wait here, and `show` prints them when the reader goes on. Files, and streams in memory in place of stdout, take all
lines at once.

>>> sink = StdoutSink()
>>> sink.put(["1\n", "2\n"])
>>> sink.show()
1
2
True
>>> sink.is_behind
False
"""

from __future__ import annotations

import io
import os
import select
import stat
import struct
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from sys import getsizeof
from typing import IO, Any

import numpy as np

from dgs import codec
from dgs.errors import CodecError
from dgs.model import columns
from dgs.model.outputs import OutputBatch
from dgs.workers.storage.disk import refusing

BYTES_PER_ROW = 100
"""The memory that the id of an output is taken to need."""

ONE_IN = 16
"""One in so many objects of a batch is measured, the first among them."""

MOST_PARTS = 16
"""The parts of an object that are measured."""

PART_BYTES = 2**20
"""Outputs are encoded about so many bytes at a time: a copy of a whole batch may take more memory than the batch."""

_CONTAINERS = (dict, list, tuple, set, frozenset)

_LENGTH = struct.Struct("<Q")


class Room:
    """Memory that several objects share. `bound`: the bytes that they may have in all. `taken`: the estimated bytes that they have."""

    def __init__(self, bound: int) -> None:
        self.bound, self.taken = bound, 0


class KeptOutputs:
    """Outputs in memory while there is room, and then in a file without a name; those that the codec cannot encode stay in memory.

    `directory`: where the file is, if the directory exists. Iterate as often as you like: first come the outputs in memory, then those in
    the file, each in the order of `append`. `bytes`: the estimated bytes in memory and those in the file. Raises OutputUnwritableError.
    """

    def __init__(self, room: Room, directory: Path) -> None:
        self._room = room
        self._directory = directory if directory.is_dir() else Path(tempfile.gettempdir())
        self._in_memory: list[OutputBatch] = []
        self._file: IO[bytes] | None = None
        self._bytes_in_memory = 0
        self.bytes = 0

    def append(self, one: OutputBatch) -> None:
        """Keep an output, whole if there is room for it."""
        size = bytes_of(one)
        if self._has_room(size):
            self._keep(one, size)
            return
        for part, part_size in in_parts(one, size):
            if self._has_room(part_size) or not self._is_put(part):
                self._keep(part, part_size)
            else:
                self.bytes += part_size

    def _has_room(self, size: int) -> bool:
        return self._file is None and self._room.taken + size <= self._room.bound

    def _keep(self, one: OutputBatch, size: int) -> None:
        self._in_memory.append(one)
        self._bytes_in_memory += size
        self._room.taken += size
        self.bytes += size

    def take_over(self, others: KeptOutputs) -> None:
        """Keep the outputs of another object in the same room, which then has none."""
        if self._file is None and others._file is None:
            self._in_memory += others._in_memory
            self._bytes_in_memory += others._bytes_in_memory
            self.bytes += others.bytes
            others._in_memory, others._bytes_in_memory, others.bytes = [], 0, 0
            return
        for one in others:
            self.append(one)
        others.close()

    def _is_put(self, one: OutputBatch) -> bool:
        """Put an output into the file; return whether the codec can encode it."""
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
        self._room.taken -= self._bytes_in_memory
        self._in_memory, self._bytes_in_memory, self.bytes = [], 0, 0
        if self._file is not None:
            self._file.close()
            self._file = None


def in_parts(one: OutputBatch, size: int) -> Iterator[tuple[OutputBatch, int]]:
    """Yield the outputs of a batch about `PART_BYTES` at a time, with an estimate of the bytes that they need in memory. `size`: that of all."""
    rows = max(1, len(one) * PART_BYTES // max(size, 1))
    if len(one) <= rows:
        yield one, size
        return
    for start in range(0, len(one), rows):
        part = one.take(np.arange(start, min(start + rows, len(one))))
        yield part, bytes_of(part)


def bytes_of(one: OutputBatch) -> int:
    """Return an estimate of the bytes that an output needs in memory."""
    return _column_bytes(one.values) + BYTES_PER_ROW * len(one)


def _column_bytes(column: columns.Column) -> int:
    if isinstance(column, dict):
        return sum(map(_column_bytes, column.values()))
    if not isinstance(column, list):
        return columns.nbytes(column)
    some = column[::ONE_IN]  # measuring every value would cost a third of a scalar run
    return sum(map(_with_parts, some)) * len(column) // max(len(some), 1)


def _with_parts(value: Any, levels: int = 4) -> int:
    """Return about the bytes of a value with what it consists of, down to so many levels."""
    parts = value.values() if type(value) is dict else value
    if not levels or type(value) not in _CONTAINERS or not value:
        return getsizeof(value)
    some = list(islice(parts, MOST_PARTS))
    return getsizeof(value) + sum(_with_parts(part, levels - 1) for part in some) * len(value) // len(some)


class HeldOutputs:
    """Outputs that wait for their commit, by epoch. See `KeptOutputs`."""

    def __init__(self, room: Room, directory: Path | None = None) -> None:
        self._room, self._directory = room, Path(tempfile.gettempdir()) if directory is None else directory
        self._epochs: dict[int, KeptOutputs] = {}

    @property
    def epochs(self) -> list[int]:
        """The epochs that have outputs, in order."""
        return sorted(self._epochs)

    def add(self, number: int, one: OutputBatch) -> None:
        """Keep an output of an epoch."""
        if number not in self._epochs:
            self._epochs[number] = KeptOutputs(self._room, self._directory)
        self._epochs[number].append(one)

    def take(self, number: int) -> KeptOutputs:
        """Remove and return the outputs of an epoch, in the order in which they came."""
        return self._epochs.pop(number)

    def clear(self) -> None:
        """Forget all outputs."""
        for epoch in self._epochs.values():
            epoch.close()
        self._epochs.clear()


STDOUT = Path("stdout")
"""The place in errors."""

LINES_AT_ONCE = 256
"""Lines that are taken from their source together."""

BYTES_AT_ONCE = 2**20
"""The bytes of lines that are taken from their source together, and those that one call of `show` gives a reader."""


class StdoutSink:
    """Lines for stdout, in the order of `put`."""

    def __init__(self) -> None:
        self._sources: deque[Iterator[str]] = deque()
        self._text = b""
        self._shown = 0  # the text as bytes

    def put(self, lines: Iterable[str]) -> None:
        """Append lines to those that wait. The iterable is consumed as lines are printed."""
        self._sources.append(iter(lines))

    @property
    def is_behind(self) -> bool:
        """Whether lines wait."""
        return self._shown < len(self._text) or bool(self._sources)

    def show(self, *, within: float = 0.0) -> bool:
        """Print what the reader takes, and wait up to `within` seconds for it to take anything; return whether it did.

        Raises BrokenPipeError if there is no reader any more, OutputUnwritableError if lines cannot be printed.
        """
        if not self.is_behind:
            return True
        try:
            with refusing(STDOUT):
                slow = _slow_reader()
                return self._show_all() if slow is None else self._show_some(slow, within)
        except Exception as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            raise

    def left(self) -> Iterator[str]:
        """Remove and yield the lines that are not printed, or only in part."""
        begun = self._text.rfind(b"\n", 0, self._shown) + 1
        if self._shown < len(self._text):
            yield self._text[begun:].decode()
        self._text, self._shown = b"", 0
        while self._sources:
            yield from self._sources.popleft()

    def _show_all(self) -> bool:
        sys.stdout.writelines(self.left())
        sys.stdout.flush()
        return True

    def _show_some(self, file: int, within: float) -> bool:
        given = 0
        while self._is_filled() and given < BYTES_AT_ONCE:
            if not select.select([], [file], [], 0.0 if given else within)[1]:
                break
            # A pipe that is ready has room for this many bytes, so the write does not block, and tears no line that fits.
            piece = self._text[self._shown : self._shown + select.PIPE_BUF]
            written = os.write(file, piece[: piece.rfind(b"\n") + 1 or None])
            self._shown += written
            given += written
        return given > 0

    def _is_filled(self) -> bool:
        """Take the next lines if all earlier ones are printed; return whether there are any."""
        while self._shown == len(self._text) and self._sources:
            lines, size = list[str](), 0
            for line in islice(self._sources[0], LINES_AT_ONCE):
                lines.append(line)
                size += len(line)
                if size >= BYTES_AT_ONCE:
                    break
            if not lines:
                self._sources.popleft()
            self._text, self._shown = "".join(lines).encode(), 0
        return self._shown < len(self._text)


def _slow_reader() -> int | None:
    """Flush stdout and return its file descriptor if a slow reader can block a write, else None."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or not isinstance(
        getattr(out.buffer, "raw", out.buffer), io.FileIO
    ):
        return None
    mode = os.fstat(out.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)):
        return None
    out.flush()
    return out.fileno()
