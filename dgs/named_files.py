"""Files that a user names for a command to write: a file of others is kept, and so is one of the command's own that was changed since.

A file is a command's own if it has the command's mark near its beginning. Tables of rows and states have no mark: what was written where
is noted in the user's cache, `~/.cache/dgs/written`, as a digest of the content under that of the path.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dgs.errors import InvalidError, OutputUnwritableError
from dgs.job import private_files

_LOOKED_AT = 4096
"""The characters of a file in which a mark is looked for."""

MOST_NOTES = 1000
"""Notes that are kept. For a file whose note is gone, the command asks to remove it."""

REFUSALS = (OSError, ValueError, RuntimeError)
"""What a path is refused with: a NUL in the name, and links that go in a circle, are no errors of the system."""


class ForeignFileError(InvalidError):
    """The place for a file that a user names has a file that is none of ours, or that was changed since."""

    code = "DGS561"
    template = "{path} is there and was not made by `{by}`{since}"
    fix = "Name another file, or {way} to write over it"


class NamedFileUnwritableError(OutputUnwritableError):
    """A file that a user names for a command cannot be written."""

    code = "DGS406"
    fix = "Make room there and let this user write, or name another file for `{by}`"


def check_writable(path: Path, by: str, *, mark: str = "") -> None:
    """Raise what `check_named` does, also if there is no directory for the file: before the work of a command that makes none."""
    check_named(path, by, mark=mark)
    try:
        folder = path.resolve().parent
        if not folder.is_dir():
            raise NamedFileUnwritableError(path=path, problem="its directory does not exist", by=by)
        if not os.access(folder, os.W_OK):
            raise NamedFileUnwritableError(path=path, problem="its directory cannot be written", by=by)
    except REFUSALS as error:
        raise _unwritable(path, error, by) from None


def check_named(path: Path, by: str, *, mark: str = "", force: bool | None = None) -> None:
    """Raise ForeignFileError or NamedFileUnwritableError if `write_named` certainly will: before work whose result it writes."""
    try:
        if path.exists():
            private_files.check_file(path)
            if not force and not _is_own(path, by, mark):
                since = "" if mark else ", or has changed since"
                way = "remove it" if force is None else "give --force"
                raise ForeignFileError(path=path, by=by, since=since, way=way)
    except REFUSALS as error:
        raise _unwritable(path, error, by) from None


def write_named(path: Path, text: str | bytes, by: str, *, mark: str = "", force: bool | None = None) -> int:
    """Write a whole file that a user names, or that a link names, with the mode of the process; return its size in bytes.

    A file that is there is written over only if it is empty, has our `mark` near its beginning, or, without a mark, has what the same
    command wrote there last; or with `force`, the flag of some commands. `by`: the command and its flag. Raises ForeignFileError,
    NamedFileUnwritableError, the latter also for a pipe, a socket or a device.
    """
    data = text.encode() if isinstance(text, str) else text
    check_named(path, by, mark=mark, force=force)
    try:
        private_files.write_whole(path.resolve(), data)
    except REFUSALS as error:
        raise _unwritable(path, error, by) from None
    if not mark:
        with suppress(OSError, RuntimeError):  # the next command will ask to remove the file
            _note(path, _digest(by, data))
    return len(data)


def _unwritable(path: Path, error: Exception, by: str) -> NamedFileUnwritableError:
    return NamedFileUnwritableError(path=path, problem=getattr(error, "strerror", None) or str(error), by=by)


def _is_own(path: Path, by: str, mark: str) -> bool:
    """Whether a file is empty or what a command has written. Raises OSError."""
    if mark:
        with open(path, encoding="utf-8", errors="replace", opener=private_files.opener) as file:
            start = file.read(_LOOKED_AT)
        return not start or mark in start
    if path.stat().st_size == 0:
        return True
    try:
        noted = private_files.read_text(_place(path))
    except (OSError, RuntimeError, UnicodeDecodeError):
        return False
    return noted == _digest(by, private_files.read_bytes(path))


def _digest(by: str, data: bytes) -> str:
    return sha256(by.encode() + b"\0" + data).hexdigest()


def _place(path: Path) -> Path:
    """Return the place of the note about a file. Raises RuntimeError for a user without a home directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dgs" / "written" / sha256(os.fsencode(path.resolve())).hexdigest()


def _note(path: Path, digest: str) -> None:
    """Note what was written to a path, and forget the oldest notes beyond `MOST_NOTES`. Raises OSError, RuntimeError."""
    place = _place(path)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    private_files.write(place, digest)
    notes = list(place.parent.iterdir())
    if len(notes) > MOST_NOTES:
        for note in sorted(notes, key=lambda one: one.stat().st_mtime)[: len(notes) - MOST_NOTES]:
            note.unlink(missing_ok=True)
