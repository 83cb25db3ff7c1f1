"""Columns with types that Spark can read. All epochs and hosts write files of one table, each without knowing the others.

A column of nulls alone has no type, and Spark would give it one that differs from other files. So it is left out, and reads as
null. The same goes for a column of empty lists. Spark has times to the microsecond; finer ones are cut off.

>>> readable(pa.table({"page": ["home"], "info": [None], "at": pa.array([1500], pa.timestamp("ns"))})).schema
page: string
at: timestamp[us]
>>> readable(pa.table({"value": [None, None]})).schema
value: string
"""

from __future__ import annotations

import pyarrow as pa


def readable(table: pa.Table) -> pa.Table:
    """Return the table with types that Spark reads. It has at least one column."""
    types = {field.name: _readable(field.type) for field in table.schema}
    kept = {name: kind for name, kind in types.items() if kind is not None}
    if not kept:
        kept = {table.column_names[0]: pa.string()}
    columns = [
        table.column(name) if table.column(name).type == kind else _cast(table.column(name), kind)
        for name, kind in kept.items()
    ]
    return pa.table(columns, names=list(kept))


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return (
        pa.chunked_array([pa.nulls(len(column), kind)])
        if column.null_count == len(column)
        else column.cast(kind, safe=False)
    )


def _readable(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that Spark reads in place of this one, None if there are no values to read."""
    if pa.types.is_dictionary(kind):
        return _readable(kind.value_type)
    if pa.types.is_struct(kind):
        fields = [(field.name, _readable(field.type)) for field in kind]
        kept = [(name, part) for name, part in fields if part is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind):
        item = _readable(kind.value_type)
        return None if item is None else pa.list_(item)
    return _readable_plain(kind)


def _readable_plain(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.float32() if pa.types.is_float16(kind) else kind
