"""Writing the rows of a micro-batch: Spark's tasks write them as Parquet files, from which readers take them in order.

Rows that are far from in order are not written to the end: the footers of the first files show it, and the caller sorts the rows then.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.job import private_files
from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.data_source.log_writer import columns_of
from dgs.spark_bridge.ingest.division import PART, Division, in_order
from dgs.spark_bridge.ingest.queries import HIDDEN, is_of_rows
from dgs.spark_bridge.session.running_jobs import conf, tagging
from dgs.workers.event_log import row_files

WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
"""The setting of how many files a task may write at once."""

MOST_WRITERS = 32
"""The most files that a task writes at once. With more parts it writes one file after the other."""

INTEGERS = frozenset(["tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"])
"""Types of columns that are written as differences: as small as with a dictionary, in two thirds of the time."""

TEMPORARY = "_temporary"
WORKING = Path(TEMPORARY, "0", TEMPORARY)
"""Directories that Hadoop needs below that of the files. If Hadoop makes one itself, it starts a process, `chmod`."""

BUFFERED = 32 << 20
"""The bytes of rows that a task holds for its files, all together."""


LOOKS_FIRST = 1.0
"""Seconds until a first look at the files that tasks have finished; each pause is twice the one before."""

Files = Mapping[int, list[Path]]
"""Parquet files by the numbers of their parts."""


@dataclass(frozen=True)
class Written:
    """The files of a micro-batch: the folder of each part with rows, the columns, and the number of all rows, events or not."""

    folders: Mapping[int, Path]
    columns: pa.Schema
    rows: int


Unfit = Literal["unsorted", "not events"]
"""Why files are of no use: readers need much memory to put their rows in order; or not all of their rows are events of the stream."""


def written(
    rows: Any, place: Path, division: Division, floors: Mapping[str, int], *, is_sorted: bool
) -> Written | Unfit:
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
        writer = ordered.write.partitionBy(PART).options(**_options(files, of_rows)).mode("append")

        def unfit(found: Files) -> Unfit | None:
            return None if is_sorted or _are_mergeable(found, options) else "unsorted"

        # No URI escapes: Hadoop takes the path literally, per cent signs included.
        why = _write(rows.sparkSession, lambda: writer.parquet(f"file://{folder}"), folder, unfit)
    return why or _found(folder, columns)


def undivided(
    rows: Any, place: Path, division: Division, floors: Mapping[str, int], *, is_sorted: bool
) -> Written | Unfit:
    """Let Spark write the rows as events of the only stream, if the footers of the files prove that all are events."""
    options = division.options
    columns = pa.schema([column for column in columns_of(rows.schema) if is_of_rows(column.name)])
    if any(pa.types.is_null(column.type) for column in columns):
        return "not events"  # Parquet cannot hold such columns
    hidden = [name for name in rows.columns if not is_of_rows(name)]
    kept = rows.drop(*hidden) if hidden else rows
    folder = place / f"batch-{secrets.token_hex(6)}"
    part = _directories(folder, f"{PART}=0")
    types = dict(kept.dtypes)
    ordered = in_order(kept, options, types) if is_sorted else kept
    writer = ordered.write.options(**_options(1, types)).mode("append")
    needed = {options.ts, *options.required}

    def unfit(found: Files) -> Unfit | None:
        if not all(_are_events(path, needed, options.ts, floors) for path in found.get(0, ())):
            return "not events"
        return None if is_sorted or _are_mergeable(found, options) else "unsorted"

    why = _write(rows.sparkSession, lambda: writer.parquet(f"file://{part}"), folder, unfit)
    return why or _found(folder, columns)


def _write(
    spark: Any, write: Callable[[], None], folder: Path, unfit: Callable[[Files], Unfit | None]
) -> Unfit | None:
    """Let Spark write files, and return what `unfit` finds; it is asked about the first files, too, and then the job ends there.

    Files that are unfit are deleted. Raises errors of Spark.
    """
    tagged = tagging(spark)
    tag, ended, seen = f"dgs-{folder.name}", threading.Event(), list[Unfit]()

    def watch() -> None:
        pause = LOOKS_FIRST
        while not ended.wait(pause):
            pause *= 2
            with suppress(OSError, pa.ArrowException):  # the job ends, and moves its files
                if (why := unfit(_files(folder))) is not None:
                    seen.append(why)
                    tagged.cancel(tag)
                    return

    thread = threading.Thread(target=watch, daemon=True, name="dgs-spark-files")
    tagged.add(tag)
    thread.start()
    try:
        write()
    except Exception:
        if not seen:
            raise
    finally:
        ended.set()
        thread.join()
        with suppress(Exception):  # Spark may have ended
            tagged.remove(tag)
    why = seen[0] if seen else unfit(_files(folder))
    if why is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return why


def _files(folder: Path) -> Files:
    """Return the files of each part that tasks have finished."""
    found: dict[int, list[Path]] = {}
    for path in folder.rglob("*.parquet"):
        names = path.relative_to(folder).parts
        if names.count(TEMPORARY) < WORKING.parts.count(TEMPORARY):  # files of running tasks are deeper
            part = next(name for name in names if name.startswith(PART))
            found.setdefault(int(part.rpartition("=")[2]), []).append(path)
    return found


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


def _are_mergeable(found: Files, options: LogOptions) -> bool:
    """Whether the footers show that readers can put the rows of each stream in order with little memory."""
    streams = range(len(options.streams))
    return all(row_files.are_mergeable(found[number], options.ts) for number in streams if number in found)


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
