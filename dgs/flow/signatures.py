"""What the annotations of a user's function say: the types it takes and gives, and how many arguments it takes.

>>> def lengths(key: str, line: str) -> list[int]: return [len(line)]
>>> signature_of(lengths).takes, signature_of(lengths).item, signature_of(lambda key, value: value).gives
((<class 'str'>, <class 'str'>), <class 'int'>, typing.Any)
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

_PAIR = 2
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Signature:
    """The types a function takes and gives, Any where it says nothing, and the least and greatest number of arguments."""

    takes: tuple[Any, ...] = ()
    gives: Any = Any
    least: int | None = None
    most: int = MANY

    @property
    def count(self) -> str:
        """The number of arguments, for people."""
        number = self.least or 0
        return f"{number} argument{'s' if number != 1 else ''}"

    @property
    def item(self) -> Any:
        """The type of the values in the collection it gives."""
        parts = get_args(self.gives)
        return parts[0] if parts and get_origin(self.gives) is not dict else Any

    @property
    def pair(self) -> tuple[Any, Any]:
        """The types of the pair it gives."""
        parts = get_args(self.gives)
        return (parts[0], parts[1]) if len(parts) == _PAIR and get_origin(self.gives) is tuple else (Any, Any)


def signature_of(function: Any) -> Signature:
    """Return the signature of a function; an empty one where Python cannot say."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # not callable, or written in C
        return Signature()
    try:
        hints = get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # names that are known elsewhere only
        hints = {}
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    least = sum(1 for one in by_place if one.default is one.empty)
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    takes = tuple(hints.get(one.name, Any) for one in by_place)
    return Signature(takes, hints.get("return", Any), least, MANY if is_open else len(by_place))
