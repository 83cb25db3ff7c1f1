"""The writers behind `format("dgs")`: tasks sort and stage their rows, the commit puts them into the event log.

Rows arrive as Arrow batches and stay Arrow. `write` runs in the tasks; `commit` in a Python process of its own, which knows only
the tasks' messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dgs.errors import MalformedRowError, UsageError
from dgs.spark_bridge.data_source.log_delivery import Delivery
from dgs.spark_bridge.data_source.log_options import LogOptions, in_sql
from dgs.spark_bridge.data_source.query_owner import Query, standing
from dgs.spark_bridge.data_source.staging import StagedRows, Staging, read
from dgs.workers.event_log import failure, owner, summary
from dgs.workers.event_log.event_tables import one_chunk
from dgs.workers.event_log.merging import in_order
from dgs.workers.event_log.segments import greatest

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties with the streaming query and the micro-batch of a task, set inside `foreachBatch` too."""

CONTINUOUS = "__is_continuous_processing"
ENDLESS = 'format("dgs"): with the trigger `continuous` Spark has no micro-batches: .trigger(processingTime="1 second")'
"""With this trigger Spark would commit epochs without ever writing the rows of one."""

DGS = 'format("dgs")'

UNFIT = {
    "YearMonthIntervalType": ("years and months", "CAST({} AS STRING)"),
    "CalendarIntervalType": ("an interval of the calendar", "CAST({} AS STRING)"),
    "VariantType": ("a variant", "to_json({})"),  # which Arrow sees as two columns of bytes
    "GeometryType": ("shapes", "st_asbinary({})"),  # Arrow and Parquet differ
    "GeographyType": ("shapes", "st_asbinary({})"),
}
"""For a type that a log cannot hold, what it holds, and an expression that gives another."""

AT_ONCE = 8
"""Streams made durable at the same time: each waits for the disk."""

BATCH_WRITE = "batch"
"""The id of a batch query without a name."""


@dataclass
class Staged(WriterCommitMessage):
    """The staged runs of a task. `query`: the query's id; `batch`: the number of the micro-batch, None for a batch query."""

    query: str
    runs: tuple[StagedRows, ...]
    batch: int | None = None


