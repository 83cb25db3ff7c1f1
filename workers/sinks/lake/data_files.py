"""The Parquet files that a host writes for an epoch of a lake table. Readers do not see them before a transaction of the table names them.

A file has one set of columns. Outputs with other columns begin another file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.model.columns import Column
from dgs.workers.sinks.files.file_sink import Waiting
from dgs.workers.sinks.files.owned import digest_of
from dgs.workers.sinks.formats.arrow_tables import fitted, table_of_parts
from dgs.workers.sinks.lake.contract import DataFile
from dgs.workers.sinks.lake.lake_columns import fitted_to
from dgs.workers.storage.disk import refusing, sync_directory, sync_file

ROWS_PER_BLOCK = 65_536

MOST_OPEN = 32
"""The most files of an epoch that a host has open."""

Shape = Callable[[pa.Table], pa.Table]
"""Fits a table of outputs to the columns of the lake's table."""


class EpochFiles:
    """The files of one epoch of one host. `name`: the beginning of their names, which no other writer uses.

    A file has the rows of one partition: the same values in the columns `partition_by`.
    """

    def __init__(self, directory: Path, name: str, shape: Shape, partition_by: Sequence[str] = ()) -> None:
        self._directory, self._name, self._shape = directory, name, shape
        self._partition_by = partition_by
        self._waiting = Waiting()
        self._files: dict[tuple[str | None, ...], _OpenFile] = {}  # in the order of their last rows
        self._begun = 0
        self._done: list[DataFile] = []

    def write(self, values: Column) -> None:
        """Collect outputs, and write them when there are enough."""
        self._waiting.add(values)
        if self._waiting.rows >= ROWS_PER_BLOCK:
            self._flush()

    def finish(self) -> list[DataFile]:
        """Write the rest; return the files, which are durable now."""
        self._flush()
        self._end_files(0)
        with refusing(self._directory):
            sync_directory(self._directory)
        return self._done

    def abort(self) -> None:
        """Close the open files."""
        for file in self._files.values():
            file.close()

    def _flush(self) -> None:
        if not self._waiting.rows:
            return
        table = self._shape(table_of_parts(*self._waiting.take()))
        for partition, rows in partitions_of(table, self._partition_by):
            self._append(partition, rows)

    def _append(self, partition: tuple[str | None, ...], rows: pa.Table) -> None:
        file = self._files.pop(partition, None)
        fits = None if file is None else fitted(rows, file.schema)
        if file is None or fits is None:
            if file is not None:
                self._done.append(file.finish())
            self._end_files(MOST_OPEN - 1)
            path = self._directory / f"{self._name}-{self._begun}.parquet"
            self._begun += 1
            file, fits = _OpenFile(path, rows.schema, partition), rows
        self._files[partition] = file
        file.write(fits)

    def _end_files(self, most: int) -> None:
        """End files until at most `most` are open, beginning with those that have had no rows for the longest time."""
        while len(self._files) > most:
            self._done.append(self._files.pop(next(iter(self._files))).finish())


def partitions_of(
    table: pa.Table, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """Yield the rows of each partition, in order, with the values of its columns as text.

    >>> rows = pa.table({"day": ["mon", "tue", "mon"], "n": [1, 2, 3]})
    >>> [(values, part["n"].to_pylist()) for values, part in partitions_of(rows, ["day"])]
    [(('mon',), [1, 3]), (('tue',), [2])]
    """
    if not columns:
        yield (), table
        return
    places: dict[tuple[str | None, ...], list[int]] = {}
    texts = (table.column(name).cast(pa.string()).to_pylist() for name in columns)
    for place, values in enumerate(zip(*texts, strict=True)):
        places.setdefault(values, []).append(place)
    for values, chosen in places.items():
        yield values, table.take(chosen)


class _OpenFile:
    def __init__(self, path: Path, schema: pa.Schema, partition: tuple[str | None, ...]) -> None:
        self.schema, self._path, self._partition, self._rows = schema, path, partition, 0
        with refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        with refusing(self._path):
            self._writer.write_table(table)
        self._rows += len(table)

    def finish(self) -> DataFile:
        with refusing(self._path), self._file:
            self._writer.close()
            sync_file(self._file)
            digest = digest_of(self._path)
        return DataFile(self._path.name, self._path.stat().st_size, self._rows, self._partition, digest)

    def close(self) -> None:
        with refusing(self._path), self._file:
            self._writer.close()


def cast_file(directory: Path, file: DataFile, schema: pa.Schema, *, table: str) -> DataFile:
    """Return the file, or a copy of it whose columns have the types in `schema`. Raises ColumnTypeError."""
    path = directory / file.name
    with refusing(path):
        found = pq.read_schema(path)
        if all(schema.field(field.name).type == field.type for field in found):
            return file
        copy = _OpenFile(path.with_name(f"{path.stem}-cast.parquet"), _chosen(schema, found), file.partition)
        try:
            for block in pq.ParquetFile(path).iter_batches(ROWS_PER_BLOCK):
                copy.write(fitted_to(pa.Table.from_batches([block]), schema, name=table))
        except BaseException:
            copy.close()
            raise
        made = copy.finish()
        sync_directory(directory)
    return made


def _chosen(schema: pa.Schema, of: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(name) for name in of.names])
