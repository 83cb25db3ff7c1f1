"""Reading an event log: one segment after the other, also while new ones are written.

A reader finds segments by listing one folder, so it needs no message from the writer. A number that is missing or appears twice
is damage, and raises an error.

>>> import tempfile
>>> from dgs.workers.event_log.writer import LogWriter
>>> log = Path(tempfile.mkdtemp())
>>> writer, reader = LogWriter(log, "clicks", "query-1"), LogReader(log, "clicks")
>>> reader.poll() is None, reader.has_ended
(True, False)
>>> for batch in range(3):
...     _ = writer.append(batch, {"ts": [batch, batch]})
>>> reader.seek(3)
>>> [found[0].first for _ in range(3) if (found := reader.poll())]
[2, 4]
>>> writer.close()
>>> reader.poll() is None, reader.has_ended
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from dgs.errors import CorruptFileError
from dgs.workers.event_log import row_files
from dgs.workers.event_log.segments import (
    PER_FOLDER,
    Segment,
    SegmentName,
    all_names,
    directory_of,
    folder,
    folders,
    names_in,
    read_segment,
)


class LogReader:
    """Reads one stream of a log, from its first segment or from the row given to `seek`.

    `row`: the raw row number after the last row that was returned. `last`: the last segment that was read.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self.path = path
        self.stream = stream
        self.row = 0
        self.has_ended = False
        self.last: Segment | None = None
        self._directory = directory_of(path, stream)
        self._number: int | None = None
        self._found: list[SegmentName] = []
        self._slices: Iterator[tuple[Segment, pa.Table]] = iter(())

    def seek(self, row: int) -> None:
        """Begin with the segment that has the given row, or with the last segment if the log ends before that row.

        Call this only before the first segment is read.
        """
        start = None
        for name in all_names(self._directory):
            if name.first > row:
                break
            start = name
        if start is not None:
            self._number, self.row = start.number, start.first

    def poll(self) -> tuple[Segment, pa.Table] | None:
        """Return the next segment and its rows; None if there is none yet or the stream has ended. Raises CorruptFileError.

        A segment whose rows are in files comes in parts: each is a segment with a first row and a number of rows of its own.
        """
        if self.has_ended:
            return None
        if (part := next(self._slices, None)) is not None:
            self.row = part[0].stop
            return part
        name = self._next()
        if name is None:
            return None
        segment, table = read_segment(self._directory, name)
        if segment.first != self.row and self.last is not None:
            raise self._damaged(
                name, f"its rows begin at {segment.first}, but those before it end at {self.row}"
            )
        self._found = self._found[1:]
        self._number = segment.number + 1
        if segment.is_end:
            self.row = segment.stop
            self.has_ended = True
            return None
        self.last = segment
        self._slices = row_files.slices(self._directory, segment, table)
        part = next(self._slices)
        self.row = part[0].stop
        return part

    def _next(self) -> SegmentName | None:
        if not self._found:
            self._found = self._look()
        if not self._found:
            return None
        if self._number is not None and self._found[0].number > self._number:
            self._found = self._look()  # a listing of a changing directory may miss names, so list it again
        name, *others = self._found
        if self._number is not None and name.number > self._number:
            raise self._damaged(name, f"segment {self._number}, which comes before it, is missing")
        if others and others[0].number == name.number:
            raise self._damaged(name, f"there are two segments of number {name.number}")
        return name

    def _look(self) -> list[SegmentName]:
        """Return the segments from the next number on that one listing shows."""
        if self._number is None:
            return list(islice(all_names(self._directory), PER_FOLDER))
        if found := names_in(self._directory, folder(self._number), since=self._number):
            return found
        later = [name for name in folders(self._directory) if name > folder(self._number)]
        return names_in(self._directory, later[0]) if later else []

    def _damaged(self, name: SegmentName, problem: str) -> CorruptFileError:
        return CorruptFileError(path=self._directory / name.folder / name.text, problem=problem)
