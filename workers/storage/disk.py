"""Durable files: what checkpoints ask of a disk, and the one way in which a file is written: whole and durable, or not at all.

Every operation is one that can fail or be the last before a crash; `SimulatedDisk` has both. Operations raise OSError.

>>> import tempfile
>>> disk, folder = RealDisk(), Path(tempfile.mkdtemp()) / "checkpoints"
>>> disk.make_directory(folder)
>>> disk.write_new(folder / "one", b"first")
>>> disk.write_new(folder / "one", b"second")
>>> disk.names(folder), disk.read(folder / "one")
(['one'], b'second')
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from dgs.workers.storage.locks import FileLock

TEMPORARY = ".tmp"
"""How names of unfinished files end. The owner of the directory may remove what a crash has left of them."""


def sync_file(file: IO[bytes]) -> None:
    """Make the content of an open file durable. Raises OSError; what a later call says of that file then means nothing."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: fsync, on a descriptor of its own. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock(Protocol):
    """A directory that nobody else has open."""

    def release(self) -> None:
        """Let others have it."""


class Disk(Protocol):
    """The operations. Law: after `write_new` returned, a crash leaves the new content; before, the old or the new.

    What is renamed or unlinked is durable after `sync_directory`.
    """

    def create(self, path: Path, data: bytes) -> None:
        """Write a file that must not exist, only its owner may read, and make its content durable (not its name)."""

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same directory, in place of what had that name."""

    def unlink(self, path: Path) -> None:
        """Remove a file."""

    def names(self, directory: Path) -> list[str]:
        """Return the names of all files in a directory, sorted."""

    def exists(self, path: Path) -> bool:
        """Return whether there is a file of that name."""

    def make_directory(self, path: Path) -> None:
        """Make a directory durably, and those above it, that only its owner may enter; it may exist."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""

    def lock(self, path: Path) -> Lock:
        """Take the lock that this file stands for. Raises BusyError if somebody else has it."""

    def unique(self) -> str:
        """Return a text that no other call gave."""

    def read_back(self, path: Path, data: bytes) -> None:
        """Raise OSError unless the file has this content."""
        if self.read(path) != data:
            raise OSError(errno.EIO, "what was written is read back differently", str(path))

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a file whole and durably, in place of what had its name.

        If OSError is raised, its content is the old or the new one, and which of them a crash would leave is not known.
        """
        temporary = path.with_name(f"{path.name}.{self.unique()}{TEMPORARY}")
        try:
            self.create(temporary, data)
            self.read_back(temporary, data)
            self.rename(temporary, path)
            self.sync_directory(path.parent)
        except OSError:
            with suppress(OSError):  # the first error is the one that says what is wrong
                self.unlink(temporary)
            raise


class RealDisk(Disk):
    """The disk of this machine. A descriptor whose fsync failed is closed and never used again: a second one would lie."""

    def create(self, path: Path, data: bytes) -> None:
        """Write and fsync a new file of mode 0600."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        return path.read_bytes()

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
        """Make a directory of mode 0700, and those above it, and fsync what holds them."""
        if path.is_dir():
            return
        self.make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        """Fsync a directory."""
        sync_directory(path)

    def lock(self, path: Path) -> Lock:
        """Lock a file, which stays when it is released, and write into it who has it."""
        return FileLock(path)

    def unique(self) -> str:
        """Return random text."""
        return secrets.token_hex(6)
