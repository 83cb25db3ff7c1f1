"""Types of queries for columns of Arrow, as files and data frames have them.

>>> print(schema_of(pa.schema([("n", pa.int32()), ("at", pa.date32()), ("l", pa.list_(pa.float32()))])))
n int64, at time, l list<float64>
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dgs.query.compact.arrow_rows import arrow_schema
from dgs.query.errors import QueryError
from dgs.query.types import BOOL, FLOAT, INT, NULL, TEXT, TIME, Schema, Type, list_of, record

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
    """Return the type of a column. A column of nulls alone is text. Raises QueryError Q703 for one that queries do not have."""
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
    """Return the type of what `data_of` gave."""
    if isinstance(data, str):
        return Type(data)
    kind, *parts = data
    if kind == "record":
        return record(*((name, of_data(one)) for name, one in parts))
    return Type(kind, of_data(parts[0]))
