"""Row files: the rows of a batch as sorted Parquet files, which its segment names. Spark writes them, and no row passes its driver.

They are in the directory of the stream, under names that occur once: a batch that comes again gets files of its own, and a reader
of the first ones is not disturbed. A file counts only if a segment names it, with its size and the digest of its footer.

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
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.errors import CorruptFileError
from dgs.workers.event_log.merging import Run, merged
from dgs.workers.event_log.segments import BatchId, RowFile, Segment, batch_hash, reading
from dgs.workers.storage.disk import sync_directory, sync_file
from dgs.workers.storage.whole_files import make_directory, refusing

FOLDER = "rows"
READ_ROWS = 1 << 16
"""Rows of a file that are decoded at once."""

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
        with path.open("rb") as file:
            sync_file(file)
    sync_directory(folder)
    sync_directory(folder.parent)
    return paths


def described(directory: Path, path: Path, ts: str) -> RowFile | None:
    """Return the description of a file below `directory` whose rows are in order of `ts`; None if it has no rows."""
    with path.open("rb") as data:
        found = pq.ParquetFile(data)
        footer = found.metadata
        if not footer.num_rows:
            return None
        column = next(
            i for i in range(footer.num_columns) if footer.row_group(0).column(i).path_in_schema == ts
        )
        ends = [footer.row_group(i).column(column).statistics for i in range(footer.num_row_groups)]
        low, high = min(part.min_raw for part in ends), max(part.max_raw for part in ends)
    size, digest = _ends(path)
    return RowFile(str(path.relative_to(directory)), size, footer.num_rows, int(low), int(high), digest)


def slices(directory: Path, segment: Segment, table: pa.Table) -> Iterator[tuple[Segment, pa.Table]]:
    """Yield a segment and its rows, part by part if they are in files; only the last part has the frontier.

    `table`: the rows in the segment, or its columns where there are files. Raises CorruptFileError, UnreadableLogError.
    """
    if not segment.files:
        yield segment, table
        return
    order = (segment.ts, *segment.order_by)
    runs = [Run(file.low, tables(directory, file, table.schema, segment.ts)) for file in segment.files]
    row = segment.first
    for part in merged(runs, order):
        is_last = row + part.num_rows == segment.stop
        yield (
            replace(segment, first=row, rows=part.num_rows, frontier=segment.frontier if is_last else None),
            part,
        )
        row += part.num_rows


def forget(directory: Path, batch_hashed: str, *, keep: Iterable[RowFile] = ()) -> None:
    """Delete the files of a batch, given the hash of its id; but not those to `keep`."""
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


def tables(directory: Path, file: RowFile, schema: pa.Schema, ts: str) -> Iterator[pa.Table]:
    """Yield the rows of a file with the columns and types of a schema. Raises CorruptFileError if they are not those described."""
    path = directory / file.path
    rows, last = 0, file.low
    try:
        with reading(path):
            if _ends(path) != (file.size, file.footer):
                raise CorruptFileError(path=path, problem="it is not the file that its segment describes")
            with pq.ParquetFile(
                path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
            ) as found:
                is_all = set(found.schema_arrow.names) <= set(schema.names)
                columns = None if is_all else schema.names
                for batch in found.iter_batches(READ_ROWS, columns=columns):
                    table = _typed(pa.Table.from_batches([batch]), schema)
                    times = table.column(ts).cast(pa.int64()) if batch.num_rows else None
                    if times is not None and times[0].as_py() < last:
                        raise CorruptFileError(path=path, problem="its rows are not in order of time")
                    last = last if times is None else times[-1].as_py()
                    rows += batch.num_rows
                    yield table
    except FileNotFoundError as error:
        raise CorruptFileError(path=path, problem="its segment names it, and it is missing") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise CorruptFileError(path=path, problem=f"{type(error).__name__}: {error}") from error
    if rows != file.rows:
        raise CorruptFileError(path=path, problem=f"it has {rows} rows, and its segment says {file.rows}")


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, with its types; a column that the file does not have is one of nulls."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _ends(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LENGTHS))
        footer = min(length, _LENGTHS + int.from_bytes(file.read(4), "little"))
        file.seek(length - footer)
        return length, hashlib.blake2b(file.read(), digest_size=32).hexdigest()
