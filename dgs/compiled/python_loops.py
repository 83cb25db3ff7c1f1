"""Loops run by Python itself: slow, but without compiling and without LLVM. `dgs check` and our tests compare lowered updates with them.

The checked operations are defined here with Python's ints. Those of `machine` must do the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from dgs.compiled.lowering.loop_text import LoopText
from dgs.compiled.lowering.python_values import LEAST, fits

EXACT = 2**53
"""Up to here every int is exactly a float. From here on every float is whole."""
BITS = 64


def _within(number: int) -> tuple[int, bool]:
    """Return a number truncated to 64 bits, and whether that changes it."""
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
    "float_floor_divide_checked": lambda one, other: (one // (other or 1.0), other == 0.0),
    "float_modulo_checked": lambda one, other: (one % (other or 1.0), other == 0.0),
    "shift_left_checked": lambda one, by: _within(one << by) if 0 <= by < BITS - 1 else (0, True),
    "shift_right_checked": lambda one, by: (one >> max(by, 0), by < 0),
    "negated": lambda number: -number,
    "magnitude": abs,
    "floor_of": lambda number: float(math.floor(number)) if abs(number) < EXACT else number,
    "ceiling_of": lambda number: float(math.ceil(number)) if abs(number) < EXACT else number,
    "nearest_of": lambda number: float(round(number)) if abs(number) < EXACT else number,
    "whole_checked": lambda number: (int(number), False) if abs(number) < -LEAST else (0, True),
    "root_checked": lambda number: (math.sqrt(max(number, 0.0)), number < 0),
    "inner": lambda function: function,
    "first_from": lambda times, start, stop, bound: bisect_left(times, bound, start, stop),
}
"""The functions that the text of a loop calls, by name."""


def python_loop(loop: LoopText) -> Callable[..., Any]:
    """Return a loop as a function of Python."""
    space = dict(OPERATIONS)
    exec(loop.text, space)  # noqa: S102 - a text that follows from a lowered update, never from data
    ways = [of.rpartition(":")[0] for of in loop.arguments]

    def call(*given: Any) -> Any:
        columns, scalars = given[: len(ways)], given[len(ways) :]
        as_python = [one.tolist() if way else one for one, way in zip(columns, ways, strict=True)]
        with np.errstate(all="ignore"):
            found = space["loop"](*as_python, *scalars)
        for one, now, way in zip(columns, as_python, ways, strict=True):
            if way == "io":
                one[:] = now
        return found

    return call
