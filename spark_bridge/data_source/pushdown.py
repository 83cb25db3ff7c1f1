"""Conditions of a query that a reader of `format("dgs")` applies itself, so that Spark gets matching rows only.

A condition compares a column of integers, text, dates or booleans with values. Numbers with a fraction are left to Spark, for which
NaN is the greatest number; so are times, which depend on the time zone of the session.

>>> small = Condition("epoch", "<", (3,))
>>> matching(pa.table({"epoch": [1, None, 5]}), [small]).to_pylist()
[{'epoch': 1}]
>>> small.excludes(3, 9), small.excludes(2, 9)
(True, False)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_OPERATORS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "null",
    "IsNotNull": "not null",
}
"""The filters of Spark that the reader applies, by the names of their classes, which PySpark has from version 4.1 on."""

_COMPARES: dict[str, tuple[Callable[..., Any], Callable[[Any, Any, Any], bool]]] = {
    "=": (pc.equal, lambda value, low, high: value < low or value > high),
    "<": (pc.less, lambda value, low, _: operator.le(value, low)),
    "<=": (pc.less_equal, lambda value, low, _: operator.lt(value, low)),
    ">": (pc.greater, lambda value, _, high: operator.ge(value, high)),
    ">=": (pc.greater_equal, lambda value, _, high: operator.gt(value, high)),
}
"""For each comparison: the rows that meet it, and whether no value from `low` to `high` does."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column. `is_`: a comparison, `in`, `null` or `not null`; `values`: what to compare with, of the column's type."""

    column: str
    is_: str
    values: tuple[Any, ...] = ()

    def excludes(self, low: Any, high: Any) -> bool:
        """Return whether no value from `low` to `high` meets this condition."""
        if self.is_ == "in":
            return all(value < low or value > high for value in self.values)
        return self.is_ in _COMPARES and _COMPARES[self.is_][1](self.values[0], low, high)

    def meets(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return for each value whether it meets this condition: null means no."""
        if self.is_ == "null":
            return pc.is_null(column)
        if self.is_ == "not null":
            return pc.is_valid(column)
        if self.is_ == "in":
            return pc.is_in(column, pa.array(self.values, column.type))
        return _COMPARES[self.is_][0](column, pa.scalar(self.values[0], column.type))


def condition_of(found: Any, schema: pa.Schema) -> Condition | None:
    """Return the condition of a filter of Spark, None if it is left to Spark. `schema`: the columns of the data frame."""
    is_ = _OPERATORS.get(type(found).__name__)
    if is_ is None or len(found.attribute) != 1 or found.attribute[0] not in schema.names:
        return None
    kind = schema.field(found.attribute[0]).type
    if not any(fits(kind) for fits in _KINDS):
        return None
    values = tuple(found.value) if is_ == "in" else (found.value,) if hasattr(found, "value") else ()
    try:
        pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    if any(value is None for value in values):
        return None
    return Condition(found.attribute[0], is_, values)


_KINDS = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date32)


def matching(table: pa.Table, conditions: Iterable[Condition]) -> pa.Table:
    """Return the rows that meet all conditions."""
    for condition in conditions:
        table = table.filter(condition.meets(table.column(condition.column)))
    return table


def row_groups(file: pq.ParquetFile, conditions: Sequence[Condition], schema: pa.Schema) -> list[int]:
    """Return the row groups of a file in which rows may meet all conditions. `schema`: the columns of the conditions."""
    there, about = file.schema_arrow, file.metadata
    paths = {about.schema.column(index).path: index for index in range(about.num_columns)}
    known = [
        (condition, paths[condition.column])
        for condition in conditions
        if condition.column in paths
        and condition.column in there.names  # not a path to a field of a record
        and there.field(condition.column).type == schema.field(condition.column).type
    ]
    return [
        number
        for number in range(about.num_row_groups)
        if not any(_excludes(condition, about.row_group(number).column(at)) for condition, at in known)
    ]


def _excludes(condition: Condition, chunk: pq.ColumnChunkMetaData) -> bool:
    found = chunk.statistics
    return found is not None and found.has_min_max and condition.excludes(found.min, found.max)
