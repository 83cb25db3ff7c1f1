"""States as scalars, and back: the types of Python values and the scalars that they consist of.

>>> type_of((3, None)), flat(tuple_of(INT, optional(FLOAT))).scalars((3, None))
((int, None), (3, False, 0.0))
>>> flat(tuple_of(INT, optional(FLOAT))).value(3, False, 0.0)
(3, None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from dgs.compiled.lowering.value_types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    UNSEEN,
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

__all__ = ["Flat", "fits", "flat", "optional", "type_of"]

Scalar = int | float | bool
LEAST, MOST = -(2**63), 2**63 - 1
ZEROS: dict[str, Scalar] = {"i8": 0, "f8": 0.0, "?": False}
_PLAIN = {int: INT, float: FLOAT, bool: BOOL, type(None): NONE}
_CLASSES = {INT: int, FLOAT: float, BOOL: bool}


def fits(number: int) -> bool:
    """Return whether an int fits into 64 bits."""
    return LEAST <= number <= MOST


def type_of(value: Any) -> Type:
    """Return the type of a state. Raises Refused if compiled code has no such type."""
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


class Flat(NamedTuple):
    """Values of a type as scalars. `scalars`: converts a value, None if it is not of the type. `value`: converts scalars back."""

    scalars: Callable[[Any], tuple[Scalar, ...] | None]
    value: Callable[..., Any]


@lru_cache(maxsize=256)
def flat(of: Type) -> Flat:
    """Return the two functions of a type. Their code is generated, since they run for each batch. Raises Refused."""
    text = _Text()
    text.take_apart(of, "value", "    ")
    names = iter(text.names)
    value = text.together(of, names)
    lines = [
        "def scalars(value):",
        *text.lines,
        f"    return ({', '.join(text.names)}{',' * bool(text.names)})",
    ]
    lines += [f"def value({', '.join(text.names)}):", f"    return {value}"]
    try:
        exec("\n".join(lines), text.classes)  # noqa: S102 - a text that follows from a type, never from data
    except (SyntaxError, RecursionError, MemoryError):
        raise Refused("the state has too many values inside each other") from None
    return Flat(text.classes["scalars"], text.classes["value"])


class _Text:
    """The text of the functions of a type. `names`: of its scalars. `classes`: by the names that they have in the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []
        self.classes: dict[str, Any] = {}
        self._count = 0

    def take_apart(self, of: Type, value: str, pad: str) -> None:
        """Add the lines that convert a value to scalars; they leave the function if it is not of the type."""
        if of.is_optional:
            there, before = self._new(), len(self.names) + 1
            self.names.append(there)
            self.lines += [f"{pad}{there} = {value} is not None", f"{pad}if {there}:"]
            self.take_apart(of.parts[0], value, pad + " ")
            zeros = [ZEROS[scalar] for scalar in scalars_of(of.parts[0])]
            pairs = zip(self.names[before:], zeros, strict=True)
            self.lines += [f"{pad} pass", f"{pad}else:", f"{pad} pass"]
            self.lines += [f"{pad} {name} = {zero!r}" for name, zero in pairs]
        elif of.name in ("tuple", "fields"):
            self._take_parts_apart(of, value, pad)
        elif of == NONE:
            self.lines.append(f"{pad}if {value} is not None: return None")
        elif of == UNSEEN:
            self.lines.append(f"{pad}return None")
        elif of not in _CLASSES:
            raise Refused("the state has parts that are only passed on")
        else:
            range_of = f" or not {LEAST} <= {value} <= {MOST}" if of == INT else ""
            self.lines.append(
                f"{pad}if type({value}) is not {self._class(_CLASSES[of])}{range_of}: return None"
            )
            self.names.append(scalar := self._new())
            self.lines.append(f"{pad}{scalar} = {value}")

    def _take_parts_apart(self, of: Type, value: str, pad: str) -> None:
        parts = [self._new() for _ in of.parts]
        made_by = self._class(of.of or tuple)
        if of.name == "fields":
            self.lines.append(f"{pad}if type({value}) is not {made_by}: return None")
            self.lines += [
                f"{pad}{part} = {value}.{name}" for part, name in zip(parts, of.names, strict=True)
            ]
        else:
            self.lines.append(
                f"{pad}if type({value}) is not {made_by} or len({value}) != {len(parts)}: return None"
            )
            self.lines += [f"{pad}{', '.join(parts)}, = {value}"] if parts else []
        for part, name in zip(of.parts, parts, strict=True):
            self.take_apart(part, name, pad)

    def together(self, of: Type, names: Iterator[str]) -> str:
        """Return the expression that makes a value of scalars with these names."""
        if of.is_optional:
            there = next(names)
            return f"({self.together(of.parts[0], names)} if {there} else None)"
        if of.name in ("tuple", "fields"):
            parts = "".join(f"{self.together(part, names)}, " for part in of.parts)
            return f"{self._class(of.of)}({parts})" if of.of else f"({parts})"
        return "None" if of in (NONE, UNSEEN) else next(names)

    def _new(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _class(self, of: type) -> str:
        name = next((name for name, one in self.classes.items() if one is of), f"C{len(self.classes)}")
        self.classes[name] = of
        return name
