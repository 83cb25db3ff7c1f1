"""CSV and Parquet files: outputs collected to large tables, each written as one block (a row group).

The first block fixes the columns and their types. Where later outputs have other columns, or values that do not fit, the host
begins another file: `part-0.parquet`, `part-0-1.parquet`, ....
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.errors import DgsError
from dgs.outputs import OutputBatch
from workers.sinks.contract import Staged
from workers.sinks.part_file import PartFile, refusing
from workers.sinks.tables import fitted, flat, table_of_parts
from workers.sinks.waiting import Waiting

ROWS_PER_BLOCK = 65_536


class TableWriter(Protocol):
    """What pyarrow's writers have in common."""

    def write_table(self, table: Any) -> None:
        """Append a table."""

    def close(self) -> None:
        """Write what ends the file; the file itself stays open."""


def open_parquet(file: IO[bytes], schema: pa.Schema) -> TableWriter:
    """Return a writer of Parquet."""
    return pq.ParquetWriter(file, schema, compression="zstd")  # type: ignore[no-any-return]


def open_csv(file: IO[bytes], schema: pa.Schema) -> TableWriter:
    """Return a writer of CSV with a header. Null is empty, texts are quoted where they must be."""
    options = arrow_csv.WriteOptions(quoting_style="needed", batch_size=ROWS_PER_BLOCK)
    return arrow_csv.CSVWriter(file, schema, write_options=options)  # type: ignore[no-any-return]


class TableSink:
    """Writes tables through `opener`; `shape` makes them fit the format."""

    def __init__(
        self,
        directory: Path,
        host: int,
        suffix: str,
        *,
        opener: Callable[[IO[bytes], pa.Schema], TableWriter],
        shape: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        self._directory, self._host, self._suffix = directory, host, suffix
        self._opener, self._shape = opener, shape
        self._parts = [PartFile(directory, f"part-{host}", suffix)]
        self._writer: TableWriter | None = None
        self._schema: pa.Schema | None = None
        self._waiting = Waiting()

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - one epoch so far
        """Collect the outputs; write them when there are enough."""
        if not len(batch):
            return
        self._waiting.add(batch.values)
        if self._waiting.rows >= ROWS_PER_BLOCK:
            self._flush()

    def stage(self, epoch: int) -> Staged:  # noqa: ARG002 - one epoch so far
        """Nothing to do."""
        return Staged()

    def close(self) -> None:
        """Write what is left and give the files their final names; a host without outputs leaves no file."""
        self._flush()
        self._end_file()
        for part in self._parts:
            part.commit(keep=self._schema is not None)

    def abort(self) -> None:
        """Write what is left and leave the `.partial` files."""
        with suppress(DgsError):  # the run has failed already; why it did is the news
            self._flush()
        self._end_file()
        for part in self._parts:
            part.abort()

    def _flush(self) -> None:
        if not self._waiting.rows:
            return
        table = self._shape(table_of_parts(*self._waiting.take()))
        fits = None if self._schema is None else fitted(table, self._schema)
        if fits is None:
            self._begin_file(table.schema)
        with refusing(self._directory):
            if self._writer is not None:
                self._writer.write_table(table if fits is None else fits)

    def _begin_file(self, schema: pa.Schema) -> None:
        self._end_file()
        if self._schema is not None:
            self._parts.append(
                PartFile(self._directory, f"part-{self._host}-{len(self._parts)}", self._suffix)
            )
        self._schema = schema
        with refusing(self._directory):
            self._writer = self._opener(self._parts[-1].file, schema)

    def _end_file(self) -> None:
        if self._writer is not None:
            with refusing(self._directory):
                self._writer.close()
            self._writer = None


def parquet_sink(directory: Path, host: int) -> TableSink:
    """Return a sink of Parquet files."""
    return TableSink(directory, host, "parquet", opener=open_parquet)


def csv_sink(directory: Path, host: int) -> TableSink:
    """Return a sink of CSV files; nested values are written as JSON text."""
    return TableSink(directory, host, "csv", opener=open_csv, shape=flat)
