"""Folders of one process among the temporary files: locked while it lives, and removed by a later one if it was killed.

>>> folder = OwnFolder("dgs-example-")
>>> folder.path.is_dir()
True
>>> folder.remove()
>>> folder.path.exists()
False
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

UNLOCKED_SECONDS = 60.0
"""How long a folder may be there before its process locks it."""


class OwnFolder:
    """A folder that only this user can open. It is removed at the end of this process, if not before. `path`: an absolute path."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        remove_left(prefix, self.path.stat().st_mtime)

    def remove(self) -> None:
        """Remove the folder."""
        self._end()


def remove_left(prefix: str, now: float) -> None:
    """Remove such folders of this user's processes that were killed: nobody has them locked. `now`: in seconds since 1970."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # it is locked, or another process removes it
            found = left.lstat()
            if found.st_uid != os.geteuid() or now - found.st_mtime < UNLOCKED_SECONDS:
                continue
            opened = os.open(left, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(opened)


def _remove(folder: Path, lock: int, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
