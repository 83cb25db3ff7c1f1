"""Loops translated by Python itself: slow, but at once, and without numba. `dgs check` and our tests compare lowered updates with them.

The checked operations are written out here with Python's ints, as the definition of what those of `machine` do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dgs.compiled.loop_text import LoopText
from dgs.compiled.python_values import LEAST, fits

EXACT = 2**53
"""Up to here every int is a float."""


def _within(number: int) -> tuple[int, bool]:
    """Return a number cut to 64 bits, and whether that changes it."""
    return (number - LEAST) % 2**64 + LEAST, not fits(number)


def _divided(operation: Callable[[int, int], int]) -> Callable[[int, int], tuple[int, bool]]:
    def checked(one: int, other: int) -> tuple[int, bool]:
        if other == 0 or (one == LEAST and other == -1):
            return 0, True
        return operation(one, other), False

    return checked


OPERATIONS: dict[str, Any] = {
    "i64": int,
    "u64": int,
    "INFINITY": float("inf"),
    "add_checked": lambda one, other: _within(one + other),
    "subtract_checked": lambda one, other: _within(one - other),
    "multiply_checked": lambda one, other: _within(one * other),
    "floor_divide_checked": _divided(lambda one, other: one // other),
    "modulo_checked": _divided(lambda one, other: one % other),
    "remainder_checked": _divided(lambda one, other: abs(one) % abs(other)),
    "exact_float": lambda number: (float(number), abs(number) > EXACT),
    "divide_checked": lambda one, other: (one / (other or 1.0), other == 0.0),
    "negated": lambda number: -number,
    "magnitude": abs,
}
"""The functions that the text of a loop calls, by name."""


def python_loop(loop: LoopText) -> Callable[..., Any]:
    """Return a loop as a function of Python."""
    space = dict(OPERATIONS)
    exec(loop.text, space)  # noqa: S102 - a text that follows from a lowered update, never from data
    written = [not of.startswith("in:") for of in loop.arguments]

    def call(start: int, stop: int, *given: Any) -> Any:
        columns, scalars = given[: len(written)], given[len(written) :]
        as_python = [one if is_out else one.tolist() for one, is_out in zip(columns, written, strict=True)]
        with np.errstate(all="ignore"):
            return space["loop"](start, stop, *as_python, *scalars)

    return call
