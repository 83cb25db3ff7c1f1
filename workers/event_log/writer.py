"""Writing an event log: each batch of rows becomes one segment, which is durable before `append` returns.

Writing a batch again with the same rows, in any order, does nothing; with other rows it is an error. So a source that delivers
batches at least once (Spark, a source after a restart) writes each exactly once.

>>> import tempfile
>>> log = Path(tempfile.mkdtemp())
>>> writer = LogWriter(log, "clicks", "query-1")
>>> writer.append(0, {"ts": [6, 5], "page": ["shop", "home"]}, frontier=6).rows
2
>>> writer.append(0, {"ts": [5, 6], "page": ["home", "shop"]}, frontier=6).number, writer.rows
(0, 2)
>>> writer.append(0, {"ts": [5], "page": ["home"]}, frontier=6)  # doctest: +ELLIPSIS
Traceback (most recent call last):
dgs.errors.ReplayMismatchError: ... batch 0 was written before, with other rows (2 rows then, 1 now)...
>>> writer.close()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dgs.errors import ClosedLogError, MalformedRowError, OwnedLogError, ReplayMismatchError
from dgs.model.columns import Column
from dgs.workers.event_log import owner, row_files, truncation
from dgs.workers.event_log.event_tables import TS, one_chunk, row_table
from dgs.workers.event_log.row_order import digest, sorted_rows
from dgs.workers.event_log.segments import (
    END_MARK,
    BatchId,
    RowFile,
    Segment,
    SegmentName,
    all_names,
    batch_hash,
    directory_of,
    encoded,
    greatest,
    names_in,
    newest,
    read_segment,
)
from dgs.workers.storage.disk import make_directory, put_new

Rows: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, Column]
Beats = Sequence[tuple[int, int]]


class LogWriter:
    """Writes one stream of a log. `ts`: the column with the times, integers or datetimes.

    `writer`: the writer's id, which stays the same over restarts; another writer is refused unless it takes over. The numbers
    of rows and segments go on where the log ends. Raises OwnedLogError, OutputUnwritableError, CorruptFileError.
    """

    def __init__(self, path: Path, stream: str, writer: str, *, ts: str = TS, takeover: bool = False) -> None:
        self.path = path
        self.stream = stream
        self.writer = writer
        self._directory = directory_of(path, stream)
        self._ts = ts
        make_directory(self._directory)
        owner.claim(self._directory, writer, takeover=takeover)
        self._last = newest(self._directory)
        self._known: dict[str, SegmentName] | None = None

    @property
    def rows(self) -> int:
        """The number of rows of the stream, with those of deleted segments. It is the raw row number of the next row."""
        return 0 if self._last is None else self._last.stop

    @property
    def next_batch(self) -> int:
        """An id for a batch that is never repeated, greater than all earlier ids."""
        if self._last is None:
            return 0
        highest = self._last.numbered_so_far
        return 1 + (self._last.number if highest is None else highest)

    @property
    def last(self) -> Segment | None:
        """The header of the newest segment."""
        return self._last

    def find(self, batch: BatchId) -> Segment | None:
        """Return the header of the segment of a batch, if there is one. Raises CorruptFileError."""
        name = self._name_of(batch)
        return None if name is None else read_segment(self._directory, name)[0]

    @property
    def is_closed(self) -> bool:
        """Whether the end of the stream is marked."""
        return self._last is not None and self._last.is_end

    def append(
        self,
        batch: BatchId,
        rows: Rows,
        frontier: int | None = None,
        *,
        order_by: Sequence[str] = (),
        beats: Beats = (),
        keep_order: bool = False,
        is_sorted: bool = False,
    ) -> Segment:
        """Write a batch as the next segment, sorted by time, `order_by` and all other columns; return its header.

        `frontier`: a heartbeat: all later rows have greater times (raw, as in the column of times). `keep_order`: keep the rows'
        order; then `beats` may give heartbeats among them. `is_sorted`: the rows are already sorted. A batch that the log has is
        not written again. Ids that are numbers must increase, so that a batch whose segment was deleted is not taken for new.

        Raises ReplayMismatchError, ClosedLogError, OwnedLogError, OutputUnwritableError, and MalformedRowError for bad times.
        """
        table = row_table(rows)
        low, high = self._times(table)
        if not keep_order and not is_sorted:
            table = sorted_rows(table, [self._ts, *order_by])
        facts = {
            "rows": table.num_rows,
            "digest": digest(table, is_sorted=not keep_order),
            "low": low,
            "high": high,
        }

        def repeats(segment: Segment, before: pa.Table) -> bool:  # the order of rows may have been different
            return segment.digest == facts["digest"] or (
                not segment.files and digest(before) == digest(table)
            )

        return self._append(batch, table, repeats, **facts, frontier=frontier, beats=tuple(beats))

    def append_files(
        self,
        batch: BatchId,
        files: Sequence[RowFile],
        columns: pa.Schema,
        frontier: int | None = None,
        *,
        digest: str,
        repeats: Callable[[Sequence[RowFile]], bool],
        order_by: Sequence[str] = (),
    ) -> Segment:
        """Write a batch whose rows are in durable files of the stream's directory as the next segment; return its header.

        `columns`: those of the rows. `digest`: a text for the header. `repeats`: whether other files, with as many rows, have the same
        rows. If the log has the batch, the given files are deleted. Raises what `append` raises.
        """
        low, high = min((file.low for file in files), default=None), greatest(*(file.high for file in files))
        table = columns.empty_table()
        segment = self._append(
            batch,
            table,
            lambda segment, before: (
                _kinds(before) == _kinds(table)
                and (not files or (bool(segment.files) and repeats(segment.files)))
            ),
            rows=sum(file.rows for file in files),
            digest=digest,
            low=low,
            high=high,
            frontier=frontier,
            files=tuple(files),
            order_by=tuple(order_by) if files else (),
        )
        row_files.forget(self._directory, batch_hash(batch), keep=segment.files)
        return segment

    def _append(
        self, batch: BatchId, table: pa.Table, repeats: Callable[[Segment, pa.Table], bool], **facts: Any
    ) -> Segment:
        """Write a segment with these facts. If the log has the batch, check that it has as many rows and that `repeats` finds them equal."""
        while True:
            owner.check(self._directory, self.writer)
            if (name := self._name_of(batch)) is not None:
                return self._written_before(name, batch, facts["rows"], repeats)
            segment = replace(self._next(batch), **facts)
            if self._put(segment, table):
                return segment
            self._look()  # another process of this writer has just written one, perhaps the same batch

    def close(self) -> None:
        """Mark the end of the stream. A second call does nothing. Raises OwnedLogError."""
        while not self.is_closed:
            owner.check(self._directory, self.writer)
            segment = replace(self._next(END_MARK), is_end=True)
            if not self._put(segment, pa.table({})):
                self._look()

    def truncate(self, below: int) -> int:
        """Delete segments whose rows all come before row `below - 1`; return how many: see `truncation.truncate`.

        `below`: the lowest position of all checkpoints that a run may resume from. The row before it stays because it shows how
        far a resumed stream has come.
        """
        owner.check(self._directory, self.writer)
        return truncation.truncate(self._directory, below)

    def _look(self) -> None:
        """Read the newest segment again, and forget the known names."""
        self._last, self._known = newest(self._directory), None

    def _name_of(self, batch: BatchId) -> SegmentName | None:
        """Return the name of the segment of a batch, if there is one. For a new number, no names are searched."""
        highest = None if self._last is None else self._last.numbered_so_far
        if self._last is None or (isinstance(batch, int) and highest is not None and batch > highest):
            return None
        if self._known is None:
            self._known = {name.batch: name for name in all_names(self._directory)}
        return self._known.get(batch_hash(batch))

    def _next(self, batch: BatchId) -> Segment:
        """Return the header of the next segment, empty."""
        last = self._last
        if last is None:
            return Segment(self.stream, 0, batch, 0, 0, self.writer, "", self._ts)
        if last.is_end:
            raise ClosedLogError(path=self.path, stream=self.stream)
        highest = last.numbered_so_far
        if isinstance(batch, int) and highest is not None and batch <= highest:
            problem = f"it is no longer in the log, but batch {highest} is"
            raise ReplayMismatchError(path=self.path, stream=self.stream, batch=batch, problem=problem)
        return Segment(
            self.stream,
            last.number + 1,
            batch,
            last.stop,
            0,
            self.writer,
            "",
            self._ts,
            latest=last.latest_so_far,
            promised=last.promised_so_far,
            numbered=highest,
        )

    def _put(self, segment: Segment, table: pa.Table) -> bool:
        name = segment.name
        path = self._directory / name.folder / name.text
        make_directory(path.parent)
        if names_in(self._directory, name.folder, since=name.number):
            return False
        if not put_new(path, encoded(segment, table)):
            return False
        self._last = segment
        if self._known is not None:
            self._known[name.batch] = name
        return True

    def _written_before(
        self, name: SegmentName, batch: BatchId, rows: int, repeats: Callable[[Segment, pa.Table], bool]
    ) -> Segment:
        segment, before = read_segment(self._directory, name)
        if segment.rows != rows or not repeats(segment, before):
            then = segment.rows
            problem = f"{then} rows then, {rows} now" if then != rows else f"of its {rows} rows some differ"
            raise ReplayMismatchError(path=self.path, stream=self.stream, batch=batch, problem=problem)
        return segment

    def _times(self, table: pa.Table) -> tuple[int | None, int | None]:
        """Return the least and the greatest time, as integers."""
        if self._ts not in table.column_names:
            raise self._malformed(0, f"there is no column {self._ts!r} to order the rows by")
        column = one_chunk(table.column(self._ts))
        if not (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
            raise self._malformed(0, f"the times in column {self._ts!r} are neither integers nor datetimes")
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise self._malformed(row, "the timestamp is missing or null")
        if not len(column):
            return None, None
        ends = pc.min_max(column.cast(pa.int64()))
        return ends["min"].as_py(), ends["max"].as_py()

    def _malformed(self, row: int, problem: str) -> MalformedRowError:
        return MalformedRowError(stream=self.stream, row=self.rows + row, problem=problem)


def close_stream(path: Path, stream: str) -> None:
    """Mark the end of a stream in the name of its writer. Raises OwnedLogError if it has none: there is no such stream."""
    directory = directory_of(path, stream)
    writer = owner.owner(directory)
    if writer is None:
        raise OwnedLogError(path=path, stream=stream, owner="nobody", writer="dgs log close")
    LogWriter(path, stream, writer).close()


def _kinds(table: pa.Table) -> dict[str, pa.DataType]:
    """Return the types of columns by name: their order does not matter."""
    return dict(zip(table.schema.names, table.schema.types, strict=True))
