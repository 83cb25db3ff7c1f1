"""The types of the columns of lake tables, which Delta and Iceberg share.

>>> of_lakes(pa.table({"n": pa.array([1], pa.uint8()), "none": [None]})).schema
n: int64
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from dgs.errors import InvalidError
from dgs.workers.sinks.formats.arrow_tables import VALUE, text_of
from dgs.workers.sinks.formats.identified import TEXTS

TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "datetime": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "bytes": pa.binary(),
}
"""The types that `columns` of a sink may give."""


class ColumnTypeError(InvalidError):
    """Values do not fit the type that a column of a table has."""

    code = "DGS318"
    template = "column {column!r} of {table} is {there}, and outputs have {found}: {problem}"
    fix = "Give the column its type under the sink's `columns`, as in `columns: {{{column}: str}}`, and begin with `--fresh`"


class SameNameError(InvalidError):
    """Two columns have names that differ only in case."""

    code = "DGS319"
    template = "outputs have the columns {one!r} and {other!r}, which engines that read {table} take for one"
    fix = "Give one of them another name in the program; those that identify outputs have theirs under the sink's `identity`"


class PartitionsDifferError(InvalidError):
    """A table is partitioned by other columns than the sink's."""

    code = "DGS580"
    template = "{table} is partitioned by {there}, and the sink says {wanted}"
    fix = "Say the same columns under the sink's `partition_by`, or write to another table"


def shown(columns: Sequence[str]) -> str:
    """Return the names of columns as text."""
    return ", ".join(columns) or "nothing"


def check_distinct(schema: pa.Schema, *, table: str) -> None:
    """Raise SameNameError if names of columns differ only in case: Spark and Delta ignore case."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SameNameError(one=other, other=name, table=table)


def of_lakes(table: pa.Table) -> pa.Table:
    """Return the table in the types that Delta and Iceberg share. A column of nulls alone is left out, as it has no type."""
    kinds = {field.name: _shared(field.type) for field in table.schema}
    columns = {
        name: table.column(name).cast(kind, safe=not pa.types.is_temporal(kind))
        for name, kind in kinds.items()
        if kind is not None
    }
    return pa.table(columns)


def declared_schema(identity: Iterable[tuple[str, str]], columns: Mapping[str, str]) -> pa.Schema:
    """Return the columns that are known before there are outputs: (part, name) of the identity, and declared ones."""
    known = [(name, pa.string() if part in TEXTS else pa.int64()) for part, name in identity]
    known += [(name, TYPES[kind]) for name, kind in columns.items()]
    return pa.schema(known or [(VALUE, pa.string())])


def merged(schema: pa.Schema, new: pa.Schema, *, is_new: bool) -> pa.Schema:
    """Return the columns of a table and of a file, new ones at the end. If the table `is_new`, the types of its columns may still widen."""
    there = {field.name: field.type for field in schema}
    for field in new:
        kind = there.setdefault(field.name, field.type)
        if is_new and kind != field.type:
            numbers = {kind, field.type} == {pa.int64(), pa.float64()}
            there[field.name] = pa.float64() if numbers else pa.string()
    return pa.schema(list(there.items()))


def fitted_to(table: pa.Table, schema: pa.Schema, *, name: str) -> pa.Table:
    """Return the table with the types of the columns that `schema` has. Raises ColumnTypeError if a value does not fit."""
    there = {field.name: field.type for field in schema}
    columns = {}
    for field in table.schema:
        column, kind = table.column(field.name), there.get(field.name, field.type)
        try:
            columns[field.name] = _cast(column, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _differs(field.name, kind, field.type, name, str(error).splitlines()[0]) from None
    return pa.table(columns)


def with_columns(table: pa.Table, schema: pa.Schema, names: Iterable[str]) -> pa.Table:
    """Return the table with the columns `names` of a schema: those that it lacks are nulls."""
    for name in names:
        if name not in table.column_names:
            table = table.append_column(schema.field(name), pa.nulls(len(table), schema.field(name).type))
    return table


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_string(kind):
        texts = [None if value is None else text_of(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_string(column.type) and not pa.types.is_temporal(kind):
        raise pa.ArrowInvalid("text is not parsed")
    return column.cast(kind)


def _differs(
    column: str, there: pa.DataType, found: pa.DataType, table: str, problem: str
) -> ColumnTypeError:
    return ColumnTypeError(column=column, table=table, there=str(there), found=str(found), problem=problem)


def _shared(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that both formats have in place of this one, None for a type without values."""
    if pa.types.is_dictionary(kind):
        return _shared(kind.value_type)
    if pa.types.is_struct(kind):
        fields = [(field.name, _shared(field.type)) for field in kind]
        kept = [(name, part) for name, part in fields if part is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = _shared(kind.value_type)
        return None if item is None else pa.list_(item)
    for holds, shared in _SHARED:
        if holds(kind):
            return shared
    return pa.timestamp("us", kind.tz and "UTC") if pa.types.is_timestamp(kind) else kind


_SHARED = (
    (pa.types.is_null, None),
    (pa.types.is_uint64, pa.decimal128(20)),
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_floating, pa.float64()),
    (lambda kind: pa.types.is_large_string(kind) or pa.types.is_string_view(kind), pa.string()),
    (lambda kind: pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind), pa.binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.string()),
    (pa.types.is_duration, pa.int64()),
)
