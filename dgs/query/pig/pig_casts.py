"""Pig values as scalars: casts between types, tuples as records, and queries over the items of a bag.

A cast is written in the script, or a bytearray meets another type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dgs.query.errors import QueryError
from dgs.query.pig.pig_scope import Value
from dgs.query.pig.pig_types import BOOLEAN, BYTEARRAY, DOUBLE, NULL, NUMBERS, PigField, PigType, columns
from dgs.query.relation import Aggregate, Group, Relation, Source
from dgs.query.scalar import ITEMS, Nested, Scalar, call, column, field, literal, struct
from dgs.query.types import Schema

SIMPLE = (*NUMBERS, "chararray", "bytearray", "boolean", "datetime", "null")


def as_number(value: Value) -> Value:
    """Return a value for arithmetic: a bytearray as a double. Raises QueryError Q204."""
    if value.type == BYTEARRAY:
        return as_type(value, DOUBLE)
    if value.type.is_number or value.type == NULL:
        return value
    raise QueryError.of("Q204", f"a number is needed here, and this is {value.type}", "Cast it: (double) ...")


def as_type(value: Value, wanted: PigType, *, is_asked: bool = False) -> Value:
    """Return a value as another type; null if a text does not fit. Only bytearrays are cast implicitly.

    Raises QueryError Q204.
    """
    given = value.type
    if given in (wanted, NULL) or value.type.stored == wanted.stored:
        return Value(value.scalar, wanted)
    is_simple = given.name in SIMPLE and wanted.name in SIMPLE
    is_free = given == BYTEARRAY or (given.is_number and wanted.is_number)
    if not is_simple or not (is_asked or is_free):
        raise QueryError.of(
            "Q204", f"{wanted} is needed here, and this is {given}", f"Cast it: ({wanted.name}) ..."
        )
    return Value(_converted(value, wanted), wanted)


def _converted(value: Value, wanted: PigType) -> Scalar:
    is_text = value.type.name in ("chararray", "bytearray")
    if wanted.name in ("int", "long"):
        if value.type == BOOLEAN:
            raise QueryError.of("Q204", f"a boolean cannot be {wanted}")
        return call("text_to_int" if is_text else "truncate", value.scalar)
    if wanted.name in ("float", "double"):
        return call("text_to_float", value.scalar) if is_text else call("mul", value.scalar, literal(1.0))
    if wanted.name == "boolean" and is_text:
        return call("text_to_bool", value.scalar)
    if wanted.name == "chararray":
        return exp.cast(value.scalar, "text")
    raise QueryError.of("Q204", f"{value.type} cannot be {wanted}")


def met(values: Sequence[Value]) -> list[Value]:
    """Return values as a common type. Raises QueryError Q204."""
    kinds = [one.type for one in values if one.type != NULL]
    firm = [one for one in kinds if one != BYTEARRAY] or kinds
    if not firm:
        return list(values)
    if all(one.is_number for one in firm):
        wanted = max(firm, key=lambda one: NUMBERS.index(one.name))
    else:
        wanted = firm[0]
        other = next((one for one in firm if one.stored != wanted.stored), None)
        if other is not None:
            remedy = f"Cast one of them: ({other.name if other.is_number else wanted.name}) ..."
            raise QueryError.of("Q204", f"{wanted} and {other} cannot be compared", remedy)
    return [one if one.type.stored == wanted.stored else as_type(one, wanted) for one in values]


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
    """Return the bag of the rows of a query over the items of another bag."""
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
