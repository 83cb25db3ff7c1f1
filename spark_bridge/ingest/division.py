"""Division of a micro-batch: each row gets the number of its stream, or that of the reason why it can belong to none.

Spark writes the rows of each number into a directory of their own. So one pass tells events from rows that cannot be events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.ingest.queries import FAILED, FILE, ROW, quoted

PART = "__dgs_part"
"""The column with the number of a row."""

ATOMIC = frozenset(
    [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "boolean",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
"""Types that Spark sorts as the event log does; a reader sorts rows that differ in other columns only."""


HIDDEN = "__dgs_"
"""The prefix of columns that are not of the rows."""

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone


@dataclass(frozen=True)
class Reason:
    """The reasons for which a row belongs to no stream: a `column` is null, or names none of the streams; a cast failed; or the row is late."""

    kind: Literal["null", "stream", "cast", "late"]
    of: str
    """The column, the text of the cast, or the stream."""

    def __str__(self) -> str:
        """Return the reason in words, as dead letters name it."""
        words = {
            "null": "column {} is null", "stream": "column {} names no stream",
            "cast": "cast fails: {}", "late": "late for stream {}",
        }  # fmt: skip
        return words[self.kind].format(self.of)


@dataclass(frozen=True)
class Division:
    """The rules by which rows are divided. `casts`: the texts of the casts that have a column FAILED, by number. `late`: the streams that leave late rows out."""

    options: LogOptions
    casts: tuple[str, ...] = ()
    late: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[Reason]:
        """The reasons there may be, in the order of their numbers, which follow those of the streams."""
        key = [self.options.key] if self.options.key else []
        nulls = dict.fromkeys([self.options.ts, *key, *self.options.required])
        return [
            *(Reason("null", name) for name in nulls),
            *(Reason("stream", name) for name in key),
            *(Reason("late", stream) for stream in self.late),
            *(Reason("cast", text) for text in self.casts),
        ]

    @property
    def parts(self) -> int:
        """The most numbers that rows have."""
        return len(self.options.streams) + len(self.reasons)

    def numbered(self, rows: Any, floors: Mapping[str, int]) -> Any:
        """Return the rows with the column PART. `floors`: for a stream, the greatest time that is late, raw."""
        from pyspark.sql import functions as sql

        first = len(self.options.streams)
        found = sql.when(sql.lit(False), 0)
        numbers = list(enumerate(self.reasons, first))
        for number, reason in sorted(
            numbers, key=lambda pair: pair[1].kind != "cast"
        ):  # a failed cast makes a null
            found = found.when(self._holds(rows, reason, floors), number)
        if self.options.key is None:
            return rows.withColumn(PART, found.otherwise(0))
        for number, stream in enumerate(self.options.streams):
            found = found.when(self._is_of(stream), number)
        return rows.withColumn(PART, found)

    def _holds(self, rows: Any, reason: Reason, floors: Mapping[str, int]) -> Any:
        from pyspark.sql import functions as sql

        if reason.kind == "cast":
            return sql.col(f"{FAILED}{self.casts.index(reason.of)}")
        if reason.kind == "late":
            if reason.of not in floors:
                return sql.lit(False)
            times, floor = sql.col(quoted(self.options.ts)), sql.lit(floors[reason.of])
            kind = dict(rows.dtypes)[self.options.ts]
            if kind == "timestamp":
                floor = sql.timestamp_micros(floor)
            if kind == "timestamp_ntz":
                floor = sql.expr(f"TIMESTAMP_NTZ'{EPOCH + timedelta(microseconds=floors[reason.of])}'")
            return self._is_of(reason.of) & (times <= floor)
        column = sql.col(quoted(reason.of))
        if reason.kind == "null":
            return column.isNull()
        return ~column.cast("string").isin(*self.options.streams)

    def _is_of(self, stream: str) -> Any:
        from pyspark.sql import functions as sql

        if self.options.key is None:
            return sql.lit(True)
        return sql.col(quoted(self.options.key)).cast("string") == stream


def in_order(rows: Any, options: LogOptions, types: Mapping[str, str], *first: str) -> Any:
    """Return the rows in the order of the log within each task: by the columns `first`, time, `order_by`, then all others of `types`."""
    from pyspark.sql import functions as sql

    names = dict.fromkeys([options.ts, *options.order_by, *types])
    sortable = [name for name in names if types[name] in ATOMIC or types[name].startswith("decimal")]
    return rows.sortWithinPartitions(*first, *(sql.col(quoted(name)).asc_nulls_last() for name in sortable))


def digested(rows: Any, options: LogOptions, types: Mapping[str, str]) -> tuple[Any, Any]:
    """Return the rows, and an observation: how many there are, how many of them are events, and the sum of hashes of the events.

    `types`: the columns of an event, with Spark's types.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    columns = []
    for number, (name, kind) in enumerate(types.items()):
        column = sql.col(quoted(name))
        has_hash = not any(part in kind for part in ("map<", "variant", "interval"))
        # A null leaves no trace in the hash, so the numbers between the columns tell which one is null.
        columns += [column if has_hash else column.cast("string"), sql.lit(number)]
    is_event = sql.col(PART) < len(options.streams)
    found = sql.xxhash64(*columns)
    observation = Observation()
    low, high = found.bitwiseAND(sql.lit(0xFFFFFFFF)), sql.shiftrightunsigned(found, 32)
    return rows.observe(
        observation,
        sql.count(sql.lit(1)).alias("read"),
        sql.count_if(is_event).alias("rows"),
        sql.sum(sql.when(is_event, low)).alias("low"),  # halves: the sum of 64 bits would overflow
        sql.sum(sql.when(is_event, high)).alias("high"),
    ), observation


def is_of_rows(column: str) -> bool:
    """Whether a column is one of the rows, not one that divides them or tells where they come from."""
    return not column.startswith(HIDDEN) and column not in (FILE, ROW)
