"""The disk as an interface, and durable files that appear whole or not at all.

Every operation may fail, or be the last one before a crash; `SimulatedDisk` does both. Operations raise OSError.

>>> import tempfile
>>> disk, folder = RealDisk(), Path(tempfile.mkdtemp()) / "checkpoints"
>>> disk.make_directory(folder)
>>> disk.write_new(folder / "one", b"first")
>>> disk.write_new(folder / "one", b"second")
>>> disk.names(folder), disk.read(folder / "one")
(['one'], b'second')

The functions below write on this machine. A failure raises OutputUnwritableError.

>>> path = Path(tempfile.mkdtemp()) / "a" / "b"
>>> put_new(path, b"one"), put_new(path, b"two"), path.read_bytes()
(True, False, b'one')
>>> replace_with(path, b"three")
>>> path.read_bytes(), [found.name for found in path.parent.iterdir()]
(b'three', ['b'])
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from dgs.errors import OutputUnwritableError
from dgs.job import private_files
from dgs.workers.storage.locks import FileLock

TEMPORARY = ".tmp"
"""The ending of names of unfinished files. The owner of the directory may remove those that a crash has left."""


def sync_file(file: IO[Any]) -> None:
    """Make the content of an open file durable. Raises OSError; a later call for that file may then falsely succeed."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: fsync on a new descriptor. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock(Protocol):
    """A lock on a directory."""

    def release(self) -> None:
        """Let other processes take the lock."""


class Disk(Protocol):
    """The operations of a disk. Law: after `write_new` has returned, a crash leaves the new content; before, the old or the new.

    Renaming and unlinking are durable after `sync_directory`.
    """

    def create(self, path: Path, data: bytes) -> None:
        """Write a new file that only its owner may read, and make its content durable, but not its name."""

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same directory, in place of any file of that name."""

    def unlink(self, path: Path) -> None:
        """Remove a file."""

    def names(self, directory: Path) -> list[str]:
        """Return the names of all files in a directory, sorted."""

    def exists(self, path: Path) -> bool:
        """Return whether there is a file of that name."""

    def make_directory(self, path: Path) -> None:
        """Make a directory that only its owner may enter, and those above it, durably. It may exist already."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""

    def lock(self, path: Path) -> Lock:
        """Take the lock of this file. Raises BusyError if another process has it."""

    def unique(self) -> str:
        """Return a text that no other call returns."""

    def read_back(self, path: Path, data: bytes) -> None:
        """Raise OSError unless the file has this content."""
        if self.read(path) != data:
            raise OSError(errno.EIO, "the file does not have the content that was written", str(path))

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a file whole and durably, in place of any file of that name.

        After an OSError, the content is the old or the new one, and a crash may leave either.
        """
        temporary = path.with_name(f"{path.name}.{self.unique()}{TEMPORARY}")
        try:
            self.create(temporary, data)
            self.read_back(temporary, data)
            self.rename(temporary, path)
            self.sync_directory(path.parent)
        except OSError:
            with suppress(OSError):  # the first error says what is wrong
                self.unlink(temporary)
            raise


class RealDisk(Disk):
    """The disk of this machine. After a failed fsync a descriptor is closed, since a second fsync could falsely succeed."""

    def create(self, path: Path, data: bytes) -> None:
        """Write and fsync a new file that only its owner may read, or also the group if the plan file says so."""
        descriptor = private_files.opener(os.fspath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        return private_files.read_bytes(path)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file."""
        old.replace(new)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def names(self, directory: Path) -> list[str]:
        """Return the names of all files in a directory, sorted."""
        return sorted(entry.name for entry in directory.iterdir() if entry.is_file())

    def exists(self, path: Path) -> bool:
        """Return whether there is a file of that name."""
        return path.exists()

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it, that only its owner may enter (or also the group); fsync their parents."""
        private_files.refuse_foreign(path)
        for missing in reversed([one for one in (path, *path.parents) if not one.is_dir()]):
            private_files.make_directory(missing)
            self.sync_directory(missing.parent)

    def sync_directory(self, path: Path) -> None:
        """Fsync a directory."""
        sync_directory(path)

    def lock(self, path: Path) -> Lock:
        """Lock a file and write the holder into it. The file stays when the lock is released."""
        return FileLock(path)

    def unique(self) -> str:
        """Return random text."""
        return secrets.token_hex(6)


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
            with suppress(OSError):  # the earlier error says what is wrong
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
