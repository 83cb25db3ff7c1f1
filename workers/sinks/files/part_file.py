"""One output file of one host, named `....partial` until it is published.

Each host holds a lock on its `.partial` file, which tells it from the leftovers of dead runs. In a run without epochs the lock is
held until the file has its final name, so that two runs cannot write to one directory.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> part = PartFile(folder / "part-0.jsonl", folder / "part-0.jsonl.partial")
>>> with part.writing() as file:
...     _ = file.write(b"new")
>>> staged = part.stage(rows=1, with_digest=True)
>>> staged.size, staged.rows, staged.digest[:12], sorted(path.name for path in folder.iterdir())
(3, 1, '9bae9d5e4321', ['part-0.jsonl.partial'])
>>> is_abandoned(folder / "part-0.jsonl.partial"), part.release(), is_abandoned(folder / "part-0.jsonl.partial")
(False, None, True)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from dgs.errors import OutputUnwritableError
from dgs.job import private_files
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.storage.disk import refusing, sync_directory, sync_file
from dgs.workers.storage.locks import take, take_at_once

Opener: TypeAlias = Callable[[str, int], int]
"""The function that opens a file with its mode; None: the process's own way."""

BUFFER_BYTES = 1 << 20
DIGEST_BYTES = 32

ANOTHER_RUN = "another run is writing to it"
"""The problem with an output file that is locked."""


class PartFile:
    """A file being written. Write to it inside `writing`, then `stage` or `discard` it, and finally `release` it.

    Raises OutputUnwritableError if the file cannot be written or another run is writing to it.
    """

    def __init__(self, final: Path, partial: Path, opener: Opener | None = None) -> None:
        self._final, self._partial = final, partial
        with refusing(final.parent):
            self.file = _locked(partial, opener)
            self.file.truncate(0)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """Yield the file, open at its end. Raises OutputUnwritableError if writing fails."""
        with refusing(self._partial.parent):
            yield self.file

    def stage(self, *, rows: int, with_digest: bool) -> StagedFile:
        """Make the file and its name durable. `with_digest`: read the file back for its digest."""
        with refusing(self._partial):
            sync_file(self.file)
            sync_directory(self._partial.parent)
            size = self.file.tell()
            digest = digest_of(self._partial) if with_digest else ""
        return StagedFile(str(self._partial.absolute()), str(self._final.absolute()), size, digest, rows)

    def discard(self) -> None:
        """Remove the file, which has no outputs."""
        with refusing(self._partial):
            self._partial.unlink(missing_ok=True)
            self.file.close()

    def release(self) -> None:
        """Close the file and leave it as it is."""
        with refusing(self._partial):
            self.file.close()


@contextmanager
def locked(path: Path, *, of: Path) -> Iterator[None]:
    """Hold the lock of a file, which is removed in the end. Raises OutputUnwritableError, which names the locked path `of`."""
    with refusing(path.parent):
        file = _locked(path, private_files.opener, of=of)
    try:
        yield
    finally:
        with refusing(path), file:
            if _is_at(file, path):
                path.unlink()


def digest_of(path: Path) -> str:
    """Return the BLAKE2b-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()


def is_abandoned(partial: Path) -> bool:
    """Return whether no host writes this file. If none does, remove it: it is a leftover of a dead run."""
    try:
        with partial.open("r+b") as file:
            if not take_at_once(file.fileno()):
                return False
            partial.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    return True


def _locked(partial: Path, opener: Opener | None, *, of: Path | None = None) -> IO[bytes]:
    """Open a file and hold its lock. The previous holder may have removed or renamed the file, so check and try again."""
    while True:
        file = open(partial, "ab", buffering=BUFFER_BYTES, opener=opener)  # noqa: SIM115 - Path.open takes no opener
        if not take(file.fileno()):
            file.close()
            raise OutputUnwritableError(path=of or partial, problem=ANOTHER_RUN)
        if _is_at(file, partial):
            return file
        file.close()


def _is_at(file: IO[bytes], path: Path) -> bool:
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
