"""The Parquet files that a host writes for an epoch of a lake table. They are invisible until the table is told of them.

A file has one set of columns. Outputs with other columns begin another file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.model.columns import Column
from dgs.workers.sinks.files.buffer import Waiting
from dgs.workers.sinks.formats.arrow_tables import fitted, table_of_parts
from dgs.workers.sinks.lake.contract import DataFile
from dgs.workers.sinks.lake.lake_columns import fitted_to
from dgs.workers.storage.disk import sync_directory, sync_file
from dgs.workers.storage.whole_files import refusing

ROWS_PER_BLOCK = 65_536

Shape = Callable[[pa.Table], pa.Table]
"""Fits a table of outputs to the columns of the lake's table."""


class EpochFiles:
    """The files of one epoch of one host. `name`: the beginning of their names, which no other writer has."""

    def __init__(self, directory: Path, name: str, shape: Shape) -> None:
        self._directory, self._name, self._shape = directory, name, shape
        self._waiting = Waiting()
        self._file: _OpenFile | None = None
        self._done: list[DataFile] = []

    def write(self, values: Column) -> None:
        """Collect outputs, and write them when there are enough."""
        self._waiting.add(values)
        if self._waiting.rows >= ROWS_PER_BLOCK:
            self._flush()

    def finish(self) -> list[DataFile]:
        """Write the rest; return the files, which are durable now."""
        self._flush()
        self._end_file()
        with refusing(self._directory):
            sync_directory(self._directory)
        return self._done

    def abort(self) -> None:
        """Close the open file."""
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if not self._waiting.rows:
            return
        table = self._shape(table_of_parts(*self._waiting.take()))
        fits = None if self._file is None else fitted(table, self._file.schema)
        if fits is None:
            self._end_file()
            name = f"{self._name}-{len(self._done)}.parquet"
            self._file, fits = _OpenFile(self._directory / name, table.schema), table
        if self._file is not None:
            self._file.write(fits)

    def _end_file(self) -> None:
        if self._file is not None:
            self._done.append(self._file.finish())
            self._file = None


class _OpenFile:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema, self._path, self._rows = schema, path, 0
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
        return DataFile(self._path.name, self._path.stat().st_size, self._rows)

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
        copy = _OpenFile(path.with_name(f"{path.stem}-cast.parquet"), _chosen(schema, found))
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
