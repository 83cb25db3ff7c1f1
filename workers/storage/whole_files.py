"""Files on the disk of this machine that appear whole or not at all, and stay. A failure is OutputUnwritableError.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "a" / "b"
>>> put_new(path, b"one"), put_new(path, b"two"), path.read_bytes()
(True, False, b'one')
>>> replace_with(path, b"three")
>>> path.read_bytes(), [found.name for found in path.parent.iterdir()]
(b'three', ['b'])
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dgs.errors import OutputUnwritableError
from dgs.workers.storage.disk import TEMPORARY, RealDisk

_DISK = RealDisk()


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into OutputUnwritableError, which names `path`."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from error


def put_new(path: Path, data: bytes) -> bool:
    """Make a durable file, unless there is one of that name: return whether it was made. Raises OutputUnwritableError.

    The name is given with a hard link, which fails where the name is taken: of two writers one wins, and the other knows.
    """
    temporary = path.with_name(f"{path.name}.{_DISK.unique()}{TEMPORARY}")
    with refusing(path):
        _DISK.make_directory(path.parent)
        try:
            _DISK.create(temporary, data)
            with suppress(FileExistsError):
                os.link(temporary, path)
                _DISK.sync_directory(path.parent)
                return True
            return False
        finally:
            with suppress(OSError):  # an earlier error is the one that says what is wrong
                temporary.unlink(missing_ok=True)


def replace_with(path: Path, data: bytes) -> None:
    """Make a durable file, in the place of one that may be there. Raises OutputUnwritableError."""
    with refusing(path):
        _DISK.make_directory(path.parent)
        _DISK.write_new(path, data)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, durable, for this user only. Raises OutputUnwritableError."""
    with refusing(path):
        _DISK.make_directory(path)
