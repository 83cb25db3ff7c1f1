"""Queries as data that the codec carries, and back: nodes by name with their fields, scalars as sqlglot writes them.

Places in the text are left out, since they do not count for equality.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sqlglot import exp

from dgs.errors import CodecError
from dgs.query import aggregates, relation, types
from dgs.query.compact.payloads import Weight
from dgs.query.scalar import Nested

_CLASSES: dict[str, type] = {
    one.__name__: one
    for one in (
        relation.Source, relation.Map, relation.Where, relation.Expand, relation.Union, relation.Join, relation.Group,
        relation.Order, relation.Window, relation.Repeat, relation.Key, relation.Script, types.Schema, types.Type,
        aggregates.Aggregate, aggregates.UserAggregation, Weight,
    )
}  # fmt: skip


def data_of(value: Any) -> Any:
    """Return a query, or an option of one, as data. Raises CodecError for a scalar that contains a query."""
    if isinstance(value, exp.Expression):
        if value.find(Nested) is not None:
            raise CodecError(problem="a scalar that holds a query has no form as data")
        return ["scalar", value.dump()]
    if is_dataclass(value) and type(value).__name__ in _CLASSES:
        given = {one.name: getattr(value, one.name) for one in fields(value) if one.name != "span"}
        return ["node", type(value).__name__, {name: data_of(one) for name, one in given.items()}]
    if isinstance(value, (tuple, list)):
        return ["several", type(value) is tuple, [data_of(one) for one in value]]
    if isinstance(value, dict):
        return ["named", {name: data_of(one) for name, one in value.items()}]
    return ["value", value]


def from_data(data: Any) -> Any:
    """Return the query or option from the result of `data_of`."""
    form, *content = data
    if form == "scalar":
        return exp.Expression.load(content[0])
    if form == "node":
        name, given = content
        return _CLASSES[name](**{field: from_data(one) for field, one in given.items()})
    if form == "several":
        is_tuple, items = content
        made = [from_data(one) for one in items]
        return tuple(made) if is_tuple else made
    if form == "named":
        return {name: from_data(one) for name, one in content[0].items()}
    return content[0]
