"""Values that users give, compared with the annotation of the parameter that takes them.

Steps, windows and operators hold what they were given, so their fields are looked at with all other mistakes of a flow. A function
that makes no step refuses at once.

>>> from dgs.flow.panes import CountWindow
>>> list(misfits(CountWindow(3, 1, "none", 1)))
[('partial', "'emit' or 'drop'"), ('allow_gaps', 'True or False')]
>>> fits({"a": 1}, dict[str, int]), fits("x", int | None), fits(True, int)
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, wraps
from inspect import signature
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from dgs.flow.edge_types import shown_type
from dgs.flow.mistakes import FlowError, Mistake

Given = ParamSpec("Given")
Made = TypeVar("Made")

_PLAIN = (bool, str, NoneType)
"""Types whose values are looked at without regard to the step; others have a demand of their own."""


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value fits an annotation; what is inside a collection is not looked at."""
    if get_origin(kind) in (Union, UnionType):
        return any(fits(value, one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(kind))
    if kind is Any:
        return True
    outer = get_origin(kind) or kind
    return isinstance(value, outer) and not (outer is int and type(value) is bool)


def shown(kind: Any) -> str:
    """Return what fits an annotation, for people.

    >>> shown(Literal["all", "skip"] | None), shown(bool), shown(int)
    ("'all', 'skip' or None", 'True or False', 'int')
    """
    words = [word for one in _members(kind) for word in _words(one)]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [repr(word) for word in get_args(kind)]
    return {bool: ["True", "False"], NoneType: ["None"], str: ["a text"]}.get(kind, [shown_type(kind)])


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def misfits(holder: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass with words, texts and truths that do not fit, each with what does."""
    cls: Any = type(holder)
    for name, kind in _plain_fields(cls).items():
        if not fits(getattr(holder, name), kind):
            yield name, shown(kind)


@cache
def _plain_fields(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    kinds = {one.name: hints[one.name] for one in fields(cls)}
    is_plain = {
        name: all(get_origin(one) is Literal or one in _PLAIN for one in _members(kind))
        for name, kind in kinds.items()
    }
    return {name: kind for name, kind in kinds.items() if is_plain[name]}


def takes(*names: str) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Let a function refuse what does not fit the annotations of these parameters. It raises FlowError, F01."""

    def decorate(function: Callable[Given, Made]) -> Callable[Given, Made]:
        @wraps(function)
        def call(*given: Given.args, **named: Given.kwargs) -> Made:
            bound = signature(function).bind(*given, **named).arguments
            for name, kind in _kinds(function, names).items():
                if name in bound and not fits(bound[name], kind):
                    raise _refused(function, name, kind, bound[name])
            return function(*given, **named)

        return call

    return decorate


@cache
def _kinds(function: Callable[..., Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the annotations of some parameters: others may be of names for type checkers only."""
    some = SimpleNamespace(__annotations__={name: function.__annotations__[name] for name in names})
    return get_type_hints(some, globalns=function.__globals__)


def _refused(function: Callable[..., Any], name: str, kind: Any, value: Any) -> FlowError:
    from dgs.flow.building import user_place  # here, because that module uses this one

    where = function.__qualname__.removesuffix(".__init__")
    mistake = Mistake(
        "F01", f"{where}()", f"takes no such {name}", str(user_place()), expected=shown(kind), found=repr(value),
        fix=f"Correct {name}",
    )  # fmt: skip
    return FlowError.of(where, [mistake])
