"""A summary of a log for people: its streams, and the segments of each, which are read and checked.

>>> import tempfile
>>> from dgs.workers.event_log.writer import LogWriter
>>> log = Path(tempfile.mkdtemp())
>>> writer = LogWriter(log, "clicks", "query-1")
>>> for batch in range(2):
...     _ = writer.append(batch, {"ts": [10 * batch, 10 * batch + 5]}, frontier=10 * batch)
>>> [found] = streams(log)
>>> found.stream, found.writer, found.rows, found.segments, found.frontier, found.is_closed
('clicks', 'query-1', 4, 2, 10, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dgs.workers.event_log import row_files
from dgs.workers.event_log.owner import owner
from dgs.workers.event_log.segments import Segment, all_names, directory_of, read_segment


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream of a log: `rows` in all, of which those before `first` are deleted; its `segments` now, and their `size` in bytes.

    `latest`: the greatest time; `frontier`: the greatest heartbeat.
    """

    stream: str
    writer: str
    first: int
    rows: int
    segments: int
    size: int
    latest: int | None
    frontier: int | None
    is_closed: bool


def stream_names(path: Path) -> list[str]:
    """Return the streams of a log; none if there is no such directory."""
    if not path.is_dir():
        return []
    return sorted(found.name for found in path.iterdir() if found.is_dir() and owner(found) is not None)


def streams(path: Path) -> Iterator[StreamSummary]:
    """Yield the streams of a log. Only the last segment of each is read. Raises CorruptFileError."""
    for name in stream_names(path):
        directory = path / name
        names = list(all_names(directory))
        last = read_segment(directory, names[-1])[0] if names else None
        yield StreamSummary(
            name,
            owner(directory) or "",
            names[0].first if names else 0,
            last.stop if last is not None else 0,
            len(names),
            sum((directory / found.folder / found.text).stat().st_size for found in names)
            + row_files.size(directory),
            last.latest_so_far if last is not None else None,
            last.promised_so_far if last is not None else None,
            is_closed=last is not None and last.is_end,
        )


def segments(path: Path, stream: str) -> Iterator[Segment]:
    """Yield the headers of all segments of a stream, each read and checked with its rows. Raises CorruptFileError."""
    directory = directory_of(path, stream)
    for name in all_names(directory):
        segment, table = read_segment(directory, name)
        for _ in row_files.slices(directory, segment, table):
            pass
        yield segment
