"""Locks on files: one process at a time, which ends with the process; others see who has it without disturbing.

Who has a `FileLock` writes itself into the file. A look (`holder_of`) shares the lock for microseconds; so two looks never take
each other for the holder, and taking the lock outwaits them. That is why this is not `filelock`, which has no shared lock: with
it `test_who_looks_at_a_lock_keeps_nobody_from_taking_it` and `test_several_looks_see_that_nobody_has_it` fail.

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

GLANCE = 0.25
"""Seconds for which taking a lock waits for a process that has it for a moment only."""

LONGEST_LOOK = 60.0
"""Seconds for which it waits for looks, which share the lock: a look may be held up."""


class BusyError(OSError):
    """Another one holds the lock; `holder` says who."""

    def __init__(self, holder: str) -> None:
        super().__init__(errno.EWOULDBLOCK, f"locked by {holder}")
        self.holder = holder


class FileLock:
    """A lock that ends with the process that holds it. The file stays when it is released. Raises BusyError, OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not take(self._descriptor):
                raise BusyError(_holder(self._descriptor))
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let others have it; again is nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take(descriptor: int) -> bool:
    """Return whether the lock of an open file could be had. It lasts until the file is closed."""
    began = time.monotonic()
    while not take_at_once(descriptor):
        waited = time.monotonic() - began
        if waited > LONGEST_LOOK or (waited > GLANCE and not _is_shared(descriptor)):
            return False
        time.sleep(GLANCE / 50)
    return True


def take_at_once(descriptor: int) -> bool:
    """Return whether the lock of an open file could be had without waiting. It lasts until the file is closed."""
    return _locked(descriptor, fcntl.LOCK_EX)


def holder_of(path: Path) -> str | None:
    """Return who holds the lock that a file stands for, None if nobody does; another one who wants it still gets it.

    Also None where the file is another user's: who may not look at the lock may not take it either.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        return None if _locked(descriptor, fcntl.LOCK_SH) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _is_shared(descriptor: int) -> bool:
    """Return whether all who have the lock only look at it, as this does then."""
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
