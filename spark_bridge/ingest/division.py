"""Division of a micro-batch: each row gets the number of its stream, or that of the reason why it can belong to none.

Spark writes the rows of each number into a directory of their own. So one pass tells events from rows that cannot be events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.ingest.queries import quoted

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


@dataclass(frozen=True)
class Reason:
    """Why a row can belong to no stream: a `column` is null, or names none of the streams."""

    kind: Literal["null", "stream"]
    column: str


def reasons(options: LogOptions) -> list[Reason]:
    """Return the reasons there may be, in the order of their numbers, which follow those of the streams."""
    key = [options.key] if options.key else []
    nulls = [Reason("null", name) for name in dict.fromkeys([options.ts, *key, *options.required])]
    return [*nulls, *(Reason("stream", name) for name in key)]


def numbered(rows: Any, options: LogOptions) -> Any:
    """Return the rows with the column PART."""
    from pyspark.sql import functions as sql

    first = len(options.streams)
    found = sql.when(sql.lit(False), 0)
    for number, reason in enumerate(reasons(options), first):
        column = sql.col(quoted(reason.column))
        is_so = column.isNull() if reason.kind == "null" else ~column.cast("string").isin(*options.streams)
        found = found.when(is_so, number)
    if options.key is None:
        return rows.withColumn(PART, found.otherwise(0))
    for number, stream in enumerate(options.streams):
        found = found.when(sql.col(quoted(options.key)).cast("string") == stream, number)
    return rows.withColumn(PART, found)


def in_order(rows: Any, options: LogOptions) -> Any:
    """Return the numbered rows in the order of the log within each task: by number, time, `order_by`, then all other columns."""
    from pyspark.sql import functions as sql

    types = dict(rows.dtypes)
    names = [name for name in dict.fromkeys([options.ts, *options.order_by, *types]) if name != PART]
    sortable = [name for name in names if types[name] in ATOMIC or types[name].startswith("decimal")]
    return rows.sortWithinPartitions(PART, *(sql.col(quoted(name)).asc_nulls_last() for name in sortable))


def digested(rows: Any, options: LogOptions) -> tuple[Any, Any]:
    """Return the rows, and the observation of how many are events and of a sum over these: the same for the same rows in any order."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    columns = []
    for number, (name, kind) in enumerate(rows.dtypes):
        column = sql.col(quoted(name))
        has_hash = not any(part in kind for part in ("map<", "variant", "interval"))
        # A null leaves no trace in the hash, so the numbers between the columns tell which one is null.
        columns += [column if has_hash else column.cast("string"), sql.lit(number)] if name != PART else []
    is_event = sql.col(PART) < len(options.streams)
    found = sql.xxhash64(*columns)
    observation = Observation()
    low, high = found.bitwiseAND(sql.lit(0xFFFFFFFF)), sql.shiftrightunsigned(found, 32)
    return rows.observe(
        observation,
        sql.count_if(is_event).alias("rows"),
        sql.sum(sql.when(is_event, low)).alias("low"),  # halves: the sum of 64 bits would overflow
        sql.sum(sql.when(is_event, high)).alias("high"),
    ), observation
