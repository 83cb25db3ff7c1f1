"""Micro-batches on their way into the event log: Spark writes the rows as files, and the driver commits the files to the log.

`foreachBatch` gives each micro-batch as a DataFrame. Its rows are divided by stream and written as Parquet by the tasks. The footers of
the files count them, and show whether readers can put them in order with little memory. If they cannot, Spark sorts the rows of this batch
and of all later ones. The commit of a stream is one segment that names its files. No row enters this process.

A batch that comes again is written again, under new names, and Spark compares the rows: the log keeps the first files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dgs.errors import UsageError
from dgs.job.run_directory import read_object
from dgs.spark_bridge.data_source.log_delivery import Delivery
from dgs.spark_bridge.data_source.log_options import LogOptions, quoted
from dgs.spark_bridge.data_source.log_writer import AT_ONCE, BATCH_WRITE, unit_of
from dgs.spark_bridge.data_source.query_owner import Query, standing
from dgs.spark_bridge.data_source.staging import Staging
from dgs.spark_bridge.ingest import row_writing
from dgs.spark_bridge.ingest.division import Division, are_same
from dgs.spark_bridge.ingest.found_files import gone
from dgs.spark_bridge.ingest.left_out import LeftOut
from dgs.spark_bridge.ingest.queries import FAILED, is_of_rows
from dgs.spark_bridge.ingest.row_writing import Written, undivided, written
from dgs.spark_bridge.ingest.succession import Succession
from dgs.spark_bridge.session.running_jobs import conf
from dgs.workers.event_log import failure, row_files
from dgs.workers.event_log.segments import RowFile, greatest, newest, read_segment
from dgs.workers.storage.disk import make_directory


class RowCounts:
    """Counts the rows of a query that Spark has read, and those in the log, since this process began. Only its thread adds.

    >>> counts = RowCounts()
    >>> counts.listener = lambda: print(counts.read, counts.committed)
    >>> counts.add(read=3)
    3 0
    >>> counts.add(committed=2)
    3 2
    """

    def __init__(self) -> None:
        self.read = 0
        self.committed = 0
        self.listener: Callable[[], None] | None = None

    def add(self, *, read: int = 0, committed: int = 0) -> None:
        """Count rows."""
        self.read += read
        self.committed += committed
        if self.listener is not None:
            self.listener()

    def __reduce__(self) -> tuple[type[RowCounts], tuple[()]]:
        """Pickle without the listener, which has no use in a server of Spark Connect."""
        return RowCounts, ()


CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
"""Settings with which Spark writes types as Arrow reads them."""


@dataclass
class Way:
    """The way in which the rows of a query are written.

    `is_divided`: True once a batch may have had rows that are not events. `is_sorted`: True once a batch was far from sorted.
    """

    is_divided: bool = False
    is_sorted: bool = False


@dataclass(frozen=True)
class MicroBatches:
    """The function for `foreachBatch`: it puts each micro-batch into the log, once. `checkpoint`: Spark's checkpoint directory."""

    left_out: LeftOut
    checkpoint: Path | None = None
    counts: RowCounts = field(default_factory=RowCounts)
    way: Way = field(default_factory=Way)

    @property
    def division(self) -> Division:
        """The rules by which rows are divided."""
        return self.left_out.division

    @property
    def options(self) -> LogOptions:
        """The log that takes the rows."""
        return self.division.options

    def __call__(self, rows: Any, batch: int) -> None:
        """Make the rows of a batch durable. Errors of dgs are also left in the options' directory for errors."""
        with failure.saving(self.options.errors), conf(rows.sparkSession, CONF):
            self.options.checked(dict(rows.dtypes))
            query = self._query
            if query.checkpoint is not None:
                self._check_files(Path(query.checkpoint), batch)
                succession = Succession(self.division, query, Path(query.checkpoint).parent)
                if succession.concerns(batch):
                    rows = succession.beyond(rows, batch)
                batch = succession.number(batch)
            else:
                for stream in self.options.streams:
                    standing(self.options.log / stream, query)
            if rows is not None:
                self._put(rows, batch, query)

    def _put(self, rows: Any, batch: int, query: Query) -> None:
        staging = Staging(self.options.log, query.id)
        has_flags = any(name.startswith(FAILED) for name in rows.columns)  # but not for rows that come again
        division = self.division if has_flags else replace(self.division, casts=())
        staging.clear()  # a killed process left its files behind
        try:
            rows = self._as_before(rows, batch)
            found = self._written(rows, staging.directory, division, self._floors(batch))
            self.counts.add(read=found.rows)
            self.counts.add(committed=self._commit(rows.sparkSession, batch, found, query))
        finally:
            staging.clear()

    def _written(self, rows: Any, place: Path, division: Division, floors: Mapping[str, int]) -> Written:
        """Let Spark write the rows: undivided while all so far were events of the only stream, unsorted while readers can sort."""
        make_directory(place)
        has_casts = any(name.startswith(FAILED) for name in rows.columns)
        if division.options.key is not None or has_casts or self.left_out.has_any:
            self.way.is_divided = True
        if division.parts >= row_writing.MOST_WRITERS:
            self.way.is_sorted = True  # Spark sorts them by their parts in any case
        while True:
            write = written if self.way.is_divided else undivided
            found = write(rows, place, division, floors, is_sorted=self.way.is_sorted)
            if isinstance(found, Written):
                return found
            self.way.is_divided |= found == "not events"
            self.way.is_sorted |= found == "unsorted"

    def _as_before(self, rows: Any, batch: int) -> Any:
        """Return the rows of a batch that some stream already has, with the columns of that time: files may have gained others."""
        for stream in self.options.streams:
            directory = self.options.log / stream
            last = newest(directory)
            if last is not None and last.batch == batch:
                before = read_segment(directory, last.name)[1].column_names
                names = [name for name in rows.columns if name in before or not is_of_rows(name)]
                return rows.select(*map(quoted, names)) if set(before) <= set(rows.columns) else rows
        return rows

    @property
    def _query(self) -> Query:
        """The query that writes, by the id in its checkpoint directory."""
        if self.checkpoint is None:
            return Query(self.options.query or BATCH_WRITE)
        id_ = read_object(self.checkpoint / "metadata").get("id")
        if id_ is None:
            message = f"Spark's checkpoint {self.checkpoint} was removed while its query ran: begin the run anew, with `--fresh`"
            raise UsageError(message=message)
        return Query(id_, str(self.checkpoint))

    def _check_files(self, checkpoint: Path, batch: int) -> None:
        """Raise UsageError if a file of a batch is gone: Spark would pass over it."""
        if files := gone(checkpoint, batch):
            more = f" and {len(files) - 1} others" if len(files) > 1 else ""
            message = (
                f"{files[0]}{more} went away before Spark read it: put it back and go on with `dgs resume`"
            )
            raise UsageError(message=message)

    def _commit(self, spark: Any, batch: int, found: Written, query: Query) -> int:
        """Make the events of a batch part of the log; return their number."""
        self.left_out.take(found.folders, batch)
        streams = self.options.streams
        delivery = Delivery(
            self.options.log,
            query,
            ts=self.options.ts,
            delay=self.options.delay(unit_of(found.columns, self.options.ts)),
            order_by=self.options.order_by,
        )
        are_same_here = partial(are_same, spark)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            taken = list(pool.map(lambda number: self._taken(number, batch, found), range(len(streams))))
            high = greatest(delivery.latest(streams), *(file.high for files in taken for file in files))

            def commit(number: int) -> None:
                delivery.deliver_files(
                    streams[number], batch, taken[number], found.columns, are_same=are_same_here, high=high
                )

            list(pool.map(commit, range(len(streams))))
        return sum(file.rows for files in taken for file in files)

    def _floors(self, batch: int) -> dict[str, int]:
        """Return the greatest times that are late in a batch, for the streams that leave late rows out, from the log before the batch."""
        found = {}
        for stream in self.division.late:
            last = newest(self.options.log / stream)
            if last is None:
                continue
            floor = last.promised if last.batch == batch else last.promised_so_far
            if floor is not None:
                found[stream] = floor
        return found

    def _taken(self, number: int, batch: int, found: Written) -> tuple[RowFile, ...]:
        """Move the files of a stream to their place, and return them."""
        if number not in found.folders:
            return ()
        directory = self.options.log / self.options.streams[number]
        return row_files.take(directory, batch, found.folders[number], self.options.ts)
