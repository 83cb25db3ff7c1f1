"""Values that Arrow holds and Python does not: times beyond the years 1 to 9999, and text that is not UTF-8.

>>> first_unheld(pa.array([0, 10**13]).cast(pa.timestamp("s"))), first_unheld(pa.array([0, 1]).cast(pa.timestamp("s")))
((1, 'a timestamp[s] beyond the years 1 to 9999, or finer than Python holds'), None)
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dgs.model import columns
from dgs.model.columns import Column

_FAILURES = (OverflowError, ValueError, pa.ArrowException)  # a UnicodeDecodeError is a ValueError


def first_unheld(column: Column) -> tuple[int, str] | None:
    """Return the first row of a column whose value Python does not hold, with what it is; None if there is none."""
    if not isinstance(column, pa.Array) or _is_held(column):
        return None
    for row in range(len(column)):
        try:
            column[row].as_py()
        except _FAILURES:
            return row, _named(column.type)
    return None


def readable(column: Column) -> Any:
    """Return the first value of a column, or words for one that Python does not hold."""
    try:
        return columns.to_list(columns.cut(column, 0, 1))[0]
    except _FAILURES:
        return f"({_named(getattr(column, 'type', None))})"


def _is_held(column: pa.Array) -> bool:
    """Return whether Python surely holds all values. Only extremes of times are looked at, and nothing of numbers."""
    kind = column.type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
            extremes = pc.min_max(column)
            _ = extremes["min"].as_py(), extremes["max"].as_py()
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
            column.validate(full=True)
        elif pa.types.is_nested(kind):
            column.validate(full=True)
            if _has_times(kind):
                column.to_pylist()
    except _FAILURES:
        return False
    return True


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind))


def _named(kind: Any) -> str:
    if pa.types.is_temporal(kind):
        return f"a {kind} beyond the years 1 to 9999, or finer than Python holds"
    if pa.types.is_nested(kind):
        return f"a {kind} with text that is not UTF-8, or a time beyond the years 1 to 9999"
    return "text that is not UTF-8"
