"""JSON lines, written many at once; CSV and Parquet, whose outputs are collected to large tables, each one block (a row group).

The first block fixes the columns and their types. If later outputs have other columns, or values that do not fit, the host
begins another file: `part-0.parquet`, `part-0-1.parquet`, ....
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.model.columns import Column
from dgs.workers.sinks.files.file_sink import EpochParts, FileSink, Waiting
from dgs.workers.sinks.files.owned import PartFile
from dgs.workers.sinks.files.places import PartNames
from dgs.workers.sinks.formats.arrow_tables import fitted, flat, table_of_parts
from dgs.workers.sinks.formats.json_columns import json_lines
from dgs.workers.sinks.formats.spark_columns import readable

ROWS_AT_ONCE = 1024


class JsonlWriter:
    """Writes the lines of one epoch, many at once."""

    def __init__(self, parts: EpochParts) -> None:
        self._parts = parts
        self._part: PartFile = parts.begin()
        self._waiting = Waiting()

    def write(self, values: Column) -> None:
        """Collect outputs, and write them when there are enough."""
        self._waiting.add(values)
        if self._waiting.rows >= ROWS_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Write the remaining outputs."""
        if rows := self._waiting.rows:
            lines = json_lines(*self._waiting.take())
            with self._part.writing() as file:
                file.write(lines)
            self._parts.count(rows)


def jsonl_sink(names: PartNames) -> FileSink:
    """Return a sink of JSON lines."""
    return FileSink(names, JsonlWriter)


ROWS_PER_BLOCK = 65_536


class TableWriter(Protocol):
    """The common interface of pyarrow's writers."""

    def write_table(self, table: Any) -> None:
        """Append a table."""

    def close(self) -> None:
        """Write the end of the file. The file itself stays open."""


def open_parquet(file: IO[bytes], schema: pa.Schema) -> TableWriter:
    """Return a writer of Parquet."""
    return pq.ParquetWriter(file, schema, compression="zstd")  # type: ignore[no-any-return]


def open_csv(file: IO[bytes], schema: pa.Schema) -> TableWriter:
    """Return a writer of CSV with a header. Null is an empty field, and texts are quoted if they must be."""
    options = arrow_csv.WriteOptions(quoting_style="needed", batch_size=ROWS_PER_BLOCK)
    return arrow_csv.CSVWriter(file, schema, write_options=options)  # type: ignore[no-any-return]


class EpochTables:
    """Writes the tables of one epoch through `opener`. `shape`: fits a table to the format."""

    def __init__(
        self,
        parts: EpochParts,
        *,
        opener: Callable[[IO[bytes], pa.Schema], TableWriter],
        shape: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        self._parts, self._opener, self._shape = parts, opener, shape
        self._part = parts.begin()
        self._writer: TableWriter | None = None
        self._schema: pa.Schema | None = None
        self._waiting = Waiting()

    def write(self, values: Column) -> None:
        """Collect outputs, and write them when there are enough."""
        self._waiting.add(values)
        if self._waiting.rows >= ROWS_PER_BLOCK:
            self._flush()

    def finish(self) -> None:
        """Write the remaining outputs, and the end of the file."""
        try:
            self._flush()
        finally:
            self._end_file()

    def _flush(self) -> None:
        if not self._waiting.rows:
            return
        table = self._shape(table_of_parts(*self._waiting.take()))
        fits = None if self._schema is None else fitted(table, self._schema)
        if fits is None:
            self._begin_file(table.schema)
        with self._part.writing():
            if self._writer is not None:
                self._writer.write_table(table if fits is None else fits)
        self._parts.count(len(table))

    def _begin_file(self, schema: pa.Schema) -> None:
        self._end_file()
        if self._schema is not None:
            self._part = self._parts.begin()
        self._schema = schema
        with self._part.writing() as file:
            self._writer = self._opener(file, schema)

    def _end_file(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._part.writing():
                writer.close()


def parquet_sink(names: PartNames) -> FileSink:
    """Return a sink of Parquet files."""
    return FileSink(names, partial(EpochTables, opener=open_parquet))


def csv_sink(names: PartNames) -> FileSink:
    """Return a sink of CSV files. Nested values are written as JSON text."""
    return FileSink(names, partial(EpochTables, opener=open_csv, shape=flat))


def spark_sink(names: PartNames) -> FileSink:
    """Return a sink of Parquet files that Spark reads as one table: see `dgs.workers.sinks.formats.spark_columns`."""
    return FileSink(names, partial(EpochTables, opener=open_parquet, shape=readable))
