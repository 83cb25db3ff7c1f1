"""Row files: the rows of a batch as Parquet files, which its segment names. Spark writes them, and no row passes its driver.

The row groups of a file may be in any order, and so may the rows of a small row group, which a reader decodes at once. The files are in the
directory of the stream, and no name is used twice: a batch that comes again gets new files, so a reader of the first ones is not disturbed.
A file counts only if a segment names it, with its size and the digest of its footer.

    LOG/STREAM/rows/HASH-TOKEN/part-00000-....parquet    HASH: that of the batch id, as in the name of the segment

>>> import tempfile
>>> directory = Path(tempfile.mkdtemp())
>>> for number, times in enumerate(([1, 6], [2, 5])):
...     pq.write_table(pa.table({"ts": times}), directory / f"{number}.parquet")
>>> files = tuple(described(directory, path, "ts") for path in sorted(directory.iterdir()))
>>> segment = Segment("s", 0, 0, 10, 4, "w", "", "ts", low=1, high=6, frontier=5, files=files)
>>> found = slices(directory, segment, pa.table({"ts": pa.array([], pa.int64())}))
>>> [(part.first, part.frontier, table.column("ts").to_pylist()) for part, table in found]
[(10, None, [1, 2]), (12, None, [5]), (13, 5, [6])]
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dgs.errors import CorruptFileError
from dgs.job import private_files
from dgs.workers.event_log.merging import Run, integers, merged
from dgs.workers.event_log.segments import BatchId, RowFile, Segment, UnreadableLogError, batch_hash
from dgs.workers.storage.disk import make_directory, refusing, sync_directory, sync_file

FOLDER = "rows"
READ_ROWS = 1 << 16
"""Rows of a file that are decoded at once. A larger row group must be in order of time."""

GROUP_BYTES = 4 << 20
"""A row group of more encoded bytes counts as several."""

MOST_HELD = 32
"""Row groups that a reader may hold at once, if their files are not more than half as many."""

_BUFFER = 1 << 20
_LENGTHS = 8
"""The bytes at the end of a Parquet file: the length of its footer, and a magic."""


def new_folder(directory: Path, batch: BatchId) -> Path:
    """Return a new place for the files of a batch, which does not exist yet."""
    return directory / FOLDER / f"{batch_hash(batch)}-{secrets.token_hex(6)}"


def take(directory: Path, batch: BatchId, source: Path, ts: str) -> tuple[RowFile, ...]:
    """Move a directory of Parquet files to its place in a stream, make them durable, and describe them. Raises OutputUnwritableError."""
    folder = new_folder(directory, batch)
    make_directory(folder.parent)
    with refusing(folder):
        source.rename(folder)
        found = (described(directory, path, ts) for path in make_durable(folder))
        return tuple(file for file in found if file is not None)


def make_durable(folder: Path) -> list[Path]:
    """Make a folder of Parquet files durable, and its name; return the files. Raises OSError."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
    for path in paths:
        with open(path, "rb", opener=private_files.opener) as file:
            sync_file(file)
    sync_directory(folder)
    sync_directory(folder.parent)
    return paths


def described(directory: Path, path: Path, ts: str) -> RowFile | None:
    """Return the description of a file below `directory`; None if it has no rows."""
    footer = pq.read_metadata(path)
    if not footer.num_rows:
        return None
    ends = _ends_of_groups(footer, ts)
    size, digest = _ends(path)
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return RowFile(str(path.relative_to(directory)), size, footer.num_rows, low, high, digest)


def are_mergeable(files: Collection[Path], ts: str) -> bool:
    """Return whether readers need little memory for unsorted Parquet files: no row group is large, and few contain the same time."""
    changes = []
    for footer in map(pq.read_metadata, files):
        for number, (low, high) in enumerate(_ends_of_groups(footer, ts)):
            group = footer.row_group(number)
            if group.num_rows > READ_ROWS:
                return False
            weight = max(group.num_rows / READ_ROWS, group.total_byte_size / GROUP_BYTES)
            changes += [(low, False, weight), (high, True, -weight)]
    most = max(MOST_HELD, 2 * len(files))
    return all(held <= most for held in accumulate(weight for _, _, weight in sorted(changes)))


def _ends_of_groups(footer: Any, ts: str) -> list[tuple[int, int]]:
    """Return the least and the greatest time of each row group."""
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    column = next(i for i in range(footer.num_columns) if footer.schema.column(i).path == ts)
    found = (group.column(column).statistics for group in groups)
    return [(int(ends.min_raw), int(ends.max_raw)) for ends in found]


