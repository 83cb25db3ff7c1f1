"""Another local user, for tests: a process that root gives away reads, writes and connects to all it can.

>>> as_nobody.__name__
'as_nobody'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

NOBODY = 65534
SHARED = Path("/dev/shm")
"localhost".encode("idna")  # the other user may be unable to read Python's own modules


def as_nobody(work: Callable[[], object]) -> bool:
    """Do some work in a process of another user; return whether it ended without an error. Skips the test unless we are root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the child must not go on as this process
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def openings(folder: Path, secret: bytes, process: int | None = None) -> Iterator[str]:
    """Yield what this process may write in a folder, and where it reads a secret: in files, also of another process, and shared memory."""
    for place in (folder, *folder.rglob("*"), *SHARED.glob("*")):
        with suppress(OSError):
            if place.stat().st_uid == os.geteuid():
                continue  # it is ours
            if SHARED not in place.parents and os.access(
                place, os.W_OK
            ):  # what is there may be of other programs
                yield f"{place} can be written"
            if place.is_file() and secret in place.read_bytes():
                yield f"{place} has the secret"
    if process is None:
        return
    for name in ("environ", "mem", "fd", "maps"):
        place = Path(f"/proc/{process}/{name}")
        with suppress(OSError):
            _ = list(place.iterdir()) if place.is_dir() else place.open("rb").read(1)
            yield f"{place} can be read"
    if secret in Path(f"/proc/{process}/cmdline").read_bytes():
        yield "the command line has the secret"