@dataclass
class LogWrite:
    """The work of both writers, as plain data that travels to the tasks."""

    options: LogOptions
    schema: Any
    """The columns as an Arrow schema, needed where there are no batches."""

    @classmethod
    def of(cls, options: Any, schema: StructType) -> LogWrite:
        """Return the write of the options and columns of a query. Raises UsageError."""
        types = {field.name: field.dataType.simpleString() for field in schema}
        return cls(LogOptions.parsed(options).checked(types), columns_of(schema))

    def stage(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Sort the rows of a task by stream and stage them. Raises MalformedRowError, OwnedLogError."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        if context is not None and context.getLocalProperty(CONTINUOUS) == "true":
            raise UsageError(message=ENDLESS)
        id_, batch = (context and context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
        query = Query(id_ or self.options.query or BATCH_WRITE)
        with failure.saving(self.options.errors):
            table = self._table(list(batches))
            staging = Staging(self.options.log, query.id)
            runs: list[StagedRows] = []
            try:
                for stream, rows in self._by_stream(table):
                    runs.append(self._run(stream, rows, query, staging, partition))
            except BaseException:  # no message names these files to `abandon`
                for run in runs:
                    Path(run.path).unlink(missing_ok=True)
                raise
        return Staged(query.id, tuple(runs), int(batch) if id_ and batch else None)

    def deliver(self, messages: Iterable[WriterCommitMessage | None], batch: int | None = None) -> None:
        """Put the staged runs of the tasks into the log. `batch`: its number, if Spark has given one."""
        staged = [message for message in messages if isinstance(message, Staged)]
        if not staged:
            return
        if batch is None:
            batch = self.options.batch if staged[0].batch is None else staged[0].batch
        query = Query(staged[0].query, self.options.checkpoint)
        runs = [run for message in staged for run in message.runs]
        with failure.saving(self.options.errors):
            streams = sorted({*self.options.streams, *(run.stream for run in runs), *self._known(query)})
            delivery = Delivery(
                self.options.log,
                query,
                ts=self.options.ts,
                delay=self.options.delay(unit_of(self.schema, self.options.ts)),
                order_by=self.options.order_by,
            )
            high = greatest(delivery.latest(streams), *(run.high for run in runs))

            def deliver(stream: str) -> None:
                tables = [read(run.path) for run in runs if run.stream == stream]
                delivery.deliver(stream, batch, tables or [self.schema.empty_table()], high=high)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(deliver, streams))
        Staging(self.options.log, query.id).clear()

    def abandon(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """Remove the staged runs of a write that failed."""
        for query in {message.query for message in messages if isinstance(message, Staged)}:
            Staging(self.options.log, query).clear()

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Return the rows with the types of the schema: batches carry the session's time zone instead."""
        if not batches:
            return self.schema.empty_table()
        table = pa.Table.from_batches(batches)
        return pa.table(
            [table.column(field.name).cast(field.type) for field in self.schema],
            schema=self.schema.with_metadata(None),
        )

    def _known(self, query: Query) -> Iterator[str]:
        """Yield the streams that the query has written before: their frontiers advance too."""
        for name in summary.stream_names(self.options.log) if self.options.key else ():
            if owner.owner(self.options.log / name) == query.writer:
                yield name

    def _by_stream(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        self._refuse_nulls(table)
        if not table.num_rows:
            return
        if self.options.stream is not None:
            yield self.options.stream, table
            return
        try:
            keys = one_chunk(table.column(self.options.key)).cast(pa.string()).dictionary_encode()
        except pa.ArrowInvalid:
            message = f"{DGS}: column {self.options.key!r} has bytes in some row that are no text: select one that names the stream"
            raise UsageError(message=message) from None
        for index, stream in enumerate(keys.dictionary.to_pylist()):
            self.options.check_stream(stream)
            yield stream, table.filter(pc.equal(keys.indices, index))

    def _run(self, stream: str, rows: pa.Table, query: Query, staging: Staging, partition: int) -> StagedRows:
        standing(self.options.log / stream, query)
        ordered = in_order(rows.combine_chunks(), (self.options.ts, *self.options.order_by))
        high = one_chunk(ordered.column(self.options.ts)).cast(pa.int64())[-1].as_py()
        return StagedRows(stream, str(staging.put(partition, ordered)), ordered.num_rows, high)

    def _refuse_nulls(self, table: pa.Table) -> None:
        names = [self.options.ts, *([self.options.key] if self.options.key else []), *self.options.required]
        for name in dict.fromkeys(names):
            column = table.column(name)
            if column.null_count:
                row = pc.index(one_chunk(column.is_null()), True).as_py()
                stream = (
                    self.options.stream or ",".join(self.options.streams) or f"of column {self.options.key}"
                )
                raise MalformedRowError(
                    stream=stream, row=row, problem=f"column {name!r} is null", column=name
                )


def columns_of(schema: StructType) -> pa.Schema:
    """Return the columns of a DataFrame as Arrow's, times in UTC. Raises UsageError for columns that a log cannot hold."""
    spelt = Counter(field.name.lower() for field in schema)
    for field in schema:
        if spelt[field.name.lower()] > 1:
            raise UsageError(
                message=f"{DGS}: there are several columns {field.name!r} (Spark takes upper for lower case): name each once"
            )
        for kind in _inside(field.dataType):
            if (unfit := UNFIT.get(type(kind).__name__)) is not None:
                problem, expression = unfit
                whole = expression if kind is field.dataType else "to_json({})"
                name = in_sql(field.name)
                advice = f"select {whole.format(name)} AS {name}"
                raise UsageError(message=f"{DGS}: column {field.name!r} holds {problem}: {advice}")
    try:  # nullable at every level: if a record is null, Arrow makes its parts null too
        return to_arrow_schema(schema.toNullable(), timezone="UTC").remove_metadata()
    except ValueError:
        message = f"{DGS}: some column holds maps without a type of keys: select CAST(map() AS MAP<STRING, STRING>) in its place"
        raise UsageError(message=message) from None


def unit_of(columns: pa.Schema, ts: str) -> str | None:
    """Return the unit of the time column, if its type has one."""
    kind = columns.field(ts).type
    return str(kind.unit) if pa.types.is_timestamp(kind) else None


def _inside(kind: DataType) -> Iterator[DataType]:
    """Yield a type and those of its parts."""
    yield kind
    parts = [field.dataType for field in kind] if isinstance(kind, StructType) else []
    parts += [kind.elementType] if isinstance(kind, ArrayType) else []
    parts += [kind.keyType, kind.valueType] if isinstance(kind, MapType) else []
    for part in parts:
        yield from _inside(part)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query: one delivery per micro-batch."""

    def __init__(self, write: LogWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._write.stage(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make the batch durable under its id."""
        self._write.deliver(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's names
        """Remove what the tasks have staged."""
        self._write.abandon(messages)


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch query: all its rows are one batch. Inside `foreachBatch` that is the micro-batch."""

    def __init__(self, write: LogWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._write.stage(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows durable."""
        self._write.deliver(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have staged."""
        self._write.abandon(messages)
