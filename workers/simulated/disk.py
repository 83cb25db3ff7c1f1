"""A disk in memory that fails and crashes, reproducibly. Content that is not durable may be lost, torn, or kept.

A crash leaves any beginning of content that was not fsynced, and any subset, in order, of the changes of names since the last
fsync of their directory. After a failed fsync these stay undecided forever, even if a later fsync succeeds. Bits of stored content may
turn. `crash_at=n` raises SimulatedCrash in place of operation n and of all that follow, until `crash()`.

>>> disk, path = SimulatedDisk(Random(1)), Path("/d/file")
>>> disk.write_new(path, b"durable")
>>> disk.create(Path("/d/other"), b"its name is not")
>>> disk.crash()
>>> disk.read(path)
b'durable'
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dgs.errors.raised import Interruption
from dgs.workers.storage.disk import Disk, Lock


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """Probabilities of each fault, per operation. `flip`: one bit of the file has turned since it was written."""

    full: float = 0.0
    torn: float = 0.0
    flip: float = 0.0
    read: float = 0.0
    fsync: float = 0.0
    rename: float = 0.0
    sync_directory: float = 0.0
    unlink: float = 0.0


class SimulatedCrash(Interruption):
    """The machine stops here. This is not an Exception, so that no code handles it."""


@dataclass(slots=True)
class _File:
    """A file. `written`: its content before any bit turned."""

    content: bytes = b""
    written: bytes = b""
    is_durable: bool = False


@dataclass(slots=True)
class _Change:
    """A change of the names in a directory. `is_pending`: the next fsync of the directory makes it durable."""

    directory: Path
    apply: Callable[[dict[Path, _File]], None]
    is_durable: bool = False
    is_pending: bool = True


class _NoLock:
    def release(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class SimulatedDisk(Disk):
    """A Disk. All chance comes from `random`. `operations`: the number of operations so far. Every lock is granted."""

    random: Random
    faults: DiskFaults = DiskFaults()
    crash_at: int | None = None
    operations: int = 0
    _names: dict[Path, _File] = field(default_factory=dict)
    _durable: dict[Path, _File] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)
    _given: int = 0

    def create(self, path: Path, data: bytes) -> None:
        """Open, write and fsync a file: three operations."""
        self._step()
        if path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        file = _File()
        self._change(path.parent, lambda names: names.__setitem__(path, file))
        self._step()
        if self._fails(self.faults.full):
            file.content = file.written = self._beginning(data)
            raise _error(errno.ENOSPC, path)
        file.content = file.written = self._beginning(data[:-1]) if self._fails(self.faults.torn) else data
        self._step()
        if self._fails(self.faults.fsync):
            raise _error(errno.EIO, path)
        file.is_durable = True

    def read(self, path: Path) -> bytes:
        self._step()
        file = self._file(path)
        if self._fails(self.faults.read):
            raise _error(errno.EIO, path)
        if file.content and self._fails(self.faults.flip):
            self.flip(path, self.random.randrange(8 * len(file.content)))
        return file.content

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file. A fault may be raised although the file has been renamed."""
        self._step()
        file = self._file(old)
        fails = self._fails(self.faults.rename)
        if not fails or self._fails(0.5):
            self._change(new.parent, lambda names: _renamed(names, old, new, file))
        if fails:
            raise _error(errno.EIO, new)

    def unlink(self, path: Path) -> None:
        self._step()
        self._file(path)
        if self._fails(self.faults.unlink):
            raise _error(errno.EIO, path)
        self._change(path.parent, lambda names: _removed(names, path))

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in self._names if path.parent == directory)

    def exists(self, path: Path) -> bool:
        return path in self._names

    def make_directory(self, path: Path) -> None:
        """Do nothing: all directories exist."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable. After a fault, the changes before it never become durable for certain."""
        self._step()
        fails = self._fails(self.faults.sync_directory)
        for change in self._changes:
            if change.directory == path and change.is_pending:
                change.is_pending = False
                change.is_durable = not fails
        self._settle()
        if fails:
            raise _error(errno.EIO, path)

    def lock(self, path: Path) -> Lock:  # noqa: ARG002 - there is one process, and generations of it must meet
        """Grant the lock, even twice: only the generation in the record fences holders."""
        return _NoLock()

    def unique(self) -> str:
        self._given += 1
        return str(self._given)

    def flip(self, path: Path, bit: int) -> None:
        """Turn one bit of a file's content."""
        file = self._file(path)
        content = bytearray(file.content)
        content[bit // 8] ^= 1 << bit % 8
        file.content = bytes(content)

    def as_written(self, path: Path) -> bytes:
        """Return the content of a file before any bit turned. This does not count as an operation, and has no faults."""
        return self._file(path).written

    def crash(self) -> None:
        """Lose content and names that are not durable, all of them or any part."""
        names = dict(self._durable)
        for change in self._changes:
            if change.is_durable or self._fails(0.5):
                change.apply(names)
        for file in names.values():
            if not file.is_durable:
                file.content = self._beginning(file.content)
                file.written = file.written[: len(file.content)]
                file.is_durable = True
        self._durable, self._names, self._changes = dict(names), names, []
        self.crash_at = None

    def _step(self) -> None:
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise SimulatedCrash
        self.operations += 1

    def _fails(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def _beginning(self, data: bytes) -> bytes:
        return data[: self.random.randint(0, len(data))]

    def _file(self, path: Path) -> _File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._names[path]

    def _change(self, directory: Path, apply: Callable[[dict[Path, _File]], None]) -> None:
        apply(self._names)
        self._changes.append(_Change(directory, apply))

    def _settle(self) -> None:
        """Apply the durable changes before the first undecided one."""
        while self._changes and self._changes[0].is_durable:
            self._changes.pop(0).apply(self._durable)


def _renamed(names: dict[Path, _File], old: Path, new: Path, file: _File) -> None:
    names[new] = file
    if names.get(old) is file:
        del names[old]


def _removed(names: dict[Path, _File], path: Path) -> None:
    names.pop(path, None)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
