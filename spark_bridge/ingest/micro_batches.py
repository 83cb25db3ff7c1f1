"""Micro-batches on their way into the event log: Spark writes the rows as files, and the driver commits the files to the log.

`foreachBatch` gives each micro-batch as a DataFrame. Its rows are divided by stream and written as Parquet by the tasks. The footers of
the files count them, and show whether readers can put them in order with little memory. If they cannot, Spark sorts the rows of this batch
and of all later ones. The commit of a stream is one segment that names its files. No row enters this process.

A batch that comes again is written again, under new names, and Spark compares the rows: the log keeps the first files.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.job import private_files
from dgs.job.run_directory import read_object
from dgs.spark_bridge.data_source.log_delivery import Delivery
from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.data_source.log_writer import AT_ONCE, BATCH_WRITE, columns_of, unit_of
from dgs.spark_bridge.data_source.query_owner import Query, standing
from dgs.spark_bridge.data_source.staging import Staging
from dgs.spark_bridge.ingest.division import PART, Division, are_same, in_order
from dgs.spark_bridge.ingest.left_out import LeftOut
from dgs.spark_bridge.ingest.queries import FAILED, HIDDEN, is_of_rows, quoted
from dgs.spark_bridge.ingest.succession import Succession
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

WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
"""The setting of how many files a task may write at once."""

MOST_WRITERS = 32
"""The most files that a task writes at once. With more parts it writes one file after the other."""

INTEGERS = frozenset(["tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"])
"""Types of columns that are written as differences: as small as with a dictionary, in two thirds of the time."""

WORKING = Path("_temporary", "0", "_temporary")
"""Directories that Hadoop needs below that of the files. If Hadoop makes one itself, it starts a process, `chmod`."""

BUFFERED = 32 << 20
"""The bytes of rows that a task holds for its files, all together."""


@dataclass(frozen=True)
class Written:
    """The files of a micro-batch: the folder of each part with rows, the columns, and the number of all rows, events or not."""

    folders: Mapping[int, Path]
    columns: pa.Schema
    rows: int


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
        if division.parts >= MOST_WRITERS:
            self.way.is_sorted = True  # Spark sorts them by their parts in any case
        while True:
            way = replace(self.way)
            write = written if way.is_divided else undivided
            found = write(rows, place, division, floors, is_sorted=way.is_sorted)
            if found is None:
                self.way.is_divided = True
            elif not way.is_sorted and not _are_mergeable(found, division):
                self.way.is_sorted = True
            else:
                return found

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
        return Query(read_object(self.checkpoint / "metadata")["id"], str(self.checkpoint))

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


def written(
    rows: Any, place: Path, division: Division, floors: Mapping[str, int], *, is_sorted: bool
) -> Written:
    """Let Spark write the rows, divided, below an existing directory. Raises errors of Spark."""
    options = division.options
    columns = pa.schema([column for column in columns_of(rows.schema) if is_of_rows(column.name)])
    types = dict(rows.dtypes)
    nulls = [field.name for field in columns if pa.types.is_null(field.type)]
    # each step costs milliseconds, which matters in small batches
    kept = rows.drop(*nulls) if nulls else rows
    of_rows = {name: kind for name, kind in types.items() if is_of_rows(name) and name not in nulls}
    folder = place / f"batch-{secrets.token_hex(6)}"
    _directories(folder)
    # Spark compares the first column of an order much faster than the others: the time, if rows need not come part by part.
    at_once = division.parts + 1 if division.parts < MOST_WRITERS else 0
    ordered = division.numbered(kept, floors)
    if is_sorted:
        ordered = in_order(ordered, options, of_rows, *([] if at_once else [PART]))
    hidden = [name for name in types if name.startswith(HIDDEN)]
    ordered = ordered.drop(*hidden) if hidden else ordered
    with conf(rows.sparkSession, {WRITERS: str(at_once)}):
        files = len(options.streams) if at_once else 1
        writer = ordered.write.partitionBy(PART).options(**_options(files, of_rows))
        # No URI escapes: Hadoop takes the path literally, per cent signs included.
        writer.mode("append").parquet(f"file://{folder}")
    return _found(folder, columns)


def undivided(
    rows: Any, place: Path, division: Division, floors: Mapping[str, int], *, is_sorted: bool
) -> Written | None:
    """Let Spark write the rows as events of the only stream; return None if the footers of the files do not prove that all are events."""
    options = division.options
    columns = pa.schema([column for column in columns_of(rows.schema) if is_of_rows(column.name)])
    if any(pa.types.is_null(column.type) for column in columns):
        return None  # Parquet cannot hold such columns
    hidden = [name for name in rows.columns if not is_of_rows(name)]
    kept = rows.drop(*hidden) if hidden else rows
    folder = place / f"batch-{secrets.token_hex(6)}"
    part = _directories(folder, f"{PART}=0")
    types = dict(kept.dtypes)
    ordered = in_order(kept, options, types) if is_sorted else kept
    ordered.write.options(**_options(1, types)).mode("append").parquet(f"file://{part}")
    needed = {options.ts, *options.required}
    if not all(_are_events(path, needed, options.ts, floors) for path in part.glob("*.parquet")):
        return None
    return _found(folder, columns)


def _are_events(path: Path, needed: set[str], ts: str, floors: Mapping[str, int]) -> bool:
    """Whether the footer of a file proves that no row has a null in the columns needed, or a time that is late."""
    footer = pq.read_metadata(path)
    schema = [footer.schema.column(i) for i in range(footer.num_columns)]
    flat = {column.name: i for i, column in enumerate(schema) if column.name == column.path}
    if not needed <= flat.keys():
        return False  # the footer has statistics only of a record's fields
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if any(
            (found := group.column(flat[name]).statistics) is None or found.null_count != 0 for name in needed
        ):
            return False
        times = group.column(flat[ts]).statistics
        if group.num_rows and any(int(times.min_raw) <= floor for floor in floors.values()):
            return False
    return True


def _are_mergeable(found: Written, division: Division) -> bool:
    """Whether the footers show that readers can put the rows of each stream in order with little memory."""
    options = division.options
    return all(
        row_files.are_mergeable(list(found.folders[number].glob("*.parquet")), options.ts)
        for number in range(len(options.streams))
        if number in found.folders
    )


def _directories(folder: Path, name: str = "") -> Path:
    """Make a folder and the directories that Hadoop needs for files in it, or in the folder `name` in it; return the files' directory."""
    for parent in reversed([WORKING, *WORKING.parents]):
        private_files.make_directory(folder / name / parent)
    return folder / name


def _found(folder: Path, columns: pa.Schema) -> Written:
    found = {int(path.name.rpartition("=")[2]): path for path in folder.glob(f"{PART}=*")}
    count = sum(pq.read_metadata(file).num_rows for path in found.values() for file in path.glob("*.parquet"))
    return Written(found, columns, count)


def _options(files: int, types: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Parquet for tasks that write `files` large files at once. `types`: of the columns."""
    return {
        **{f"parquet.enable.dictionary#{name}": "false" for name, kind in types.items() if kind in INTEGERS},
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "parquet.block.size": str(min(BUFFERED // files, row_files.GROUP_BYTES)),
        "parquet.block.row.count.limit": str(row_files.READ_ROWS),
        "parquet.writer.version": "PARQUET_2_0",
    }


@contextmanager
def conf(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session, which may be a user's, some settings while the block runs."""
    before = {name: spark.conf.get(name, None) for name in settings}
    differing = [name for name, value in settings.items() if before[name] != value]
    for name in differing:
        spark.conf.set(name, settings[name])
    try:
        yield
    finally:
        for name in differing:
            if before[name] is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, before[name])
