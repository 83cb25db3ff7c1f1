"""Outputs as tables, for CSV and Parquet: records become columns, and other values one column `value`.

Values without a common type (mixed types, tuples of different types) are written as JSON text.

>>> table_of([{"page": "home", "views": 3}, {"page": "shop"}]).to_pydict()
{'page': ['home', 'shop'], 'views': [3, None]}
>>> table_of([("home", 3)]).to_pydict()
{'value': ['["home",3]']}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.model import columns
from dgs.model.columns import Column, Indices
from dgs.workers.sinks.formats.json_text import as_json, plain

VALUE = "value"
_SURROGATE = re.compile("[\ud800-\udfff]")


def table_of(values: Column) -> pa.Table:
    """Return a column of outputs as a table."""
    if isinstance(values, dict) and _is_record(values):
        return pa.table({name: _arrow(part) for name, part in values.items()})
    if isinstance(values, list) and _is_record(values):
        names = list(dict.fromkeys(name for value in values for name in value))
        return pa.table({name: _arrow([value.get(name) for value in values]) for name in names})
    return pa.table({VALUE: _arrow(values)})


def table_of_parts(parts: Sequence[Column], order: Indices | None) -> pa.Table:
    """Return the concatenated columns of different forms as one table, with its rows in the given order."""
    if order is None:
        return table_of(columns.concat(parts))
    if all(_is_record(part) for part in parts):
        with suppress(pa.ArrowException):  # no common type: decide value by value
            tables = map(table_of, parts)
            return pa.concat_tables(tables, promote_options="permissive").take(pa.array(order))
    return table_of(columns.take(columns.concat([columns.to_list(part) for part in parts]), order))


def flat(table: pa.Table) -> pa.Table:
    """Return the table with nested columns as JSON text and bytes as base64, for a CSV file."""
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            text = as_json if pa.types.is_nested(field.type) else plain
            texts = [None if value is None else text(value) for value in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(texts, pa.string()))
    return table


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return the table in the given schema, or None if that would lose or change values."""
    if table.schema.equals(schema):
        return table
    if not set(table.column_names) <= set(schema.names):
        return None
    try:
        arrays = [
            _widened(table.column(field.name), field.type)
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
            for field in schema
        ]
    except pa.ArrowException:
        return None
    return None if any(array is None for array in arrays) else pa.table(arrays, schema=schema)


def _widened(column: Any, kind: pa.DataType) -> Any:
    """Return the column in a wider type (null to anything, integers to floats), else None."""
    numeric = (pa.types.is_integer, pa.types.is_floating)
    if column.type == kind or pa.types.is_null(column.type):
        return column.cast(kind)
    if any(is_one(column.type) for is_one in numeric) and any(is_one(kind) for is_one in numeric):
        return column.cast(kind)
    return None


def _is_record(values: Column) -> bool:
    """Return whether all values are dictionaries with text keys."""
    if isinstance(values, dict):
        return bool(values) and all(isinstance(name, str) for name in values)
    return isinstance(values, list) and all(
        type(value) is dict and value and all(type(name) is str for name in value) for value in values
    )


def _arrow(values: Column) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, dict):
        return pa.StructArray.from_arrays([_combined(part) for part in values.values()], names=list(values))
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biufMU":
        with suppress(UnicodeError):
            return pa.array(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        if not any(isinstance(value, (set, frozenset)) for value in listed):
            array = pa.array(listed)
            if not _has_empty_record(array.type):  # Parquet cannot hold one
                return array
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return pa.array([None if value is None else text_of(value) for value in listed], pa.string())


def _has_empty_record(kind: pa.DataType) -> bool:
    """Return whether a type has a record without fields."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not parts) or any(map(_has_empty_record, parts))


def _combined(values: Column) -> Any:
    array = _arrow(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def text_of(value: Any) -> str:
    """Return a text unchanged if UTF-8 can hold it, and any other value as JSON."""
    is_text = isinstance(value, str) and not _SURROGATE.search(value)
    return value if is_text else as_json(value)
