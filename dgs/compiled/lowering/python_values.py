"""States as scalars, and back: the types of Python values and the scalars that they consist of.

>>> type_of((3, None)), to_scalars((3, None), tuple_of(INT, optional(FLOAT)))
((int, None), (3, False, 0.0))
>>> to_python(iter((3, False, 0.0)), tuple_of(INT, optional(FLOAT)))
(3, None)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dgs.compiled.lowering.value_types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    DoesNotFit,
    Refused,
    Type,
    defaults_of,
    is_frozen,
    is_named_tuple,
    optional,
    scalars_of,
    tuple_of,
)

__all__ = ["fits", "optional", "to_python", "to_scalars", "type_of"]

Scalar = int | float | bool
LEAST, MOST = -(2**63), 2**63 - 1
ZEROS: dict[str, Scalar] = {"i8": 0, "f8": 0.0, "?": False}
_PLAIN = {int: INT, float: FLOAT, bool: BOOL, type(None): NONE}


def fits(number: int) -> bool:
    """Whether an int fits into 64 bits."""
    return LEAST <= number <= MOST


def type_of(value: Any) -> Type:
    """Return the type of a state. Raises Refused if it has none here."""
    of = type(value)
    if of in _PLAIN:
        if of is int and not fits(value):
            raise DoesNotFit("an int of the state does not fit into 64 bits")
        return _PLAIN[of]
    if of is tuple or is_named_tuple(of):
        return tuple_of(*map(type_of, value), of=None if of is tuple else of)
    if is_frozen(of):
        return tuple_of(*(type_of(getattr(value, name)) for name in defaults_of(of)), of=of)
    raise Refused(
        f"a state with a value of type {of.__name__} is not compiled: tuples, NamedTuples and frozen dataclasses are"
    )


def to_scalars(value: Any, of: Type) -> tuple[Scalar, ...]:
    """Return the scalars of a value as one of a type that its own type joins to."""
    if of.is_optional:
        if value is None:
            return tuple(ZEROS[scalar] for scalar in scalars_of(of))
        return (True, *to_scalars(value, of.parts[0]))
    if of.name in ("tuple", "fields"):
        parts = value if of.name == "tuple" else [getattr(value, name) for name in of.names]
        pairs = zip(parts, of.parts, strict=True)
        return tuple(scalar for one, part in pairs for scalar in to_scalars(one, part))
    return () if of == NONE else (value,)


def to_python(scalars: Iterator[Scalar], of: Type) -> Any:
    """Return the Python value that scalars stand for; takes as many from the iterator as the type has."""
    if of.is_optional:
        is_there = next(scalars)
        value = to_python(scalars, of.parts[0])
        return value if is_there else None
    if of.name in ("tuple", "fields"):
        parts = tuple(to_python(scalars, part) for part in of.parts)
        return parts if of.of is None else of.of(*parts)
    return None if of == NONE else next(scalars)
