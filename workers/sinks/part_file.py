"""One output file of one host: `<name>.partial` while it is written, its final name when the run is complete.

A directory of outputs never holds files of two runs under final names. An earlier run's files stay until a new run completes;
then each host replaces its own, and removes those that no host of the new run writes. Hosts tell each other apart from the
leftovers of dead runs by a lock that each holds on its `.partial` file, so two runs cannot write to one directory either.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "part-7.jsonl").write_text("old")
>>> part = PartFile(folder, "part-0", "jsonl")
>>> _ = part.file.write(b"new")
>>> sorted(path.name for path in folder.iterdir())
['part-0.jsonl.partial', 'part-7.jsonl']
>>> part.commit(keep=True)
>>> sorted(path.name for path in folder.iterdir())
['part-0.jsonl']
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dgs.errors import OutputUnwritableError

PARTIAL = ".partial"
BUFFER_BYTES = 1 << 20
Identity = tuple[int, int]


class PartFile:
    """A file being written. Write bytes to `file`, then call `commit` or `abort`.

    Raises OutputUnwritableError if the directory cannot be made or written, or another run is writing to the same file.
    """

    def __init__(self, directory: Path, name: str, suffix: str) -> None:
        self._directory = directory
        self._suffix = suffix
        self._final = directory / f"{name}.{suffix}"
        self._partial = directory / f"{name}.{suffix}{PARTIAL}"
        with refusing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._earlier = {path: _identity(path) for path in directory.glob(f"part-*.{suffix}")}
            self.file: IO[bytes] = self._partial.open("ab", buffering=BUFFER_BYTES)
            if not _locked(self.file):
                self.file.close()
                raise OutputUnwritableError(path=self._partial, problem="another run is writing to it")
            self.file.truncate(0)

    def commit(self, *, keep: bool) -> None:
        """Give the file its final name (or remove it, if there is nothing to keep), and remove what earlier runs left."""
        with refusing(self._partial):
            self.file.flush()
            os.fsync(self.file.fileno())
            if keep:
                self._partial.replace(self._final)
            else:
                self._partial.unlink()
            self.file.close()
            for path, identity in self._earlier.items():
                if _abandoned(path.with_name(path.name + PARTIAL)) and _identity(path) == identity:
                    path.unlink(missing_ok=True)
            for path in self._directory.glob(f"part-*.{self._suffix}{PARTIAL}"):
                _abandoned(path)

    def abort(self) -> None:
        """Leave the file as it is, under its `.partial` name."""
        with refusing(self._partial):
            self.file.close()


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into OutputUnwritableError."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from error


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _abandoned(partial: Path) -> bool:
    """Return whether no host writes this file; a leftover of a dead run is removed."""
    try:
        with partial.open("ab") as file:
            if not _locked(file):
                return False
            partial.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    return True


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
