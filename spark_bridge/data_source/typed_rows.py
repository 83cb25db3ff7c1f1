"""States and positions of checkpoints as typed columns, if their JSON has one type in all epochs of a run.

>>> kind_of('{"ann":3,"bob":4}'), kind_of('{"total":1,"mean":0.5}'), kind_of("[1,2]")
(MapType(map<string, int64>), StructType(struct<total: int64, mean: double>), DataType(string))
>>> typed(pa.table({"state": ['{"ann":3}']}), pa.schema([("state", kind_of('{"ann":3}'))]))["state"].to_pylist()
[[('ann', 3)]]
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

POSITIONS = pa.map_(
    pa.string(),
    pa.list_(
        pa.struct(
            [
                ("tags", pa.string()),
                ("split", pa.int64()),
                ("ts", pa.int64()),
                ("seq", pa.int64()),
                ("ended", pa.bool_()),
            ]
        )
    ),
)
"""For each stream: tags, their split, and the ts and seq below which all their events are in the state."""

MOST_FIELDS = 100
"""The most fields of a record that becomes a struct."""

_SCALARS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def kind_of(state: str | None) -> pa.DataType:
    """Return the type of a state that is given as JSON; the type of text if it stays JSON.

    A number or a truth value has its own type. A record whose values have one type is a map, since its keys may change from one epoch
    to the next; another record of scalars is a struct.
    """
    value = None if state is None else json.loads(state)
    if not isinstance(value, dict):
        return pa.string() if isinstance(value, str) else _scalar(value) or pa.string()
    kinds = {name: _scalar(part) for name, part in value.items()}
    if not kinds or any(kind is None for kind in kinds.values()):
        return pa.string()
    if len(set(kinds.values())) == 1:
        return pa.map_(pa.string(), next(iter(kinds.values())))
    return pa.struct(list(kinds.items())) if len(kinds) <= MOST_FIELDS else pa.string()


def typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, of rows in which states and positions are JSON. A state that does not fit its type is null."""
    return pa.table({field.name: _column(rows.column(field.name), field.type) for field in schema})


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type) or pa.types.is_string(kind):
        return column.cast(kind)
    return pa.chunked_array([pa.array([_fitted(text, kind)], kind) for text in column.to_pylist()], kind)


def _fitted(text: str | None, kind: pa.DataType) -> Any:
    value = None if text is None else json.loads(text)
    if not _fits(value, kind):
        return None
    return list(value.items()) if pa.types.is_map(kind) and value is not None else value


def _fits(value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if pa.types.is_map(kind):
        return isinstance(value, dict) and all(_fits(item, kind.item_type) for item in value.values())
    if pa.types.is_struct(kind):
        names = {field.name for field in kind}
        return (
            isinstance(value, dict)
            and value.keys() == names
            and all(_fits(value[field.name], field.type) for field in kind)
        )
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_fits(item, kind.value_type) for item in value)
    return _scalar(value) == kind or (type(value) is int and pa.types.is_floating(kind))


def _scalar(value: Any) -> pa.DataType | None:
    if type(value) is int and not -(2**63) <= value < 2**63:
        return None
    return _SCALARS.get(type(value))
