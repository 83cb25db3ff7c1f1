"""A file of pairs of numbers that only grows: each pair is durable before `append` returns, and chained to all before it.

Layout, little-endian: magic `DGSR`, version u32; then records of 24 bytes: two i64 and a BLAKE2b-64 of them and the digest before,
the first one that of the name. A record that a crash has torn is the last one, and is cut off or all zeros: it was never acted upon,
and goes. Any other damage is an error.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "beats.dgs"
>>> with closing(RecordWriter(path, "clicks")) as writer:
...     writer.append(7, 100)
...     writer.append(9, 120)
>>> reader = RecordReader(path, "clicks")
>>> reader.poll(most=1), reader.poll(), reader.poll(), reader.count
([(7, 100)], [(9, 120)], [], 2)
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import closing
from pathlib import Path
from struct import Struct

from dgs.errors import CorruptFileError, OutputUnwritableError
from dgs.job import private_files
from dgs.workers.storage.disk import sync_directory
from dgs.workers.storage.locks import take
from dgs.workers.storage.whole_files import make_directory, refusing

__all__ = ["RecordReader", "RecordWriter", "closing"]

START = Struct("<4sI")
MAGIC, VERSION = b"DGSR", 1
PAIR = Struct("<qq")
DIGEST_BYTES = 8
SIZE = PAIR.size + DIGEST_BYTES

PATIENCE = 10.0
"""Seconds that a writer waits for one before it that is still ending."""


class RecordReader:
    """Reads the records of a file, and those that are appended meanwhile. `count`: those read; `digest`: of the last of them."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.count = 0
        self.digest = hashlib.blake2b(name.encode(), digest_size=DIGEST_BYTES).digest()

    def poll(self, most: int = -1) -> list[tuple[int, int]]:
        """Return the records since the last poll, at most so many; none if there is no such file. Raises CorruptFileError."""
        try:
            with self.path.open("rb") as file:
                head = file.read(START.size)
                file.seek(self._end)
                data = file.read(most * SIZE if most >= 0 else -1)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise CorruptFileError(path=self.path, problem=error.strerror or str(error)) from error
        if len(head) < START.size:
            return []
        if head != START.pack(MAGIC, VERSION):
            raise CorruptFileError(path=self.path, problem="it does not begin as files of dgs do")
        found = []
        for start in range(0, len(data) - SIZE + 1, SIZE):
            record = data[start : start + SIZE]
            if record == bytes(SIZE) and not any(data[start:]):
                break
            found.append(self._taken(record))
        return found

    def _taken(self, record: bytes) -> tuple[int, int]:
        pair, digest = record[: PAIR.size], record[PAIR.size :]
        if digest != self._digest(pair):
            raise CorruptFileError(path=self.path, problem=f"record {self.count} does not match its digest")
        self._note(digest)
        first, second = PAIR.unpack(pair)
        return first, second

    @property
    def _end(self) -> int:
        return START.size + self.count * SIZE

    def _digest(self, pair: bytes) -> bytes:
        return hashlib.blake2b(self.digest + pair, digest_size=DIGEST_BYTES).digest()

    def _note(self, digest: bytes) -> None:
        self.count += 1
        self.digest = digest


class RecordWriter(RecordReader):
    """Appends to a file, alone: another writer waits, and is refused after a while. `known`: the records that were there.

    Raises OutputUnwritableError, CorruptFileError.
    """

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        make_directory(path.parent)
        with refusing(path):
            self._descriptor = private_files.opener(os.fspath(path), os.O_RDWR | os.O_CREAT)
        try:
            with refusing(path):
                self._lock()
                if os.fstat(self._descriptor).st_size < START.size:
                    os.ftruncate(self._descriptor, 0)
                    self._put(START.pack(MAGIC, VERSION), 0)
                    sync_directory(path.parent)
            self.known = self.poll()
            with refusing(path):
                os.ftruncate(self._descriptor, self._end)
        except BaseException:
            self.close()
            raise

    def append(self, first: int, second: int) -> None:
        """Add a record. Raises OutputUnwritableError; the file is then as before, but for what is cut off when it is opened again."""
        pair = PAIR.pack(first, second)
        digest = self._digest(pair)
        with refusing(self.path):
            self._put(pair + digest, self._end)
        self._note(digest)

    def close(self) -> None:
        """Let others write; again is nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not take(self._descriptor):
            if time.monotonic() > deadline:
                raise OutputUnwritableError(path=self.path, problem="another process writes it")

    def _put(self, data: bytes, place: int) -> None:
        left = memoryview(data)
        while left:
            written = os.pwrite(self._descriptor, left, place)
            left, place = left[written:], place + written
        os.fsync(self._descriptor)
