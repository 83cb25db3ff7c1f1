"""A file of pairs of numbers that only grows: each pair is durable before `append` returns, and chained to all before it.

Layout, little-endian: magic `DGSR`, version u32; then records of 24 bytes: two i64 and a BLAKE2b-64 of them and the digest before,
the first one that of the name. A torn record is the last one, and is cut off or all zeros. It was never acted upon, and is removed. Any
other damage is an error.

The first number of a pair never falls, so the first records can be cut off (`cut`). One pair replaces them: the first number of the last of
them, and their greatest second number. Version 2 then has, before its records: their count, that pair, the digest of the last of them, and
a BLAKE2b-64 of these and the name.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "beats.dgs"
>>> with closing(RecordWriter(path, "clicks")) as writer:
...     writer.append(7, 100)
...     writer.append(9, 120)
>>> reader = RecordReader(path, "clicks")
>>> reader.poll(until=1), reader.poll(), reader.poll(), reader.count
([(7, 100)], [(9, 120)], [], 2)
>>> cut(path, "clicks", below=9, least=1)
>>> reader.poll(), RecordReader(path, "clicks").poll()
([], [(7, 100), (9, 120)])
"""

from __future__ import annotations

import hashlib
import os
import time
from bisect import bisect_left
from contextlib import closing
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple

from dgs.errors import CorruptFileError, OutputUnwritableError
from dgs.job import private_files
from dgs.workers.storage.disk import make_directory, refusing, replace_with, sync_directory
from dgs.workers.storage.locks import take, take_at_once

__all__ = ["RecordReader", "RecordWriter", "closing", "cut"]

START = Struct("<4sI")
MAGIC, VERSION, CUT_VERSION = b"DGSR", 1, 2
PAIR = Struct("<qq")
DIGEST_BYTES = 8
SIZE = PAIR.size + DIGEST_BYTES
CUT = Struct(f"<qqq{DIGEST_BYTES}s")

CUT_LEAST = 1_024
"""The least number of records that are worth cutting off."""

PATIENCE = 10.0
"""Seconds that a writer waits for the previous one to end."""


class Beginning(NamedTuple):
    """The beginning of a file, before its records. `gone`: the number of records that were cut off and replaced by `pair`. `size`: in bytes."""

    size: int = START.size
    gone: int = 0
    pair: tuple[int, int] = (0, 0)
    digest: bytes = b""


