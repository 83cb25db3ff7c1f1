"""Types of edges: the order of the items of a block, and the types of key and value. Also the annotations of functions.

`U(K, V)`: the items of a block are a bag. `O(K, V)`: the items of one key are a sequence. O(K, V) fits where U(K, V) is expected, and O((),
V), everything in one order, fits where O(K, V) is expected. Nothing else fits.

>>> ordered, unordered = EdgeType("O", str, int), EdgeType("U", str, int)
>>> str(ordered), str(EdgeType("O", UNIT, str)), difference_of(int, str), difference_of(bool, int)
('O(str, int)', 'O((), str)', 'expected str, found int', None)

Arguments of users are compared with annotations: of the fields of a step, or of the parameters of a function.

>>> from dgs.flow.panes import CountWindow
>>> list(misfits(CountWindow(3, 1, "none", 1)))
[('partial', "'emit' or 'drop'"), ('allow_gaps', 'True or False')]
>>> fits({"a": 1}, dict[str, int]), fits("x", int | None), fits(True, int)
(True, False, False)
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from dgs.flow.mistakes import FlowError, Mistake, checks_call, user_place

Order = Literal["U", "O"]

Given = ParamSpec("Given")
Made = TypeVar("Made")

_PLAIN = (bool, str, types.NoneType)
"""Types whose values are checked in the same way for all steps; other types have a demand of their own."""

UNIT: Any = ()
"""The type of the key of items without a key, which is `()`."""


@dataclass(frozen=True, slots=True)
class EdgeType:
    """The type of an edge. `is_placed`: each item still has the place of its element in the total order of all streams."""

    order: Order
    key: Any
    value: Any
    is_placed: bool = False

    def __str__(self) -> str:
        return f"{self.order}({shown_type(self.key)}, {shown_type(self.value)})"


def shown_type(kind: Any) -> str:
    """Return a type as text.

    >>> shown_type(tuple[str, int]), shown_type(UNIT), shown_type(Any), shown_type(None | int)
    ('tuple[str, int]', '()', 'Any', 'None | int')
    """
    if kind == UNIT:
        return "()"
    if get_args(kind) or not isinstance(kind, type):
        return str(kind).replace("typing.", "")
    return kind.__name__


def fields_of(kind: Any) -> dict[str, Any] | None:
    """Return the fields of a record type: a TypedDict, a dataclass or a named tuple; None for any other."""
    is_named = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"))
    return get_type_hints(kind) if is_typeddict(kind) or is_named else None


def field_of_type(kind: Any, name: str | int | bytes) -> tuple[Any, str | None]:
    """Return the type of a field of values, Any if it is not known, and what to write instead if they certainly have no such field.

    >>> field_of_type(tuple[str, int], 1), field_of_type(tuple[str, int], 2), field_of_type(list[int], "ad")
    ((<class 'int'>, None), (typing.Any, 'an entry from 0 to 1'), (typing.Any, 'the number of an entry'))
    """
    known, outer = fields_of(kind), get_origin(kind) or kind
    keys, is_entry = get_args(kind)[:1], isinstance(name, int)
    if is_no_record(kind):
        return Any, None if is_entry and kind in (str, bytes) else "records"
    if is_entry and isinstance(outer, type) and issubclass(outer, (tuple, list)):
        return _entry_of(kind, int(name))
    if is_sequence(kind):
        return Any, "the number of an entry"
    if outer is dict and keys and difference_of(type(name), keys[0]):
        return Any, f"a field of type {shown_type(keys[0])}"
    has_more = not is_typeddict(kind) and hasattr(kind, "__getitem__" if is_entry else str(name))
    is_known = known is None or name in known or has_more  # for example a property or a method
    return (known or {}).get(str(name), Any), None if is_known else f"one of {', '.join(known or ())}"


def _entry_of(kind: Any, number: int) -> tuple[Any, str | None]:
    """Return the type of an entry of a tuple or a list, and which entries there are if it is not one of them."""
    parts = get_args(kind) if get_origin(kind) is tuple else tuple((fields_of(kind) or {}).values())
    if not parts or ... in parts:
        return Any, None
    is_entry = -len(parts) <= number < len(parts)
    return parts[number] if is_entry else Any, None if is_entry else f"an entry from 0 to {len(parts) - 1}"


def is_no_record(kind: Any) -> bool:
    """Return whether values of a type certainly have no fields."""
    return kind in (int, float, str, bytes, bool)


def is_sequence(kind: Any) -> bool:
    """Return whether values of a type have entries without names.

    >>> is_sequence(tuple[str, int]), is_sequence(dict[str, int])
    (True, False)
    """
    return (get_origin(kind) or kind) in (tuple, list)


def difference_of(found: Any, expected: Any) -> str | None:  # noqa: PLR0911 - one return a form of type
    """Return the first difference between a type and the expected one, None if it fits. Any fits everywhere."""
    if _is_open(found) or _is_open(expected) or found == expected:
        return None
    plain = f"expected {shown_type(expected)}, found {shown_type(found)}"
    if _is_union(found):
        return next((text for one in get_args(found) if (text := difference_of(one, expected))), None)
    if _is_union(expected):
        fitting = any(difference_of(found, one) is None for one in get_args(expected))
        return None if fitting else plain
    if is_typeddict(expected) or (is_typeddict(found) and fields_of(expected) is not None):
        return _difference_of_records(fields_of(found), fields_of(expected) or {}, plain)
    if not _is_subclass(get_origin(found) or found, get_origin(expected) or expected):
        return plain
    inner = zip(get_args(found), get_args(expected), strict=False)
    if len(get_args(found)) != len(get_args(expected)) and get_args(found) and get_args(expected):
        return plain
    return next(
        (text for a, b in inner if a is not ... and b is not ... and (text := difference_of(a, b))), None
    )


def _difference_of_records(found: dict[str, Any] | None, expected: dict[str, Any], plain: str) -> str | None:
    if found is None:
        return plain
    for name, kind in expected.items():
        if name not in found:
            return f"field {name!r} is missing"
        if text := difference_of(found[name], kind):
            return f"field {name!r}: {text}"
    return None


def _is_open(kind: Any) -> bool:
    return kind is Any or isinstance(kind, (TypeVar, str)) or kind is object


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _is_subclass(found: Any, expected: Any) -> bool:
    if UNIT in (found, expected):
        return False
    found, expected = (type(None) if one is None else one for one in (found, expected))
    if not (isinstance(found, type) and isinstance(expected, type)):
        return False
    numbers = {int: (int, bool), float: (float, int, bool)}
    try:
        return found in numbers.get(expected, ()) or issubclass(found, expected)
    except TypeError:  # a type without isinstance checks, such as a TypedDict
        return True


_PAIR = 2
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that a function takes and gives, Any if not annotated, and the least and the greatest number of arguments."""

    takes: tuple[Any, ...] = ()
    gives: Any = Any
    least: int | None = None
    most: int = MANY

    @property
    def count(self) -> str:
        """The number of arguments, as text."""
        number = self.least or 0
        return f"{number} argument{'s' if number != 1 else ''}"

    @property
    def item(self) -> Any:
        """The type of the values in the returned collection."""
        parts = get_args(self.gives)
        return parts[0] if parts and get_origin(self.gives) is not dict else Any

    @property
    def pair(self) -> tuple[Any, Any]:
        """The types of the returned pair."""
        parts = get_args(self.gives)
        return (parts[0], parts[1]) if len(parts) == _PAIR and get_origin(self.gives) is tuple else (Any, Any)


