"""Tuples and bags as scalars: records, and queries over the items of a bag."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dgs.query.errors import QueryError
from dgs.query.pig.pig_scope import Value
from dgs.query.pig.pig_types import PigField, PigType, columns
from dgs.query.relation import Aggregate, Group, Relation, Source
from dgs.query.scalar import ITEMS, Nested, Scalar, call, column, field, literal, struct
from dgs.query.types import Schema

ITEM = "item"
"""The column of the items of a bare bag."""

Query = Callable[[Relation, tuple[str, ...]], Relation]
"""From the source of a bag's items, and the columns of its fields, to a query over them."""


def record_of(parts: Sequence[tuple[str | None, Value]]) -> Value:
    """Return the tuple of named values."""
    fields = tuple(PigField(name, value.type) for name, value in parts)
    made = {name: value.scalar for name, (_, value) in zip(columns(fields), parts, strict=True)}
    return Value(struct(**made), PigType("tuple", fields))


def items_of(bag: Value) -> tuple[Source, tuple[str, ...]]:
    """Return the source of the items of a bag, and the columns of its fields. Raises QueryError Q204."""
    if bag.type.name != "bag":
        raise QueryError.of("Q204", f"a bag is needed here, and this is {bag.type}")
    names = (ITEM,) if bag.type.is_bare else columns(bag.type.inside)
    types = (one.type.stored for one in bag.type.inside)
    return Source(ITEMS, Schema(tuple(zip(names, types, strict=True))), changes=False), names


def over_items(bag: Value, fields: Sequence[PigField], query: Query) -> Value:
    """Return the bag of the rows that a query makes of the items of another bag."""
    source, names = items_of(bag)
    return Value(Nested(this=bag.scalar, query=query(source, names)), PigType("bag", tuple(fields)))


def aggregated(bag: Value, function: str, argument: Callable[[Scalar], Scalar] | None = None) -> Scalar:
    """Return an aggregate of the first field of a bag's tuples; null of no bag."""
    source, names = items_of(bag)
    first = column(names[0])
    arguments = (first,) if argument is None else (argument(first),)
    query = Group(source, (), (("value", Aggregate(function, arguments)),))
    rows = Nested(this=bag.scalar, query=query)
    return field(call("list_extract", rows, literal(1)), "value")


def counted(bag: Value) -> Scalar:
    """Return the number of a bag's tuples, nulls or not."""
    return call("array_size", bag.scalar)
