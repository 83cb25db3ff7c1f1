"""Values while an update is lowered: their type, the text of their scalars, and other known facts."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dgs.compiled.lowering.python_values import fits
from dgs.compiled.lowering.value_types import (
    BOOL,
    FLOAT,
    INT,
    KEPT,
    NONE,
    PYTHON,
    TEXT,
    UNSEEN,
    Refused,
    Type,
    has_form,
    is_named_tuple,
    scalars_of,
    tuple_of,
)

UNKNOWN = object()
"""In place of a constant: the value is not known when the program is compiled."""
NO_OBJECT = "i64(-1)"
"""The number of None among kept objects."""
ZEROS = {"i8": "i64(0)", "f8": "0.0", "?": "False"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an expression.

    `scalars`: the texts of its scalars, for a value without parts. `parts`: of a tuple or a record. `constant`: its Python value, if it is
    known. `origin`: the input that it is, unchanged: ("payload",), ("field", name), ("ts",) or ("key",).
    """

    type: Type
    scalars: tuple[str, ...] = ()
    parts: tuple[Value, ...] = ()
    constant: Any = UNKNOWN
    origin: tuple[str, ...] | None = None

    @property
    def is_known(self) -> bool:
        """Whether its Python value is known."""
        return self.constant is not UNKNOWN

    @property
    def flat(self) -> tuple[str, ...]:
        """The texts of all its scalars, those of its parts too."""
        return self.scalars + tuple(text for part in self.parts for text in part.flat)

    def is_same(self, other: Value) -> bool:
        """Return whether it certainly equals another value. Equal constants may differ in type, like a kind and its name."""
        are_alike = self == other and type(self.constant) is type(other.constant)
        return are_alike and all(one.is_same(part) for one, part in zip(self.parts, other.parts, strict=True))


NOTHING = Value(NONE, constant=None)
NEVER = Value(UNSEEN)
"""The value of an expression that always raises."""


def constant(value: Any, node: ast.AST | None = None) -> Value:  # noqa: PLR0911 - one for each type
    """Return a known value. Raises Refused if compiled code has no form for it."""
    if value is None:
        return NOTHING
    of = type(value)
    if of is bool:
        return Value(BOOL, (repr(value),), constant=value)
    if of is int:
        if not fits(value):
            raise Refused("an int that does not fit into 64 bits is not compiled", node)
        return Value(INT, (f"i64({value})",), constant=value)
    if of is float:
        if math.isnan(value):
            raise Refused("a constant NaN is not compiled", node)
        text = repr(value) if math.isfinite(value) else "INFINITY" if value > 0 else "-INFINITY"
        return Value(FLOAT, (f"({text})",), constant=value)
    if isinstance(value, str):
        return Value(TEXT, constant=value)
    if of is tuple:
        parts = tuple(constant(part, node) for part in value)
        return Value(tuple_of(*(part.type for part in parts)), parts=parts, constant=value)
    if isinstance(value, ModuleType) or is_named_tuple(value) or callable(value):
        return Value(PYTHON, constant=value)
    raise Refused(f"a value of type {of.__name__} is not compiled", node)


def of_texts(of: Type, texts: Iterable[str]) -> Value:
    """Return the value of a type whose scalars have these texts."""
    left = iter(texts)

    def taken(of: Type) -> Value:
        if of.name in ("tuple", "fields", "record"):
            return Value(of, parts=tuple(taken(part) for part in of.parts))
        return NOTHING if of == NONE else Value(of, tuple(next(left) for _ in scalars_of(of)))

    return taken(of)


def inner(value: Value) -> Value:
    """Return an optional value that is known not to be None."""
    return of_texts(value.type.parts[0], value.scalars[1:])


def as_type(value: Value, of: Type, node: ast.AST | None = None) -> tuple[str, ...]:
    """Return the texts of the scalars of a value, converted to a type that its type joins to."""
    if not has_form(of):
        raise Refused(f"{value.type!r} is to be kept or computed with, and it can only be passed on", node)
    if value.type == of:
        return value.flat
    if of == KEPT:
        if value.type != NONE:
            raise Refused(f"{value.type!r} where a kept object is expected", node)
        return (NO_OBJECT,)
    if of.is_optional:
        if value.type == NONE:
            return tuple(ZEROS[scalar] for scalar in scalars_of(of))
        if value.type.is_optional:
            return (value.scalars[0], *as_type(inner(value), of.parts[0], node))
        return ("True", *as_type(value, of.parts[0], node))
    if len(value.parts) != len(of.parts):
        raise Refused(f"{value.type!r} where {of!r} is expected", node)
    return tuple(
        text for one, part in zip(value.parts, of.parts, strict=True) for text in as_type(one, part, node)
    )


def tuple_value(parts: Sequence[Value], of: Any = None) -> Value:
    """Return the value of a tuple of parts. `of`: its class, see `tuple_of`."""
    return Value(tuple_of(*(part.type for part in parts), of=of), parts=tuple(parts))


def record_value(names: Sequence[str], parts: Sequence[Value]) -> Value:
    """Return the value of a record."""
    return Value(Type("record", tuple(part.type for part in parts), tuple(names)), parts=tuple(parts))
