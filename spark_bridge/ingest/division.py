"""Division of a micro-batch: each row gets the number of its stream, or of the reason why it belongs to none.

Spark writes the rows of each number into a separate directory. So one pass separates events from rows that cannot be events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from dgs.spark_bridge.data_source.log_options import LogOptions, quoted
from dgs.spark_bridge.ingest.queries import FAILED, HIDDEN, literal

PART = f"{HIDDEN}part"
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
    """The rules by which rows are divided. `casts`: the texts of the casts with a column FAILED, by number.

    `late`: the streams that leave late rows out. `required`: for a column of tags, the streams that need it; without an entry, all.
    """

    options: LogOptions
    casts: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    required: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def reasons(self) -> list[Reason]:
        """The possible reasons, in the order of their numbers, which follow those of the streams."""
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
        """The number of different numbers that rows may have."""
        return len(self.options.streams) + len(self.reasons)

    def numbered(self, rows: Any, floors: Mapping[str, int]) -> Any:
        """Return the rows with the column PART. `floors`: for a stream, the greatest time that is late, raw."""
        numbers = list(enumerate(self.reasons, len(self.options.streams)))
        numbers.sort(key=lambda pair: pair[1].kind != "cast")  # a failed cast makes a null
        kind = dict(rows.dtypes)[self.options.ts] if floors else ""
        branches = [
            f"WHEN {condition} THEN {number}"
            for number, reason in numbers
            if (condition := self._condition(reason, floors, kind)) is not None
        ]
        if self.options.key is None:
            branches.append("ELSE 0")
        else:
            branches += [f"WHEN {self._is_of(name)} THEN {i}" for i, name in enumerate(self.options.streams)]
        # One SQL text: a function of PySpark makes several calls of Java, and a hundred calls take as long as a small batch.
        return rows.selectExpr("*", f"CASE {' '.join(branches)} END AS {PART}")

    def _condition(self, reason: Reason, floors: Mapping[str, int], kind: str) -> str | None:
        """Return the condition of a reason in SQL, None if it holds for no row. `kind`: the type of the times."""
        if reason.kind == "cast":
            return f"{FAILED}{self.casts.index(reason.of)}"
        if reason.kind == "late":
            if reason.of not in floors:
                return None
            floor = f"{floors[reason.of]}L"
            if kind == "timestamp":
                floor = f"timestamp_micros({floor})"
            if kind == "timestamp_ntz":
                floor = f"TIMESTAMP_NTZ'{EPOCH + timedelta(microseconds=floors[reason.of])}'"
            return f"{self._is_of(reason.of)} AND {quoted(self.options.ts)} <= {floor}"
        if reason.kind == "null":
            needing = self.required.get(reason.of, self.options.streams)
            is_of_all = reason.of in (self.options.ts, self.options.key) or len(needing) == len(
                self.options.streams
            )
            of_these = "" if is_of_all else f" AND ({' OR '.join(map(self._is_of, needing))})"
            return f"{quoted(reason.of)} IS NULL{of_these}"
        streams = ", ".join(f"'{name}'" for name in self.options.streams)
        return f"CAST({quoted(reason.of)} AS STRING) NOT IN ({streams})"

    def _is_of(self, stream: str) -> str:
        if self.options.key is None:
            return "true"
        return f"CAST({quoted(self.options.key)} AS STRING) = '{stream}'"


def in_order(rows: Any, options: LogOptions, types: Mapping[str, str], *first: str) -> Any:
    """Return the rows within each task by the columns `first`, time, `order_by`, then all others of `types`. Readers put nulls last."""
    names = dict.fromkeys([options.ts, *options.order_by, *types])
    sortable = [name for name in names if types[name] in ATOMIC or types[name].startswith("decimal")]
    return rows.sortWithinPartitions(*first, *map(quoted, sortable))


def are_same(spark: Any, some: Iterable[Path], others: Iterable[Path]) -> bool:
    """Whether Parquet files have the same rows in any order, each as often: Spark counts them and adds up hashes of them."""
    return bool(_digest(spark, some) == _digest(spark, others))


def _digest(spark: Any, files: Iterable[Path]) -> Any:
    rows = spark.read.parquet(*map(literal, files))
    columns = []
    for number, (name, kind) in enumerate(sorted(rows.dtypes)):  # their order may have changed
        has_hash = not any(part in kind for part in ("map<", "variant", "interval"))
        # A null does not change the hash, so the numbers between the columns tell which one is null.
        columns += [quoted(name) if has_hash else f"CAST({quoted(name)} AS STRING)", str(number)]
    found = f"xxhash64({', '.join(columns)})"
    halves = [f"{found} & 4294967295L", f"shiftrightunsigned({found}, 32)"]  # a sum of 64 bits would overflow
    return rows.selectExpr("count(1)", *(f"sum({half})" for half in halves)).first()
