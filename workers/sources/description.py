r"""The origin of the rows of a source, its description in a checkpoint, and the check that it is still the same on resume.

A description is plain data: `kind`; the identity of the source (below); `rows`, the number of raw rows read; and, once the source
has ended, `end`, the key after its last event. The identity of files is the path of each file that was opened, its size at that
time and a digest of that many bytes. For a file over a megabyte the digest is of the size and of 16 blocks of 64 KiB, spread
evenly from the first to the last. So it misses a change in a large file that keeps its size and touches none of these blocks;
hashing all of it would take as long as reading it. The identity of memory is the length, of a generator its reference and
arguments, of a log the last segment read. A user's source describes itself.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("ts\n1\n2\n")
>>> files = FilesRead([file], kind="csv", base_dir=file.parent)
>>> [path.name for path in files], files.describe()["files"][0]["size"]
(['a.csv'], 7)
>>> before = files.describe()
>>> _ = file.write_text("ts\n1\n2\n3\n")                        # it has grown
>>> check("s", before, FilesRead([file], kind="csv", base_dir=file.parent).describe())
>>> _ = file.write_text("ts\n1\n7\n3\n")
>>> check("s", before, FilesRead([file], kind="csv", base_dir=file.parent).describe())
Traceback (most recent call last):
dgs.errors.SourceChangedError: stream 's': the source has changed since the checkpoint: the part of a.csv that had been read is different now...
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.errors import MissingInputError, SourceChangedError
from dgs.errors.hidden_values import masked_data
from dgs.model.order import OrderKey
from dgs.workers.event_log.segments import all_names, read_segment

WHOLE_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16
BLOCKS = WHOLE_BYTES // BLOCK_BYTES

Description = Mapping[str, Any]


def _none() -> int:
    return 0


def _unknown_share(_rows: int) -> None:
    return None


def _as_before(_before: Mapping[str, Any]) -> None:
    return None


def _nothing() -> None:
    """Do nothing: nothing is open."""


@dataclass(frozen=True)
class Origin:
    """The callbacks of an origin. `describe` returns plain data that the codec carries; it changes as reading goes on.

    `share` takes the raw rows read, and returns how much of the input they are, 0 to 1; None if that is not known.
    `skip_to` is called before the first read with the first raw row that is needed; None if all rows must be read. `refused`
    returns the number of bad lines that were left out.

    Sources with bookmarks have two more callbacks, which are called before the first read. `resume` takes the description in a checkpoint,
    and returns what has changed since (None: nothing). `seek` takes the key below which no event is needed, and returns the latest time of
    the rows that are left out. `close` closes what is open; it may be called twice.
    """

    describe: Callable[[], dict[str, Any]]
    skip_to: Callable[[int], None] | None = None
    refused: Callable[[], int] = _none
    resume: Callable[[Mapping[str, Any]], str | None] = _as_before
    seek: Callable[[OrderKey], int] | None = None
    close: Callable[[], None] = _nothing
    share: Callable[[int], float | None] = _unknown_share


class FilesRead:
    """The files of a source in reading order. Iterating over them notes size and digest of each opened file.

    Iterating raises MissingInputError for a file that cannot be read.
    """

    def __init__(self, paths: Sequence[Path], *, kind: str, base_dir: Path, stream: str = "") -> None:
        self._paths = paths
        self._kind = kind
        self._base_dir = base_dir
        self._stream = stream
        self._opened: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[Path]:
        for path in self._paths:
            try:
                size = path.stat().st_size
                digest = fingerprint(path, size)
            except OSError as error:
                hint = f" that can be read ({error.strerror})"
                raise MissingInputError(stream=self._stream, path=path, hint=hint) from None
            self._opened.append({"path": self._name(path), "size": size, "digest": digest})
            yield path

    def describe(self) -> dict[str, Any]:
        """Return the description of the files opened so far, with the names of all files."""
        return {
            "kind": self._kind,
            "base_dir": str(self._base_dir.absolute()),
            "paths": [self._name(path) for path in self._paths],
            "files": [dict(file) for file in self._opened],
        }

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self._base_dir)


def fingerprint(path: Path, size: int) -> str:
    """Return a digest of the first `size` bytes of a file, or of blocks of them. Raises OSError."""
    found = hashlib.blake2b(size.to_bytes(8, "big"), digest_size=32)
    with path.open("rb") as file:
        if size <= WHOLE_BYTES:
            found.update(file.read(size))
        else:
            for number in range(BLOCKS):
                file.seek((size - BLOCK_BYTES) * number // (BLOCKS - 1))
                found.update(file.read(BLOCK_BYTES))
    return found.hexdigest()


def check(stream: str, before: Description, now: Description) -> None:
    """Compare the description in a checkpoint with that of the source now.

    The part that was read must still exist, unchanged and in its place. The last file that was read may have grown, and others
    may follow it. Raises SourceChangedError with the difference.
    """
    problem = (
        f"it was of kind {before['kind']}, and is now of kind {now['kind']}"
        if before["kind"] != now["kind"]
        else _CHECKS.get(before["kind"], _changed_files)(before, now)
    )
    if problem is not None:
        raise SourceChangedError(stream=stream, problem=problem)


def _changed_files(before: Description, now: Description) -> str | None:
    names = now["paths"]
    for number, file in enumerate(before["files"]):
        if file["path"] not in names:
            return f"{file['path']} had been read, and is missing now"
        if names[number] != file["path"]:
            return f"{names[number]} comes before {file['path']} now, which changes the numbers of the rows"
        path = Path(now["base_dir"]) / file["path"]
        is_last = number == len(before["files"]) - 1
        if (problem := _changed_file(file, path, may_grow=is_last)) is not None:
            return problem
    return None


def _changed_file(file: Description, path: Path, *, may_grow: bool) -> str | None:
    name, size = file["path"], file["size"]
    try:
        size_now = path.stat().st_size
        if size_now < size:
            return f"{name} had {size} bytes, and has {size_now} now"
        if fingerprint(path, size) != file["digest"]:
            return f"the part of {name} that had been read is different now"
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    if size_now > size and not may_grow:
        return f"{name} has grown, which changes the numbers of the rows in the files after it"
    return None


def _changed_generator(before: Description, now: Description) -> str | None:
    parts = {"ref": os.path.normpath(now["ref"]), "args": now["args"]}
    for part, one in parts.items():
        if one != (os.path.normpath(before[part]) if part == "ref" else masked_data(before[part])):
            return f"its `{part}` was {before[part]!r}, and is now {now[part]!r}"
    return None


def _changed_memory(before: Description, now: Description) -> str | None:
    if now["length"] < before["length"]:
        return f"it had {before['length']} items, and has {now['length']} now"
    return None


def _changed_log(before: Description, now: Description) -> str | None:
    """Compare the segment that was read last, and the mark of the end, without which a run would wait for more.

    A deleted segment is no change: it is no longer needed.
    """
    last, directory = before["segment"], Path(now["path"]) / now["stream"]
    # a checkpoint of an earlier version does not have it
    if before.get("is_closed") and not now["is_closed"]:
        close = shlex.join(["dgs", "log", "close", str(now["path"]), "--stream", now["stream"]])
        return f"the log {directory} had been closed, and the mark of its end is gone; if no rows are missing, close it again: {close}"
    if last is None:
        return None
    names = list(all_names(directory))
    if not names or names[-1].number < last["number"]:
        return f"segment {last['number']} of {directory} had been read, but the log has fewer segments now"
    for name in names:
        if name.number == last["number"]:
            if read_segment(directory, name)[0].digest != last["digest"]:
                return f"segment {last['number']} of {directory} is different now"
            break
    return None


def _changed_ticks(before: Description, now: Description) -> str | None:
    was, is_now = ((one["every"], one["origin"]) for one in (before, now))
    return (
        None
        if was == is_now
        else f"ticks came every {was[0]} from {was[1]}, and now every {is_now[0]} from {is_now[1]}"
    )


_CHECKS: Mapping[str, Callable[[Description, Description], str | None]] = {
    "generator": _changed_generator,
    "memory": _changed_memory,
    "log": _changed_log,
    "socket": _changed_log,
    "ticks": _changed_ticks,
    "custom": lambda _before, _now: None,  # `Source.changed` compares
}
