"""Payload columns in the best form for programs: numbers without nulls as NumPy arrays, others as Arrow arrays or lists.

Law: the form does not change values: `to_list` of the column gives the values that came in, in any batch.

>>> as_column([1, 2]), as_column([1, 2.5]), as_column([{"a": 1}, {"a": 2}])
(array([1, 2]), [1, 2.5], {'a': array([1, 2])})
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dgs.model.columns import Column

_NUMPY_TYPES = {int: np.int64, float: np.float64, bool: np.bool_}


def as_column(values: list[Any]) -> Column:
    """Return Python values as a column: numbers of one type as a NumPy array, records with the same names as columns."""
    types = set(map(type, values))
    if len(types) != 1:
        return values
    (one,) = types
    if one in _NUMPY_TYPES:
        try:
            return np.array(values, dtype=_NUMPY_TYPES[one])
        except OverflowError:
            return values
    if one is dict:
        return _records(values)
    return values


def settled(column: Column) -> Column:
    """Return any column in one of these forms. Arrow dictionaries and chunks are resolved."""
    if isinstance(column, list):
        return as_column(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = _microseconds(column)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not (plain or pa.types.is_boolean(column.type)):
        return column
    return column.to_numpy(zero_copy_only=False)


def _records(values: list[dict[Any, Any]]) -> Column:
    names = values[0].keys()
    if not names or not all(isinstance(name, str) for name in names):
        return values
    if any(value.keys() != names for value in values):
        return values
    return {name: as_column([value[name] for value in values]) for name in names}


def _microseconds(column: Any) -> Any:
    """Return times in microseconds, which Python's datetime can hold, also in records and lists, if that loses nothing."""
    wanted = _in_microseconds(column.type)
    if wanted == column.type:
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        return column


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type with microseconds in place of nanoseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_in_microseconds(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    return kind
