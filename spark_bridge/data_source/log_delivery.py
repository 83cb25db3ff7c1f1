"""Delivery of a micro-batch's sorted runs as segments of the event log: each stream's rows once, under the batch's id.

A large batch becomes several segments, so that neither side holds more than one in memory. Segments are cut at fixed numbers of
rows, and only the last one carries the frontier. So when Spark repeats a batch that a crash cut off, the batch is completed; and a
repeat with more or fewer rows than a complete batch is detected.

>>> import tempfile
>>> log = Path(tempfile.mkdtemp())
>>> delivery = Delivery(log, Query("id-1"), ts="ts", delay=2)
>>> runs = [pa.table({"ts": [1, 5]}), pa.table({"ts": [2, 5]})]
>>> delivery.deliver("clicks", 0, runs, high=5)
>>> from dgs.workers.event_log import summary
>>> [(s.rows, s.frontier) for s in summary.segments(log, "clicks")]
[(4, 2)]
>>> delivery.deliver("clicks", 0, runs[::-1], high=5)      # the same rows: nothing happens
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from dgs.errors import OwnedLogError, ReplayMismatchError
from dgs.spark_bridge.data_source.query_owner import Query, note_repeated, repeated, standing
from dgs.workers.event_log import LogWriter, Segment, owner, row_files
from dgs.workers.event_log.merging import Run, merged, pieces
from dgs.workers.event_log.segments import BatchId, RowFile, batch_hash, greatest, newest

SEGMENT_ROWS = 1 << 20
"""The most rows in a segment."""

OF_FILES = "files "
"""The prefix in place of a digest if rows are in files. Earlier versions wrote a digest after it."""


class Delivery:
    """Writes the batches of one query into a log.

    `ts`, `order_by`: the order of a batch's rows. `delay`: the most that a row of a later batch may be earlier than the greatest
    time so far, in the unit of `ts`.
    """

    def __init__(
        self,
        log: Path,
        query: Query,
        *,
        ts: str,
        delay: int,
        order_by: Sequence[str] = (),
        rows: int = SEGMENT_ROWS,
    ) -> None:
        self.log = log
        self.query = query
        self._ts = ts
        self._delay = delay
        self._order = (ts, *order_by)
        self._rows = rows

    def latest(self, streams: Sequence[str]) -> int | None:
        """Return the greatest time so far in the streams of the query."""
        found = (newest(self.log / stream) for stream in streams)
        return greatest(*(last.latest_so_far for last in found if last is not None))

    def deliver(self, stream: str, batch: int, runs: Sequence[pa.Table], *, high: int | None) -> None:
        """Make the rows of a batch durable, once. `high`: the greatest time so far in all streams of the query.

        Raises ReplayMismatchError, OwnedLogError, ClosedLogError, MalformedRowError, OutputUnwritableError.
        """
        directory = self.log / stream
        is_owner = standing(directory, self.query) == "owner"
        writer = LogWriter(
            self.log, stream, self.query.writer if is_owner else str(owner.owner(directory)), ts=self._ts
        )
        if (
            not any(run.num_rows for run in runs)
            and writer.find(batch) is None
            and _number(writer.last) >= batch
        ):
            return  # the batch was written before the stream was known
        for part, (table, is_last) in enumerate(self._parts(runs)):
            frontier = None if high is None or not is_last else high - self._delay - 1
            before = writer.find(_batch_id(batch, part))
            if before is None:
                writer = self._writer_for_new(writer, stream, batch, part, is_owner=is_owner)
                is_owner = True
            elif not is_last and before.frontier is not None:
                raise self._mismatch(stream, batch, "there are more rows now")
            writer.append(_batch_id(batch, part), table, frontier, order_by=self._order[1:], is_sorted=True)
        if before is not None and writer.find(_batch_id(batch, part + 1)) is not None:
            raise self._mismatch(stream, batch, "there are fewer rows now")
        if is_owner:
            self.query.note(directory)
        else:
            note_repeated(directory, self.query, batch + 1)

    def deliver_files(
        self,
        stream: str,
        batch: int,
        files: Sequence[RowFile],
        columns: pa.Schema,
        *,
        are_same: Callable[[Iterable[Path], Iterable[Path]], bool],
        high: int | None,
    ) -> None:
        """Make a batch durable, once, whose rows are in files of the stream (see `dgs.workers.event_log.row_files`).

        `are_same`: whether two lists of files have the same rows in any order. It is called if the log has the batch.
        """
        directory = self.log / stream
        writer = LogWriter(self.log, stream, self.query.writer, ts=self._ts)
        before = writer.find(batch)
        if before is not None and not before.digest.startswith(OF_FILES):  # an earlier version wrote its rows
            tables = [
                pa.concat_tables(run.tables)
                for file in files
                for run in row_files.runs_of(directory, file, columns, self._ts)
            ]
            self.deliver(stream, batch, tables or [columns.empty_table()], high=high)
            row_files.forget(directory, batch_hash(batch))
            return
        frontier = None if high is None else high - self._delay - 1
        writer.append_files(
            batch,
            files,
            columns,
            frontier,
            digest=f"{OF_FILES}{sum(file.rows for file in files)}",
            repeats=lambda before: are_same(
                *([directory / file.path for file in some] for some in (before, files))
            ),
            order_by=self._order[1:],
        )
        self.query.note(directory)

    def _parts(self, runs: Sequence[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
        """Yield the segments, each with whether it is the last."""
        waiting = None
        step = max(1, self._rows // max(1, len(runs)))
        opened = [Run.of(run, self._order, rows=step) for run in runs if run.num_rows]
        for piece in pieces(merged(opened, self._order), self._rows):
            if waiting is not None:
                yield waiting, False
            waiting = piece
        yield (runs[0].slice(0, 0) if waiting is None else waiting), True

    def _writer_for_new(
        self, writer: LogWriter, stream: str, batch: int, part: int, *, is_owner: bool
    ) -> LogWriter:
        """Return the writer for rows that are not in the log; a successor gets one once it has repeated the whole log."""
        last = _number(writer.last)
        if batch < last:
            raise self._mismatch(stream, batch, f"it is not in the log, and the later batch {last} is")
        if is_owner:
            return writer
        if repeated(self.log / stream, self.query) < (batch if part else last + 1):
            raise OwnedLogError(path=self.log, stream=stream, owner=writer.writer, writer=self.query.writer)
        return LogWriter(self.log, stream, self.query.writer, ts=self._ts, takeover=True)

    def _mismatch(self, stream: str, batch: int, problem: str) -> ReplayMismatchError:
        return ReplayMismatchError(path=self.log, stream=stream, batch=batch, problem=problem)


def _batch_id(batch: int, part: int) -> BatchId:
    return f"{batch}.{part}" if part else batch


def _number(segment: Segment | None) -> int:
    """Return the number of a segment's batch; -1 without a segment, or for the end mark."""
    return -1 if segment is None or segment.is_end else int(str(segment.batch).partition(".")[0])
