"""The schema of `source:` in plan.yaml.

>>> SourceConfig.model_validate({"csv": {"path": "a.csv", "ts": "time"}}).details.ts.column
'time'
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dgs.job.schema_base import (
    Choice,
    Count,
    Duration,
    Flag,
    LocalPath,
    Pace,
    Scalar,
    Section,
    SparkPath,
    Whole,
)
from dgs.job.units import TimeUnit, one_delimiter, parse_duration, time_format
from dgs.job.units import encoding as known_encoding


class ColumnRef(Section):
    """A value that is read from a column of each row."""

    column: str


class LiteralValue(Section):
    """A constant. It is needed only for a text that is also the name of a column."""

    value: Scalar


class TimeColumn(Section):
    """The column with the event time; `unit` where it differs from the plan's; `format` of text that is not ISO-8601, for strptime."""

    column: str
    unit: TimeUnit | None = None
    format: Annotated[str, AfterValidator(time_format)] | None = None


def _ts(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


Ts = Annotated[TimeColumn, BeforeValidator(_ts, json_schema_input_type=str | TimeColumn)]
ColumnTypes = dict[str, Literal["int", "float", "str", "bool", "datetime"]]
Encoding = Annotated[str, AfterValidator(known_encoding)]
"""The name of a codec of Python that decodes text."""


class CsvSource(Section):
    """CSV files: a path or glob, `.gz` allowed. `columns` gives types where inference will not do.

    `nulls`: the texts that are null, in columns of every type; without it `NA` and empty are, but in no column of text.
    """

    path: LocalPath
    ts: Ts = TimeColumn(column="ts")
    columns: ColumnTypes = {}
    header: list[str] | None = None
    delimiter: Annotated[str, AfterValidator(one_delimiter)] = ","
    nulls: list[str] | None = None
    encoding: Encoding = "utf-8"


class JsonlSource(Section):
    """JSON lines: a path or glob, `.gz` allowed. With `heartbeats: true`, lines of `kind: heartbeat` are heartbeats."""

    path: LocalPath
    ts: Ts = TimeColumn(column="ts")
    heartbeats: Flag = False
    encoding: Encoding = "utf-8"


class ParquetSource(Section):
    """Parquet files: a path or glob."""

    path: LocalPath
    ts: Ts = TimeColumn(column="ts")


class GeneratorSource(Section):
    """A Python callable that yields sorted batches: Arrow tables, dictionaries of columns, or EventBatch.

    `ref` is "file.py:name" or "package.module:name"; `args` are passed by keyword. With a `pace`, rows are let through at that
    rate by the clock of this machine, as if they arrived live.
    """

    ref: str
    args: dict[str, Any] = {}
    ts: Ts = TimeColumn(column="ts")
    pace: Pace | None = None


class SocketSource(Section):
    """A TCP port that takes JSON lines, live. They go to an event log first (`log`, default: in the run directory) and are read from there.

    With `heartbeats: true`, lines of `kind: heartbeat` are heartbeats; the connection's end does not end the stream, a line
    `{"kind": "end"}` does.

    `token`: connections must show it in their first line. `idle`: a connection without a line for so long is closed; 0: never.
    `per_peer`: connections of one address.
    """

    port: Count = Field(ge=0, le=65535)
    host: str = "127.0.0.1"
    ts: Ts = TimeColumn(column="ts")
    heartbeats: Flag = False
    log: LocalPath | None = None
    token: str | None = Field(default=None, min_length=8, repr=False)
    idle: Duration = 3600 * 10**9
    per_peer: Count = Field(default=128, ge=1)


class LogSource(Section):
    """An event log: a directory of sorted segments, as the socket source and Spark write it. Read on until it is closed."""

    path: LocalPath
    ts: Ts = TimeColumn(column="ts")


class SparkSource(Section):
    """A Spark query: what `format`, `path`, `options` read, or `sql`; then `select` and `where` in SQL. Its rows go through an event log.

    `columns`: the columns of files by name and type of Spark, where a look at the files does not tell them (or there are none yet).
    `nulls`, `encoding`: of files of format csv and json, as for the sources `csv` and `jsonl`.
    `ts`: the column with the event time. `order_by`: columns that order rows of equal time, before all others. `trigger`:
    `available_now` reads what is there and ends; a duration starts a micro-batch so often and never ends. `max_delay`: how late a
    row may come after later ones of other micro-batches. Streams with the same `query` name share one query: `key` is the column
    that says to which stream a row belongs (its value is the stream's id), else all rows belong to the stream. `on_malformed`: what
    to do with a row whose time, stream or tag is null, or for which a CAST of `select` fails; `stop`, but with `on_error: skip` `dead_letter`.
    """

    format: str | None = None
    path: SparkPath | None = None
    options: dict[str, Scalar] = {}
    columns: dict[str, str] = {}
    nulls: list[str] | None = None
    encoding: Encoding = "utf-8"
    sql: str | None = None
    select: list[str] = []
    where: str | None = None
    ts: Ts = TimeColumn(column="ts")
    order_by: list[str] = []
    trigger: Literal["available_now"] | Duration = "available_now"
    max_delay: Duration = 0
    query: str | None = None
    key: str | None = None
    log: LocalPath | None = None
    on_malformed: Literal["stop", "drop", "dead_letter"] | None = None


class CustomSource(Section):
    """A source of your own: a class that keeps the contract of `dgs.connectors.Source`.

    `ref` is "file.py:Name" or "package.module:Name"; each process that reads the stream makes one with `args`, by keyword.
    """

    ref: str
    args: dict[str, Any] = {}
    ts: Ts = TimeColumn(column="ts")


class MemorySource(Section):
    """Data given from Python under a name, with the column that has the event time."""

    name: str
    ts: Ts = TimeColumn(column="ts")


def _period(value: int | str) -> int | str:
    if (value if isinstance(value, int) else parse_duration(value)) < 1:
        raise ValueError(f"a period is at least 1, got {value!r}")
    return value


Period = Annotated[Whole | str, AfterValidator(_period)]
"""A duration, or a number in the unit of ts."""


class TicksSource(Section):
    """Events without rows: a tick says how far all other streams have been read. It comes at multiples of a period.

    `every`: the period, a duration or a number in the unit of ts; `origin`: the ts from which it counts. Each tick is an event of
    every tag in `tags:`; without `every` only the last one comes. With `classes: N` these are the keys 0 to N - 1 of the kind there. `start`: from this ts on no multiple is
    left out; without it only the greatest one that all streams have passed comes.
    """

    every: Period | None = None
    origin: Whole = 0
    classes: Count | None = Field(default=None, ge=1, le=65536)
    start: Whole | None = None


class SourceConfig(Choice):
    """A source of events: exactly one of these. `memory` names data given from Python: a table, or items."""

    csv: CsvSource | None = None
    jsonl: JsonlSource | None = None
    parquet: ParquetSource | None = None
    generator: GeneratorSource | None = None
    socket: SocketSource | None = None
    log: LogSource | None = None
    spark: SparkSource | None = None
    custom: CustomSource | None = None
    ticks: TicksSource | None = None
    memory: str | MemorySource | None = None


def memory_name(source: SourceConfig) -> str:
    """Return the name of the data that a `memory` source reads."""
    found = source.memory
    return found.name if isinstance(found, MemorySource) else str(found)