def slices(directory: Path, segment: Segment, table: pa.Table) -> Iterator[tuple[Segment, pa.Table]]:
    """Yield a segment and its rows, part by part if they are in files; only the last part has the frontier.

    `table`: the rows in the segment, or its columns where there are files. Raises CorruptFileError, UnreadableLogError.
    """
    if not segment.files:
        yield segment, table
        return
    order = (segment.ts, *segment.order_by)
    runs = [run for file in segment.files for run in runs_of(directory, file, table.schema, segment.ts)]
    row = segment.first
    with ThreadPoolExecutor(1) as thread:
        for part in merged([Run(run.low, _ahead(run.tables, thread)) for run in runs], order):
            is_last = row + part.num_rows == segment.stop
            yield (
                replace(
                    segment, first=row, rows=part.num_rows, frontier=segment.frontier if is_last else None
                ),
                part,
            )
            row += part.num_rows


def forget(directory: Path, batch_hashed: str, *, keep: Iterable[RowFile] = ()) -> None:
    """Delete the files of a batch, given the hash of its id, except those to `keep`."""
    kept = {Path(file.path).parts[1] for file in keep}
    for folder in (directory / FOLDER).glob(f"{batch_hashed}-*"):
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def forget_all(directory: Path, batches: Collection[str]) -> None:
    """Delete the files of batches, given the hashes of their ids."""
    for folder in (directory / FOLDER).glob("*"):
        if folder.name.partition("-")[0] in batches:
            shutil.rmtree(folder, ignore_errors=True)


def size(directory: Path) -> int:
    """Return the size in bytes of all row files of a stream."""
    return sum(path.stat().st_size for path in (directory / FOLDER).glob("*/*.parquet"))


def runs_of(directory: Path, file: RowFile, schema: pa.Schema, ts: str) -> list[Run]:
    """Return the runs of a file, with the columns and types of a schema: a run ends where the next row group goes back in time.

    Raises CorruptFileError, also on reading, if the rows are not those described.
    """
    path = directory / file.path
    with _whole(path):
        if _ends(path) != (file.size, file.footer):
            raise CorruptFileError(path=path, problem="it is not the file that its segment describes")
        footer = pq.read_metadata(path)
        ends = _ends_of_groups(footer, ts)
    if footer.num_rows != file.rows:
        problem = f"it has {footer.num_rows} rows, and its segment says {file.rows}"
        raise CorruptFileError(path=path, problem=problem)
    breaks = [i for i in range(1, len(ends)) if ends[i][0] < ends[i - 1][1]]
    return [
        Run(ends[start][0], _tables(path, footer, range(start, stop), schema, ts))
        for start, stop in pairwise([0, *breaks, len(ends)])
    ]


def _tables(path: Path, footer: Any, groups: range, schema: pa.Schema, ts: str) -> Iterator[pa.Table]:
    """Yield the rows of a run. Raises CorruptFileError."""
    last = None
    with (
        _whole(path),
        pq.ParquetFile(
            path, metadata=footer, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        ) as found,
    ):
        columns = None if set(found.schema_arrow.names) <= set(schema.names) else schema.names
        for number in groups:
            rows = 0
            for batch in found.iter_batches(READ_ROWS, row_groups=[number], columns=columns):
                table, times = _in_time(_typed(pa.Table.from_batches([batch]), schema), ts)
                if last is not None and len(times) and times[0] < last:
                    raise CorruptFileError(path=path, problem="its rows are not in order of time")
                last = times[-1] if len(times) else last
                rows += len(times)
                yield table
            if rows != (told := footer.row_group(number).num_rows):
                problem = f"row group {number} has {rows} rows, and its footer says {told}"
                raise CorruptFileError(path=path, problem=problem)


def _ahead(tables: Iterator[pa.Table], thread: ThreadPoolExecutor) -> Iterator[pa.Table]:
    """Yield tables; a thread decodes the next one while the caller works on the current one."""
    following = thread.submit(next, tables, None)
    while (table := following.result()) is not None:
        following = thread.submit(next, tables, None)
        yield table


def _in_time(table: pa.Table, ts: str) -> tuple[pa.Table, Any]:
    """Return the rows in order of time, and their times."""
    times = integers(table.column(ts))
    if (times[:-1] <= times[1:]).all():
        return table, times
    order = np.argsort(times, kind="stable")
    return table.take(pa.array(order)), times[order]


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turn errors of a file into CorruptFileError, or into UnreadableLogError if it may be whole."""
    try:
        private_files.check_file(path)
        yield
    except FileNotFoundError as error:
        raise CorruptFileError(path=path, problem="its segment names it, and it is missing") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        # Arrow raises OSError without a number for damaged pages
        if isinstance(error, OSError) and error.errno:
            raise UnreadableLogError(path=path, problem=error.strerror or str(error)) from error
        raise CorruptFileError(path=path, problem=f"{type(error).__name__}: {error}") from error


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, with its types; a column that the file lacks is all nulls."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _ends(path: Path) -> tuple[int, str]:
    with open(path, "rb", opener=private_files.opener) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LENGTHS))
        footer = min(length, _LENGTHS + int.from_bytes(file.read(4), "little"))
        file.seek(length - footer)
        return length, hashlib.blake2b(file.read(), digest_size=32).hexdigest()
