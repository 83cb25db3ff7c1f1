"""Locks on files: one process holds a lock until it ends, and others can see the holder without disturbing it.

The holder of a `FileLock` writes its name into the file. A look (`holder_of`) takes a shared lock for microseconds. So two looks never take
each other for the holder, and whoever takes the lock waits until they are over. `filelock` has no shared lock: with it,
`test_looking_at_a_lock_does_not_block_it` and `test_several_readers_see_a_free_lock` fail.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "lock"
>>> lock = FileLock(path)
>>> holder_of(path) == f"process {os.getpid()} on {socket.gethostname()}"
True
>>> lock.release(), holder_of(path)
(None, None)
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from pathlib import Path

from dgs.job import private_files

GLANCE = 0.25
"""Seconds to wait for a process that may have the lock for a moment only."""

LONGEST_LOOK = 60.0
"""Seconds to wait for looks, which share the lock and may be slow."""


class BusyError(OSError):
    """Another process holds the lock. `holder`: its name."""

    def __init__(self, holder: str) -> None:
        super().__init__(errno.EWOULDBLOCK, f"locked by {holder}")
        self.holder = holder


class FileLock:
    """A lock that ends with the process that holds it. The file stays when it is released. Raises BusyError, OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = private_files.opener(os.fspath(path), os.O_RDWR | os.O_CREAT)
        try:
            if not take(self._descriptor):
                raise BusyError(_holder(self._descriptor))
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let other processes take the lock. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take(descriptor: int) -> bool:
    """Take the lock of an open file, until the file is closed; return whether that succeeded."""
    began = time.monotonic()
    while not take_at_once(descriptor):
        waited = time.monotonic() - began
        if waited > LONGEST_LOOK or (waited > GLANCE and not _is_shared(descriptor)):
            return False
        time.sleep(GLANCE / 50)
    return True


def take_at_once(descriptor: int) -> bool:
    """Take the lock of an open file without waiting, until the file is closed; return whether that succeeded."""
    return _locked(descriptor, fcntl.LOCK_EX)


def holder_of(path: Path) -> str | None:
    """Return the holder of a file's lock, None if there is none. A process that takes the lock meanwhile still gets it.

    Also None for a file of another user that we may not read: then we may not take its lock either.
    """
    try:
        descriptor = private_files.opener(os.fspath(path), os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        return None if _locked(descriptor, fcntl.LOCK_SH) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _is_shared(descriptor: int) -> bool:
    """Return whether the lock is held by looks only."""
    try:
        return _locked(descriptor, fcntl.LOCK_SH)
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
