"""Segments: the files of an event log, numbered and immutable, each with a header that describes its rows.

A log is a directory with one sub-directory per stream. There, segments are in folders of a thousand, so that looking for new
ones stays cheap in a long log. A name has the number of the segment, the raw row number of its first row, and a hash of its
batch id, so that finding a row or a batch opens no file. A segment gets its name when it is whole and durable, and is never written again.
So a torn segment is damage, and an error.

>>> SegmentName(12, 3400, batch_hash("b7"))
SegmentName(number=12, first=3400, batch='...')
>>> SegmentName.parsed(SegmentName(12, 3400, END_MARK).text)
SegmentName(number=12, first=3400, batch='end')
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from dgs import codec
from dgs.errors import CodecError, CorruptFileError, RunError, UsageError
from dgs.job import private_files
from dgs.workers.event_log.event_tables import from_bytes, to_bytes
from dgs.workers.storage import sealed_file

PER_FOLDER = 1000
END_MARK = "end"
FLOOR = "floor.dgs"
"""The file of a stream that says which segment is the first that counts: earlier ones are deleted, or about to be."""

_NAME = re.compile(r"(\d{10})-(\d{15})-([0-9a-f]{16}|end)\.dgs")

BatchId = int | str


@dataclass(frozen=True, slots=True)
class RowFile:
    """A Parquet file of a segment's rows. `path`: below the stream's directory. `low`, `high`: as those of a segment.

    `size`: in bytes. `footer`: a digest of the file's end, which describes the rest; the pages have checksums of their own.
    """

    path: str
    size: int
    rows: int
    low: int
    high: int
    footer: str


class SegmentName(NamedTuple):
    """The name of a segment. `batch`: the hash of its batch id, or `end` for the mark of the end."""

    number: int
    first: int
    batch: str

    @property
    def text(self) -> str:
        """The name of the file."""
        return f"{self.number:010d}-{self.first:015d}-{self.batch}.dgs"

    @property
    def folder(self) -> str:
        """The folder that the segment is in."""
        return folder(self.number)

    @classmethod
    def parsed(cls, text: str) -> SegmentName | None:
        """Return the parts of a file's name, None if it is not a segment's."""
        found = _NAME.fullmatch(text)
        return cls(int(found[1]), int(found[2]), found[3]) if found else None


@dataclass(frozen=True, slots=True)
class Segment:
    """The header of a segment. Times are raw values of the column `ts`, or None if there is no value.

    `first`: the raw row number of the first of its `rows`. `low`, `high`: the least and the greatest time. `frontier`: a
    heartbeat after its last row: all later rows have greater times. `beats`: further heartbeats, as (index of the next row,
    time). `latest`, `promised`: the greatest time and the greatest frontier of all earlier segments. `numbered`: the greatest
    earlier batch id that is a number. `is_end`: this is the mark of the end. `files`: the files that its rows are in, if they are
    not in the segment itself, and `order_by`: the columns after the time that these are sorted by.
    """

    stream: str
    number: int
    batch: BatchId
    first: int
    rows: int
    writer: str
    digest: str
    ts: str
    low: int | None = None
    high: int | None = None
    frontier: int | None = None
    beats: tuple[tuple[int, int], ...] = ()
    latest: int | None = None
    promised: int | None = None
    numbered: int | None = None
    is_end: bool = False
    files: tuple[RowFile, ...] = ()
    order_by: tuple[str, ...] = ()

    @property
    def name(self) -> SegmentName:
        """The name of its file."""
        return SegmentName(self.number, self.first, END_MARK if self.is_end else batch_hash(self.batch))

    @property
    def stop(self) -> int:
        """The raw row number after its last row."""
        return self.first + self.rows

    @property
    def latest_so_far(self) -> int | None:
        """The greatest time up to and with this segment."""
        return greatest(self.latest, self.high)

    @property
    def promised_so_far(self) -> int | None:
        """The greatest heartbeat up to and with this segment."""
        return greatest(self.promised, self.frontier, *(ts for _, ts in self.beats))

    @property
    def numbered_so_far(self) -> int | None:
        """The greatest batch id up to and with this segment that is a number."""
        return self.batch if isinstance(self.batch, int) else self.numbered


class UnreadableLogError(RunError):
    """A file or directory of an event log cannot be read, though it may be whole."""

    code = "DGS521"
    template = "the event log cannot be read: {path}: {problem}"
    fix = "Let this user read the directory and the files in it, see that the disk is there, and go on with `dgs resume`"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into UnreadableLogError, except for a missing file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise UnreadableLogError(path=path, problem=error.strerror or str(error)) from error


def greatest(*times: int | None) -> int | None:
    """Return the greatest of the times that are not None."""
    return max((ts for ts in times if ts is not None), default=None)


def folder(number: int) -> str:
    """Return the name of the folder of a segment."""
    return f"{number // PER_FOLDER:07d}"


def batch_hash(batch: BatchId) -> str:
    """Return the hash of a batch id for the name of its segment."""
    return hashlib.blake2b(codec.encode(batch), digest_size=8).hexdigest()


def encoded(segment: Segment, table: pa.Table) -> bytes:
    """Return the bytes of the file of a segment."""
    header = {**asdict(segment), "beats": [list(beat) for beat in segment.beats]}
    if not segment.files:  # headers of earlier versions have neither
        del header["files"], header["order_by"]
    return sealed_file.pack(sealed_file.EVENTS, segment.name.text, header, to_bytes(table))


def read_segment(directory: Path, name: SegmentName) -> tuple[Segment, pa.Table]:
    """Return the header of a segment of the stream in `directory`, and the rows in it: none if they are in files (see `row_files`).

    Raises CorruptFileError naming the file, UnreadableLogError.
    """
    path = directory / name.folder / name.text
    try:
        with reading(path):
            data = private_files.read_bytes(path)
        header, payload = sealed_file.unpack(sealed_file.EVENTS, path, data)
        segment, table = _segment(header), from_bytes(payload)
    except (CodecError, OSError, TypeError, ValueError, KeyError) as error:
        raise CorruptFileError(path=path, problem=f"{type(error).__name__}: {error}") from error
    if segment.name != name or table.num_rows != (0 if segment.files else segment.rows):
        raise CorruptFileError(path=path, problem=f"its header is that of {segment.name.text}")
    return segment, table


def _segment(header: Any) -> Segment:
    known = {field.name for field in fields(Segment)}
    facts = {name: value for name, value in header.items() if name in known}
    facts["beats"] = tuple((int(before), int(ts)) for before, ts in facts["beats"])
    facts["files"] = tuple(RowFile(**file) for file in facts.get("files", ()))
    facts["order_by"] = tuple(facts.get("order_by", ()))
    return Segment(**facts)


def names_in(directory: Path, folder_name: str, since: int = 0) -> list[SegmentName]:
    """Return the segments in one folder, by number, from the number `since` on; none if there is no such folder.

    Writers and readers ask for the newest names only, so older names are not parsed.
    """
    first = f"{since:010d}"
    found = [SegmentName.parsed(text) for text in _texts_in(directory, folder_name) if text >= first]
    return sorted(name for name in found if name is not None)


def _texts_in(directory: Path, folder_name: str) -> list[str]:
    try:
        with reading(directory / folder_name):
            return os.listdir(directory / folder_name)  # noqa: PTH208 - to make a path of each costs ten times as much
    except (FileNotFoundError, NotADirectoryError):
        return []


def folders(directory: Path) -> list[str]:
    """Return the folders of a stream, in order."""
    try:
        with reading(directory):
            return sorted(path.name for path in directory.iterdir() if path.name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def all_names(directory: Path) -> Iterator[SegmentName]:
    """Yield all segments of a stream that count, by number."""
    first, _ = floor(directory)
    for folder_name in folders(directory):
        if folder_name >= folder(first):
            yield from names_in(directory, folder_name, since=first)


def floor(directory: Path) -> tuple[int, frozenset[str]]:
    """Return the number of the first segment that counts, and the hashes of the batches that were deleted last. Raises CorruptFileError."""
    path = directory / FLOOR
    try:
        with reading(path):
            header, _ = sealed_file.unpack(sealed_file.EVENTS, path, private_files.read_bytes(path))
        number, batches = header
        return int(number), frozenset(map(str, batches))
    except (FileNotFoundError, NotADirectoryError):
        return 0, frozenset()
    except (TypeError, ValueError) as error:
        raise CorruptFileError(path=path, problem="it names no segment") from error


def directory_of(log: Path, stream: str) -> Path:
    """Return the directory of a stream of a log. Raises UsageError for a name that no directory in the log can have."""
    if stream in ("", ".", "..") or "/" in stream or "\0" in stream:
        raise UsageError(
            message=f"{stream!r} cannot name a stream of the event log {log}: use letters, digits, '_', '.', '-'"
        )
    return log / stream


def is_closed(directory: Path) -> bool:
    """Return whether a stream has the mark of its end. No file is opened."""
    for folder_name in reversed(folders(directory)):
        if names := names_in(directory, folder_name):
            return names[-1].batch == END_MARK
    return False


def newest(directory: Path) -> Segment | None:
    """Return the header of the last segment of a stream; None if there is none. Raises CorruptFileError."""
    for folder_name in reversed(folders(directory)):
        for text in sorted(_texts_in(directory, folder_name), reverse=True):
            if (name := SegmentName.parsed(text)) is not None:
                return read_segment(directory, name)[0]
    return None