class RecordReader:
    """Reads the records of a file, and those that are appended meanwhile.

    `count`: the records read, with those that were cut off; `digest`: of the last of them.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.count = 0
        self.digest = hashlib.blake2b(name.encode(), digest_size=DIGEST_BYTES).digest()
        self.beginning = Beginning()

    def poll(self, until: int | None = None) -> list[tuple[int, int]]:
        """Return the records since the last poll, up to the one of that number; none if there is no such file.

        The pair that replaces those cut off comes first. Raises CorruptFileError.
        """
        try:
            with _opened(self.path) as file:
                beginning = self.read_beginning(file)
                if beginning is None:
                    return []
                self.beginning = beginning
                found = self._begun()
                file.seek(self.end)
                data = file.read(-1 if until is None else max(until - self.count, 0) * SIZE)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise CorruptFileError(path=self.path, problem=error.strerror or str(error)) from error
        for start in range(0, len(data) - SIZE + 1, SIZE):
            record = data[start : start + SIZE]
            if record == bytes(SIZE) and not any(data[start:]):
                break
            found.append(self._taken(record))
        return found

    def read_beginning(self, file: IO[bytes]) -> Beginning | None:
        """Return what comes before the records; None if that is not written yet."""
        head = file.read(START.size)
        if len(head) < START.size:
            return None
        if head == START.pack(MAGIC, VERSION):
            return Beginning()
        if head != START.pack(MAGIC, CUT_VERSION):
            raise CorruptFileError(path=self.path, problem="it does not begin as files of dgs do")
        about = file.read(CUT.size + DIGEST_BYTES)
        if about[CUT.size :] != self._digest_of_cut(about[: CUT.size]):
            raise CorruptFileError(path=self.path, problem="its beginning does not match its digest")
        count, first, second, digest = CUT.unpack(about[: CUT.size])
        return Beginning(START.size + len(about), count, (first, second), digest)

    def _begun(self) -> list[tuple[int, int]]:
        """Return the pair for the records that were cut off, if nothing was read yet."""
        beginning = self.beginning
        if self.count >= beginning.gone:
            return []
        if self.count:
            problem = (
                f"its first {beginning.gone} records were cut off, and only {self.count} of them were read"
            )
            raise CorruptFileError(path=self.path, problem=problem)
        self.count, self.digest = beginning.gone, beginning.digest
        return [beginning.pair]

    def _digest_of_cut(self, about: bytes) -> bytes:
        return hashlib.blake2b(about + self.name.encode(), digest_size=DIGEST_BYTES).digest()

    def _taken(self, record: bytes) -> tuple[int, int]:
        pair, digest = record[: PAIR.size], record[PAIR.size :]
        if digest != self._digest(pair):
            raise CorruptFileError(path=self.path, problem=f"record {self.count} does not match its digest")
        self._note(digest)
        first, second = PAIR.unpack(pair)
        return first, second

    @property
    def end(self) -> int:
        """The offset in the file after the last record read."""
        return self.beginning.size + (self.count - self.beginning.gone) * SIZE

    def _digest(self, pair: bytes) -> bytes:
        return hashlib.blake2b(self.digest + pair, digest_size=DIGEST_BYTES).digest()

    def _note(self, digest: bytes) -> None:
        self.count += 1
        self.digest = digest


class RecordWriter(RecordReader):
    """Appends to a file, alone: another writer waits, and is refused after a while. `known`: the records that were there.

    It cuts the file when it appends or closes, if another process has asked for that. Raises OutputUnwritableError, CorruptFileError.
    """

    _request: Path | None = None

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        make_directory(path.parent)
        self._descriptor = -1
        try:
            with refusing(path):
                self._lock()
                if os.fstat(self._descriptor).st_size < START.size:
                    os.ftruncate(self._descriptor, 0)
                    self._put(START.pack(MAGIC, VERSION), 0)
                    sync_directory(path.parent)
            self.known = self.poll()
            with refusing(path):
                os.ftruncate(self._descriptor, self.end)
        except BaseException:
            self.close()
            raise
        self._request = _request_beside(path)
        with refusing(path):
            self._request.unlink(missing_ok=True)  # perhaps of another run

    def append(self, first: int, second: int) -> None:
        """Add a record. Raises OutputUnwritableError; the file may then end in a torn record, which is cut off when it is opened again."""
        self._cut_if_asked()
        pair = PAIR.pack(first, second)
        digest = self._digest(pair)
        with refusing(self.path):
            self._put(pair + digest, self.end)
        self._note(digest)

    def close(self) -> None:
        """Let others write. A second call does nothing."""
        if self._descriptor >= 0:
            try:
                self._cut_if_asked()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def cut(self, below: int) -> None:
        """Cut off the records whose first number is below this. A crash at any moment leaves the old file or the new one."""
        with refusing(self.path), _opened(self.path) as file:
            kept = _first_at(file, self.beginning, self.count, below)
            if kept == self.beginning.gone:
                return
            reader = RecordReader(self.path, self.name)
            gone = reader.poll(until=kept)
            file.seek(reader.end)
            rest = file.read(self.end - reader.end)
        about = CUT.pack(kept, gone[-1][0], max(second for _, second in gone), reader.digest)
        head = START.pack(MAGIC, CUT_VERSION) + about + self._digest_of_cut(about)
        new = self.path.with_name(f"{self.path.name}.new")
        with refusing(self.path):
            descriptor = _written(new, head + rest)
            new.replace(self.path)
            os.close(self._descriptor)
            self._descriptor, self.beginning = descriptor, Beginning(len(head), kept)
            sync_directory(self.path.parent)

    def _cut_if_asked(self) -> None:
        if self._request is None or not self._request.exists():
            return
        try:
            below = int(private_files.read_text(self._request, encoding="ascii"))
            self._request.unlink(missing_ok=True)
        except (OSError, ValueError):  # the next commit asks for it again
            return
        self.cut(below)

    def _lock(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            self._descriptor = private_files.opener(os.fspath(self.path), os.O_RDWR | os.O_CREAT)
            if take(self._descriptor):
                if self._has_the_name():
                    return
            elif time.monotonic() > deadline:
                raise OutputUnwritableError(path=self.path, problem="another process writes it")
            self.close()  # the previous writer has cut the file: the path is another file now

    def _has_the_name(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _put(self, data: bytes, place: int) -> None:
        _put(self._descriptor, data, place)


def cut(path: Path, name: str, *, below: int, least: int | None = None) -> None:
    """Cut off the records whose first number is below `below`, if they are at least `least`, and no fewer than the others.

    So in a growing file, cutting takes no more work than writing. A process that is writing the file does it when it next
    appends, or closes it. Raises OutputUnwritableError, CorruptFileError.
    """
    try:
        with _opened(path) as file:
            beginning = RecordReader(path, name).read_beginning(file)
            if beginning is None:
                return
            count = beginning.gone + (os.fstat(file.fileno()).st_size - beginning.size) // SIZE
            kept = _first_at(file, beginning, count, below)
            if not _pays(kept - beginning.gone, count - kept, CUT_LEAST if least is None else least):
                return
            is_written_now = not take_at_once(file.fileno())
    except FileNotFoundError:
        return
    if is_written_now:
        replace_with(_request_beside(path), str(below).encode())
        return
    with closing(RecordWriter(path, name)) as writer:
        writer.cut(below)


def _opened(path: Path) -> IO[bytes]:
    """Open a file to read it. One of the simulation opens itself, and is no pipe."""
    if isinstance(path, Path):
        private_files.check_file(path)
    return path.open("rb")


def _pays(gone: int, left: int, least: int) -> bool:
    return gone >= max(least, left)


def _request_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.cut")


def _first_at(file: IO[bytes], beginning: Beginning, count: int, below: int) -> int:
    """Return the number of the first record whose first number is not below this, by a binary search."""

    def first_of(number: int) -> int:
        file.seek(beginning.size + (number - beginning.gone) * SIZE)
        return int(PAIR.unpack(file.read(PAIR.size))[0])

    return bisect_left(range(beginning.gone, count), below, key=first_of) + beginning.gone


def _written(path: Path, data: bytes) -> int:
    """Write a new file, durably; return its descriptor, which has its lock."""
    descriptor = private_files.opener(os.fspath(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        take(descriptor)
        _put(descriptor, data, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _put(descriptor: int, data: bytes, place: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, place)
        left, place = left[written:], place + written
    os.fsync(descriptor)
