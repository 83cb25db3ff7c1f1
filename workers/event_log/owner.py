"""The owner of a stream of a log: one writer, by its id (a Spark query, a socket source). Others are refused.

The file `owner.dgs` of the stream names it. A writer reads this file before every segment, so it notices a takeover.

>>> import tempfile
>>> directory = Path(tempfile.mkdtemp())
>>> claim(directory, "query-1")
>>> check(directory, "query-1")
>>> claim(directory, "query-2")  # doctest: +ELLIPSIS
Traceback (most recent call last):
dgs.errors.OwnedLogError: event log ... is written by 'query-1', not by 'query-2'...
>>> claim(directory, "query-2", takeover=True)
>>> owner(directory)
'query-2'
"""

from __future__ import annotations

from pathlib import Path

from dgs.errors import CorruptFileError, OwnedLogError
from dgs.job import private_files
from dgs.workers.event_log.segments import reading
from dgs.workers.storage import sealed_file
from dgs.workers.storage.disk import put_new, replace_with

OWNER = "owner.dgs"


def owner(directory: Path) -> str | None:
    """Return the writer of the stream in `directory`, None if it has none yet. Raises CorruptFileError, UnreadableLogError."""
    path = directory / OWNER
    try:
        with reading(path):
            data = private_files.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    header, _ = sealed_file.unpack(sealed_file.EVENTS, path, data)
    if not isinstance(header, str):
        raise CorruptFileError(path=path, problem="it names no writer")
    return header


def claim(directory: Path, writer: str, *, takeover: bool = False) -> None:
    """Make `writer` the owner of the stream. Raises OwnedLogError if it has another owner, unless `takeover` is True."""
    data = sealed_file.pack(sealed_file.EVENTS, OWNER, writer)
    if owner(directory) is None and put_new(directory / OWNER, data):
        return
    if takeover and owner(directory) != writer:
        replace_with(directory / OWNER, data)
    check(directory, writer)


def check(directory: Path, writer: str) -> None:
    """Raise OwnedLogError if the stream has another owner."""
    found = owner(directory)
    if found != writer:
        raise OwnedLogError(path=directory.parent, stream=directory.name, owner=found, writer=writer)
