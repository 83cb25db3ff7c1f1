"""File sinks: one open writer per epoch. JSON lines are written many at once, CSV and Parquet as large tables of one block each.

`stage` returns durable `.partial` files. `publishing` gives them their final names after the commit.

The first block (row group) of a table fixes the columns and their types. If later outputs have other columns, or values that do not fit, the host
begins another file: `part-0.parquet`, `part-0-1.parquet`, ....
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.errors import DgsError, InternalError
from dgs.model import columns
from dgs.model.columns import Column, Indices
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.contract import Staged
from dgs.workers.sinks.files.owned import PartFile
from dgs.workers.sinks.files.places import PartNames
from dgs.workers.sinks.files.publishing import EarlierRun
from dgs.workers.sinks.formats.arrow_tables import fitted, flat, table_of_parts
from dgs.workers.sinks.formats.json_columns import json_lines
from dgs.workers.sinks.formats.spark_columns import readable
from dgs.workers.storage.disk import refusing


class EpochParts:
    """The files of one epoch at one host, in the order of their creation."""

    def __init__(self, names: PartNames, epoch: int) -> None:
        self._names, self._epoch = names, epoch
        self._parts: list[PartFile] = []
        self._rows: list[int] = []

    def begin(self) -> PartFile:
        """Begin the next file. Raises OutputUnwritableError."""
        number = len(self._parts)
        names = self._names
        final, partial = names.final(self._epoch, number), names.partial(self._epoch, number)
        part = PartFile(final, partial, names.place.opener)
        self._parts.append(part)
        self._rows.append(0)
        return part

    def count(self, rows: int) -> None:
        """Note that `rows` outputs went to the last file."""
        self._rows[-1] += rows

    def stage(self) -> list[StagedFile]:
        """Make the files durable, and remove those without outputs."""
        staged = []
        for part, rows in zip(self._parts, self._rows, strict=True):
            if rows:
                staged.append(part.stage(rows=rows, with_digest=self._names.by_epoch))
            else:
                part.discard()
        return staged

    def release(self) -> None:
        """Close the files and leave them as they are."""
        for part in self._parts:
            part.release()


class EpochWriter(Protocol):
    """Writes the outputs of one epoch in some format to the parts that it was made with."""

    def write(self, values: Column) -> None:
        """Take outputs."""

    def finish(self) -> None:
        """Write the remaining outputs and the end of the file. No more outputs will come."""


class FileSink:
    """Writes files through `writer`. In a run without checkpoints, all hosts must open their sinks before any closes one."""

    def __init__(self, names: PartNames, writer: Callable[[EpochParts], EpochWriter]) -> None:
        self._names, self._writer = names, writer
        self._open: dict[int, tuple[EpochParts, EpochWriter]] = {}
        self._staged: list[EpochParts] = []
        self._earlier: EarlierRun | None = None
        with refusing(names.place.directory):
            names.place.make()
        if not names.by_epoch:
            self._earlier = EarlierRun(names.place)
            self._begin(0)  # opened at once, since its lock keeps other runs out

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Collect outputs, and write them when there are enough."""
        self.write_column(batch.values, len(batch), epoch)

    def write_column(self, values: Column, rows: int, epoch: int) -> None:
        """Collect a column of `rows` values."""
        number = self._number(epoch)
        if rows:
            (self._open.get(number) or self._begin(number))[1].write(values)

    def _number(self, epoch: int) -> int:
        """Return the epoch for the names of files. Without checkpoints there is only epoch 0."""
        return epoch if self._names.by_epoch else 0

    def _begin(self, epoch: int) -> tuple[EpochParts, EpochWriter]:
        parts = EpochParts(self._names, epoch)
        self._open[epoch] = parts, self._writer(parts)
        return self._open[epoch]

    def stage(self, epoch: int) -> Staged:
        """Write the rest of an epoch and make it durable. An epoch without outputs leaves no file."""
        found = self._open.get(self._number(epoch))
        if found is None:
            return Staged()
        parts, writer = found
        writer.finish()
        files = parts.stage()
        del self._open[self._number(epoch)]
        if self._names.by_epoch:
            parts.release()
        else:
            self._staged.append(parts)
        return Staged(tuple(files))

    def close(self) -> None:
        """Close the files. In a run without checkpoints, remove the files of an earlier run."""
        if self._open:
            raise InternalError(problem=f"outputs of epochs {sorted(self._open)} were never staged")
        for parts in self._staged:
            parts.release()
        if self._earlier is not None:
            self._earlier.remove()

    def abort(self) -> None:
        """Write the remaining outputs and leave the files `.partial`."""
        for parts, writer in self._open.values():
            with suppress(DgsError):  # the error that ended the run matters more
                writer.finish()
            parts.release()
        for parts in self._staged:
            parts.release()


class Waiting:
    """Outputs to be written together, because writing small batches one by one is slow. `rows`: the number of waiting rows.

    Columns of one form are concatenated. If forms differ, there is a column for each, so frequent views and the rare updates
    between them stay columns.

    >>> waiting = Waiting()
    >>> for column in ({"page": np.array([1])}, ["text"], {"page": np.array([2])}):
    ...     waiting.add(column)
    >>> waiting.take()
    ([{'page': array([1, 2])}, ['text']], array([0, 2, 1]))
    """

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self.rows = 0

    def add(self, column: Column) -> None:
        """Append a column."""
        self._columns.append(column)
        self.rows += columns.length(column)

    def take(self) -> tuple[list[Column], Indices | None]:
        """Remove all rows. Return a column per form, and for each row, in order, its index in the concatenated columns.

        The order is None if the rows are already in order.
        """
        waiting, self._columns, self.rows = self._columns, [], 0
        groups: dict[Any, list[int]] = {}
        for number, column in enumerate(waiting):
            groups.setdefault(_form(column), []).append(number)
        parts = [columns.concat([waiting[number] for number in group]) for group in groups.values()]
        if len(groups) <= 1:
            return parts, None
        lengths = np.array([columns.length(column) for column in waiting])
        place = np.array([number for group in groups.values() for number in group])
        first = np.empty(len(place), dtype=np.intp)
        first[place] = np.cumsum(lengths[place]) - lengths[place]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return parts, np.repeat(first, lengths) + within


def _form(column: Column) -> Any:
    """Return the form of a column. `concat` joins columns of one form without looking at their values."""
    if isinstance(column, dict):
        return tuple((name, _form(part)) for name, part in column.items())
    if isinstance(column, np.ndarray):
        return column.dtype
    return column.type if isinstance(column, (pa.Array, pa.ChunkedArray)) else list


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
    """Return a writer of CSV with a header. Null is an empty field, and texts are quoted if necessary."""
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
