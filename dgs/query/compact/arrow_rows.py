"""Rows of canonical values as Arrow tables, and back; the types of queries as those of Arrow.

>>> from dgs.query.types import INT, TEXT, Schema
>>> table = to_arrow([("ulm", 3), (None, 4)], Schema.of(town=TEXT, n=INT))
>>> from_arrow(table, Schema.of(town=TEXT, n=INT))
[('ulm', 3), (None, 4)]

>>> print(schema_of(pa.schema([("n", pa.int32()), ("at", pa.date32()), ("l", pa.list_(pa.float32()))])))
n int64, at time, l list<float64>
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.query.errors import QueryError
from dgs.query.evaluate import rows_of
from dgs.query.scalar import Row
from dgs.query.types import BOOL, FLOAT, INT, NULL, TEXT, TIME, Schema, Type, list_of, plain, record

_FLAT = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "time": pa.timestamp("us"),
    "null": pa.int32(),
}


def arrow_type(of: Type) -> pa.DataType:
    """Return Arrow's type for one of ours."""
    if of.of is not None:
        return pa.list_(arrow_type(of.of))
    if of.kind == "record":
        return pa.struct([(name, arrow_type(one)) for name, one in of.fields])
    return _FLAT[of.kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return Arrow's schema for one of ours."""
    return pa.schema([(name, arrow_type(one)) for name, one in schema.fields])


def to_arrow(rows: Sequence[Row], schema: Schema) -> pa.Table:
    """Return a table of rows."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[] for _ in schema.fields]
    arrays = [_array(values, of) for values, of in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _array(values: Sequence[Any], of: Type) -> pa.Array:
    is_nested = of.kind in ("bag", "list", "record")
    return pa.array([plain(one, of) for one in values] if is_nested else values, arrow_type(of))


def from_arrow(table: pa.Table, schema: Schema) -> list[Row]:
    """Return the rows of a table in canonical form. Raises QueryError Q703 for a value that does not fit."""
    try:
        columns = [column.to_pylist() for column in table.columns]
    except (OverflowError, ValueError):
        raise QueryError.of("Q703", "a time is outside of the years 1 to 9999") from None
    return rows_of(zip(*columns, strict=True), schema) if columns else []


def in_one_form(table: pa.Table) -> pa.Table:
    """Return a table whose columns of floats have one NaN and no negative zero, as values of the interpreter."""
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = pc.add(table.column(place), 0.0)
            is_nan = pc.is_nan(column)
            if pc.any(is_nan).as_py():
                column = pc.if_else(is_nan, math.nan, column)
            table = table.set_column(place, field, column)
    return table


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, not copied if it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_flat(table: pa.Table) -> bool:
    """Return whether no column holds lists or records: such a table can be returned as columns."""
    return not any(pa.types.is_nested(one) for one in table.schema.types)


def as_columns(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table in the form for programs: arrays of NumPy for numbers without nulls, else Arrow's."""
    found: dict[str, Any] = {}
    for name in table.column_names:
        column = whole(table[name])
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        found[name] = np.asarray(column) if is_number and not column.null_count else column
    return found


_KINDS = (
    (pa.types.is_boolean, BOOL),
    (pa.types.is_integer, INT),
    (pa.types.is_floating, FLOAT),
    (pa.types.is_decimal, FLOAT),
    (pa.types.is_string, TEXT),
    (pa.types.is_large_string, TEXT),
    (pa.types.is_timestamp, TIME),
    (pa.types.is_date, TIME),
    (pa.types.is_null, TEXT),
)


def type_of(of: pa.DataType) -> Type:
    """Return the type of a column. A column of nulls alone is text. Raises QueryError Q703 for a type that queries do not have."""
    if pa.types.is_dictionary(of):
        return type_of(of.value_type)
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return list_of(type_of(of.value_type))
    if pa.types.is_struct(of):
        return record(*((field.name, type_of(field.type)) for field in of))
    found = next((kind for holds, kind in _KINDS if holds(of)), NULL)
    if found == NULL:
        raise QueryError.of(
            "Q703", f"values of type {of} cannot be queried", "Write them as text or numbers."
        )
    return found


def schema_of(schema: pa.Schema) -> Schema:
    """Return the columns of a table. Raises QueryError Q703, with the name of the column."""
    fields = []
    for field in schema:
        try:
            fields.append((field.name, type_of(field.type)))
        except QueryError as error:
            raise QueryError.of("Q703", f"column {field.name!r}: {error.problem}", error.remedy) from None
    return Schema(tuple(fields))


def fitted(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table with just the columns of a schema, and its types. Raises QueryError Q703 for values that do not fit."""
    try:
        return table.select(list(schema.names)).cast(arrow_schema(schema))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise QueryError.of("Q703", f"the rows do not fit ({schema}): {str(error).splitlines()[0]}") from None


def data_of(of: Type) -> Any:
    """Return a type as plain data: its name, or a list of its name and its parts.

    >>> data_of(list_of(record(("n", INT))))
    ['list', ['record', ['n', 'int64']]]
    """
    if of.of is not None:
        return [of.kind, data_of(of.of)]
    if of.kind == "record":
        return ["record", *([name, data_of(one)] for name, one in of.fields)]
    return of.kind


def of_data(data: Any) -> Type:
    """Return the type from the result of `data_of`."""
    if isinstance(data, str):
        return Type(data)
    kind, *parts = data
    if kind == "record":
        return record(*((name, of_data(one)) for name, one in parts))
    return Type(kind, of_data(parts[0]))
