"""Files that appear whole or not at all, and stay: a temporary file, its fsync, its name, the fsync of the directory.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "a" / "b"
>>> put_new(path, b"one"), put_new(path, b"two"), path.read_bytes()
(True, False, b'one')
>>> replace_with(path, b"three")
>>> path.read_bytes(), [found.name for found in path.parent.iterdir()]
(b'three', ['b'])
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dgs.errors import OutputUnwritableError
from dgs.workers.storage.disk import sync_directory


def put_new(path: Path, data: bytes) -> bool:
    """Make a durable file, unless there is one of that name: return whether it was made. Raises OutputUnwritableError.

    The name is given with a hard link, which fails where the name is taken: of two writers one wins, and the other knows.
    """
    with _temporary(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        sync_directory(path.parent)
    return True


def replace_with(path: Path, data: bytes) -> None:
    """Make a durable file, in the place of one that may be there. Raises OutputUnwritableError."""
    with _temporary(path, data) as temporary:
        temporary.rename(path)
        sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, durable, for this user only. Raises OutputUnwritableError."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from error


@contextlib.contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """Write a temporary file beside `path`, durable; it is gone afterwards. A file whose fsync failed is never used again."""
    temporary: Path | None = None
    try:
        make_directory(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".temporary", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
