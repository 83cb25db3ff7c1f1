"""Files of a run: only their user may read them, or also the user's group, where `umask: "007"` in the plan file says so.

The mask is our own in this process: files of user code and sinks keep the umask of the process.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp()) / "run"
>>> make_directory(folder)
>>> write(folder / "note", "one")
>>> write(folder / "note", "two")
>>> (folder / "note").read_text(), [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "note")]
('two', ['0o700', '0o600'])
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dgs.errors import InvalidError

OWNER_ONLY = "077"

RUN = "run.json"
"""The file that each run directory has."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_masks = [int(OWNER_ONLY, 8)]


class ForeignDirectoryError(InvalidError):
    """A directory of a run is in a place where every user may make files, and another user has made it."""

    code = "DGS340"
    template = "{path} belongs to another user, who could change whatever a run writes there"
    fix = "Name another directory"


def allow(umask: str) -> None:
    """Set the mask of the files that this process makes from now on: three octal digits."""
    _masks[0] = int(umask, 8)


def mask() -> str:
    """Return the mask, for another process to `allow`."""
    return f"{_masks[0]:03o}"


def file_mode() -> int:
    """Return the mode of files."""
    return 0o666 & ~_masks[0]


def directory_mode() -> int:
    """Return the mode of directories."""
    return 0o777 & ~_masks[0]


def opener(path: str, flags: int) -> int:
    """Open a file, for `open(..., opener=opener)`. A new file has our mode, whatever the umask of the process.

    A pipe, a socket or a device raises OSError at once: it has no content that stays, and reading it may never end.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:
            check_file(path)
        raise
    try:
        found = os.fstat(descriptor)
        _refuse_kind(path, found)
        if flags & os.O_CREAT and stat.S_IMODE(found.st_mode) != file_mode() and found.st_uid == os.geteuid():
            os.fchmod(descriptor, file_mode())
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_file(path: str | Path) -> None:
    """Raise OSError for a pipe, a socket or a device."""
    _refuse_kind(path, Path(path).stat())


def _refuse_kind(path: str | Path, found: os.stat_result) -> None:
    if (kind := _KINDS.get(stat.S_IFMT(found.st_mode))) is not None:
        raise OSError(errno.EINVAL, f"{Path(path).name} is {kind}, not a file", str(path))


def read_text(path: Path, encoding: str = "utf-8", errors: str | None = None) -> str:
    """Return the content of a text file, but never wait for a pipe. Raises OSError, UnicodeDecodeError."""
    with open(path, encoding=encoding, errors=errors, opener=opener) as file:
        return file.read()


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, but never wait for a pipe. Raises OSError."""
    with open(path, "rb", opener=opener) as file:
        return file.read()


def make_directory(path: Path) -> None:
    """Make a directory with our mode. An existing one gets that mode, too, if it is empty or belongs to a run; others are the user's.

    Its parents are made with the mode of the process. Raises OSError, ForeignDirectoryError.
    """
    refuse_foreign(path)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = path.stat()
    wanted = directory_mode() | (found.st_mode & stat.S_ISGID)
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != wanted and _is_ours(path):
        path.chmod(wanted)


def _is_ours(directory: Path) -> bool:
    is_of_run = (directory / RUN).exists() or (directory.parent / RUN).exists()
    return is_of_run or next(directory.iterdir(), None) is None


def refuse_foreign(path: Path) -> None:
    """Raise ForeignDirectoryError if another user may have made a directory, or a link on its path, before us, for example in /tmp."""
    path = path.absolute()
    for place in (path, *path.parents):
        with suppress(OSError):  # missing or not accessible: making it raises the error
            is_open_to_all = place.parent.stat().st_mode & stat.S_IWOTH
            if is_open_to_all and place.lstat().st_uid not in (0, os.geteuid()):
                raise ForeignDirectoryError(path=place)


def write(path: Path, text: str) -> None:
    """Write a whole text file, in place of an existing one. Raises OSError."""
    write_whole(path, text.encode(), opener=opener)


def write_whole(path: Path, data: bytes, *, opener: Callable[[str, int], int] | None = None) -> None:
    """Write a whole file, in place of an existing one, through a new file beside it. `opener`: sets its mode; None: the process's own.

    A failure leaves the old file, and nothing beside it. Two writers do not mix, and no link is followed. Raises OSError, also for a pipe, a
    socket or a device, such as /dev/null: the new file would take its name.
    """
    with suppress(FileNotFoundError):
        check_file(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    try:
        with open(draft, "xb", opener=opener) as file:
            file.write(data)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error matters more
            draft.unlink(missing_ok=True)
        raise
