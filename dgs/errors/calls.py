"""Calls with arguments that a function does not take: an error of ours in place of Python's own.

>>> from dgs.errors import UsageError
>>> @refusing(lambda name, takes, problem: UsageError(message=f"{name} is called with {problem}: it takes {takes}"))
... def window(size, slide, *, partial="drop"): return size
>>> window(3, 1)
3
>>> try: window(3)
... except UsageError as error: print(error)
window is called with missing 1 required positional argument: 'slide': it takes window(size, slide, *, partial=)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

Refuse = Callable[[str, str, str], Exception]
"""Makes the error of a function's name, of what it takes, and of what is wrong with the call."""


def refusing(refuse: Refuse) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Let a function refuse arguments that are missing, superfluous or of no name that it knows."""

    def decorate(function: Callable[Given, Made]) -> Callable[Given, Made]:
        @wraps(function)
        def call(*given: Given.args, **named: Given.kwargs) -> Made:
            try:
                return function(*given, **named)
            except TypeError as error:
                if not is_of_call(error):
                    raise
                wrong = refuse(name_of(function), what_it_takes(function), problem_of(error))
            raise wrong

        return call

    return decorate


def is_of_call(error: TypeError) -> bool:
    """Return whether an error is of the call itself, whose frame is the last one, and of nothing inside the function."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def problem_of(error: TypeError) -> str:
    """Return what Python says of a call, without the name of the function."""
    return str(error).rpartition("() ")[2]


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function as it is called: that of the class for one that makes an object."""
    return function.__qualname__.removesuffix(".__init__").rpartition("<locals>.")[2]


def what_it_takes(function: Callable[..., object]) -> str:
    """Return a function with its parameters, as it is called."""
    shown, is_named = [], False
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not is_named:
            shown.append("*")
        is_named = is_named or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        is_optional = one.kind is one.KEYWORD_ONLY or one.default is not one.empty
        name = "" if one.name.startswith("_") else one.name  # what only catches a mistake is not shown
        shown.append(stars + name + "=" * is_optional)
    return f"{name_of(function).rpartition('.')[2]}({', '.join(shown)})"