def gives_instead(function: Any) -> str:
    """Return what a call of a function gives in place of its result, if it is `async` or has a `yield`.

    >>> async def late(key, value): return value
    >>> gives_instead(late), gives_instead(lambda key, value: value)
    ('a coroutine', '')
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "a coroutine"
    return "a generator" if inspect.isgeneratorfunction(function) else ""


def is_type(given: Any) -> bool:
    """Return whether a value is a type or an annotation.

    >>> is_type(tuple[str, int]), is_type(int | None), is_type("int"), is_type(5)
    (True, True, False, False)
    """
    return given is Any or isinstance(given, type) or bool(get_origin(given)) or bool(get_args(given))


def signature_of(function: Any) -> Signature:
    """Return the signature of a function; an empty one if Python does not know it.

    >>> def lengths(key: str, line: str) -> list[int]: return [len(line)]
    >>> signature_of(lengths).takes, signature_of(lengths).item, signature_of(lambda key, value: value).gives
    ((<class 'str'>, <class 'str'>), <class 'int'>, typing.Any)
    """
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


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value fits an annotation; the content of collections is not checked."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(fits(value, one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(kind))
    if kind is Any:
        return True
    outer = get_origin(kind) or kind
    return isinstance(value, outer) and not (outer is int and type(value) is bool)


def shown_choice(kind: Any) -> str:
    """Return the values that fit an annotation, as text.

    >>> shown_choice(Literal["all", "skip"] | None), shown_choice(bool), shown_choice(int)
    ("'all', 'skip' or None", 'True or False', 'int')
    """
    words = [word for one in _members(kind) for word in _words(one)]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [repr(word) for word in get_args(kind)]
    return {bool: ["True", "False"], types.NoneType: ["None"], str: ["a text"]}.get(kind, [shown_type(kind)])


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def misfits(holder: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass whose words, texts and truth values do not fit, each with what fits."""
    cls: Any = type(holder)
    for name, kind in _plain_fields(cls).items():
        if not fits(getattr(holder, name), kind):
            yield name, shown_choice(kind)


@cache
def _plain_fields(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    kinds = {one.name: hints[one.name] for one in dataclasses.fields(cls)}
    is_plain = {
        name: all(get_origin(one) is Literal or one in _PLAIN for one in _members(kind))
        for name, kind in kinds.items()
    }
    return {name: kind for name, kind in kinds.items() if is_plain[name]}


def takes(*names: str) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Let a function refuse arguments that do not fit the annotations of these parameters, with FlowError F01."""

    def decorate(function: Callable[Given, Made]) -> Callable[Given, Made]:
        @wraps(function)
        def call(*given: Given.args, **named: Given.kwargs) -> Made:
            try:
                bound = inspect.signature(function).bind(*given, **named).arguments
            except TypeError:
                return checks_call(function)(*given, **named)  # it raises
            for name, kind in _kinds(function, names).items():
                if name in bound and not fits(bound[name], kind):
                    raise _refused(function, name, kind, bound[name])
            return function(*given, **named)

        return call

    return decorate


@cache
def _kinds(function: Callable[..., Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the annotations of some parameters: others may be of names for type checkers only."""
    some = types.SimpleNamespace(__annotations__={name: function.__annotations__[name] for name in names})
    return get_type_hints(some, globalns=function.__globals__)


def _refused(function: Callable[..., Any], name: str, kind: Any, value: Any) -> FlowError:
    where = function.__qualname__.removesuffix(".__init__")
    mistake = Mistake(
        "F01", f"{where}()", f"takes no such {name}", str(user_place()), expected=shown_choice(kind), found=repr(value),
        fix=f"Correct {name}",
    )  # fmt: skip
    return FlowError.of(where, [mistake])
