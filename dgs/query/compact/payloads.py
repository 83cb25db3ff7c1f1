"""Payloads of events as rows of a stream, with their weights: one event for the interpreter, a batch as an Arrow table.

>>> from dgs.query.types import INT, TEXT, Schema
>>> weight = Weight("op", insert="I", delete="D")
>>> weighted_row({"k": 1, "op": "D"}, Schema.of(k=INT), weight, 1)
(1, -1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.model import columns
from dgs.model.columns import Column
from dgs.query.compact.arrow_rows import arrow_type
from dgs.query.errors import QueryError
from dgs.query.evaluate import rows_of
from dgs.query.scalar import Row
from dgs.query.split import WEIGHT
from dgs.query.types import Schema


@dataclass(frozen=True, slots=True)
class Weight:
    """The column that says whether a row is inserted or deleted, and by which values. Other values are Q703."""

    column: str
    insert: Any = 1
    delete: Any = -1

    def of(self, value: Any) -> int:
        """Return the weight of a value of the column."""
        if value == self.insert:
            return 1
        if value == self.delete:
            return -1
        problem = f"{self.column} is {value!r}, neither {self.insert!r} nor {self.delete!r}"
        raise QueryError.of("Q703", problem, column=self.column)


def weighted_row(payload: Any, schema: Schema, weight: Weight | None, sign: int) -> Row:
    """Return the row of an event, with its weight as the last value. Raises QueryError Q703."""
    record = _mapping(payload, schema)
    if weight is not None:
        sign *= weight.of(record.get(weight.column))
    (row,) = rows_of([record], schema)
    return (*row, sign)


def _mapping(payload: Any, schema: Schema) -> Mapping[str, Any]:
    if isinstance(payload, Mapping):
        return payload
    if len(schema) == 1:
        return {schema.names[0]: payload}
    raise QueryError.of("Q703", f"{payload!r} is no record of {', '.join(schema.names)}")


def weighted_table(payload: Column, count: int, schema: Schema, weight: Weight | None, sign: int) -> pa.Table:
    """Return the rows of a batch as a table, with the column `$w`. Raises QueryError Q703."""
    given = _by_name(payload, schema, weight)
    arrays, names = [], []
    for name, of in schema.fields:
        wanted = arrow_type(of)
        arrays.append(_array(given.get(name), wanted, name, count))
        names.append(name)
    signs = np.full(count, sign, dtype=np.int64)
    if weight is not None:
        listed = given.get(weight.column, [None] * count)
        signs *= np.array([weight.of(one) for one in columns.to_list(listed)], dtype=np.int64)
    return pa.table([*arrays, pa.array(signs)], names=[*names, WEIGHT])


def _by_name(payload: Column, schema: Schema, weight: Weight | None) -> dict[str, Any]:
    if isinstance(payload, dict):
        return payload
    values = columns.to_list(payload)
    if values and not isinstance(values[0], Mapping):
        values = [_mapping(one, schema) for one in values]
    names = [*schema.names, *([weight.column] if weight else [])]
    return {name: [one.get(name) for one in values] for name in names}


def _array(given: Any, wanted: pa.DataType, name: str, count: int) -> pa.Array:
    if given is None:
        return pa.nulls(count, wanted)
    try:
        made = given if isinstance(given, (pa.Array, pa.ChunkedArray)) else pa.array(given)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if pa.types.is_dictionary(made.type):
            made = made.dictionary_decode()
        if made.type == wanted:
            found = made
        elif pa.types.is_null(made.type) or _is_widened(made.type, wanted):
            found = made.cast(wanted)
        else:
            found = pa.array(made.to_pylist(), wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise QueryError.of("Q703", f"column {name!r}: {error}", column=name) from None
    return pc.add(found, 0.0) if pa.types.is_floating(wanted) else found  # 0.0 makes a negative zero positive


def _is_widened(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_floating(wanted) or types.is_integer(wanted):
        is_float = types.is_floating(given) and types.is_floating(wanted)
        return bool(types.is_integer(given) or is_float)
    is_text = types.is_large_string(given) and types.is_string(wanted)
    return bool(is_text or (types.is_timestamp(given) and types.is_timestamp(wanted)))
