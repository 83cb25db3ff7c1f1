"""Durable files on this machine that appear whole or not at all. A failure raises OutputUnwritableError.

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
    """Turn errors of the operating system into OutputUnwritableError with `path`."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from error


def put_new(path: Path, data: bytes) -> bool:
    """Make a durable file unless one of that name exists; return whether it was made. Raises OutputUnwritableError.

    A hard link gives the name and fails if the name is taken. So one of two writers wins, and the other one notices.
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
            with suppress(OSError):  # an earlier error tells what is wrong
                temporary.unlink(missing_ok=True)


def replace_with(path: Path, data: bytes) -> None:
    """Make a durable file, in place of any file of that name. Raises OutputUnwritableError."""
    with refusing(path):
        _DISK.make_directory(path.parent)
        _DISK.write_new(path, data)


def make_directory(path: Path) -> None:
    """Make a durable directory, and those above it, for this user only. Raises OutputUnwritableError."""
    with refusing(path):
        _DISK.make_directory(path)
