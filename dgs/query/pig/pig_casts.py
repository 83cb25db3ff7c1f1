"""Casts between Pig types: those that a script asks for, and those that a bytearray undergoes where it meets another type."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dgs.query.errors import QueryError
from dgs.query.pig.pig_scope import Value
from dgs.query.pig.pig_types import BOOLEAN, BYTEARRAY, DOUBLE, NULL, NUMBERS, PigType
from dgs.query.scalar import Scalar, call, literal

SIMPLE = (*NUMBERS, "chararray", "bytearray", "boolean", "datetime", "null")


def as_number(value: Value) -> Value:
    """Return a value for arithmetic: a bytearray as a double. Raises QueryError Q204."""
    if value.type == BYTEARRAY:
        return as_type(value, DOUBLE)
    if value.type.is_number or value.type == NULL:
        return value
    raise QueryError.of("Q204", f"a number is needed here, and this is {value.type}", "Cast it: (double) ...")


def as_type(value: Value, wanted: PigType, *, is_asked: bool = False) -> Value:
    """Return a value as another type; null where a text does not fit. Only bytearrays become another type unasked.

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
    """Return values as the one type that all fit. Raises QueryError Q204."""
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
