"""Machine code: the only module that imports numba. It has the checked operations, and compiles the texts of loops.

Import it only when something is compiled. Every checked operation returns a value, and whether Python would have done something else:
overflow, a division by zero, an int that is no float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba import njit, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from dgs.compiled.lowering.value_types import Refused

INFINITY = float("inf")
_MOST, _LEAST = 2**53, -(2**53)
"""Up to here every int is a float."""
i64, u64 = numba.int64, numba.uint64
_CHECKED = types.Tuple((types.int64, types.boolean))  # type: ignore[no-untyped-call]
_TYPES = {"i8": types.int64, "i4": types.int32, "f8": types.float64, "?": types.boolean}


def _ints(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return the arguments of an operation as 64-bit ints."""
    pairs = zip(arguments, signature.args, strict=True)
    return [context.cast(builder, argument, of, types.int64) for argument, of in pairs]


def _with_overflow(name: str) -> Any:
    """Return an operation on two ints with LLVM's test for overflow."""

    @intrinsic
    def operation(_context: Any, one: Any, other: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b = _ints(context, builder, signature, arguments)
            both = getattr(builder, f"{name}_with_overflow")(a, b)
            return context.make_tuple(builder, _CHECKED, [builder.extract_value(both, i) for i in (0, 1)])

        return _CHECKED(one, other), code

    return operation


def _dividing(result: str) -> Any:
    """Return an operation that divides two ints: `quotient` and `modulo` as in Python, `remainder` with the sign of the first."""

    @intrinsic
    def operation(_context: Any, one: Any, other: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b = _ints(context, builder, signature, arguments)
            zero, least = ir.Constant(a.type, 0), ir.Constant(a.type, -(2**63))
            overflows = builder.and_(
                builder.icmp_signed("==", a, least), builder.icmp_signed("==", b, ir.Constant(a.type, -1))
            )
            deviates = builder.or_(builder.icmp_signed("==", b, zero), overflows)
            by = builder.select(
                deviates, ir.Constant(a.type, 1), b
            )  # a constant divisor makes all of this vanish
            rest = builder.srem(a, by)
            is_negative = builder.icmp_signed("<", builder.xor(rest, by), zero)
            is_off = builder.and_(builder.icmp_signed("!=", rest, zero), is_negative)
            if result == "remainder":
                value = rest
            elif result == "modulo":
                value = builder.select(is_off, builder.add(rest, by), rest)
            else:
                quotient = builder.sdiv(a, by)
                value = builder.select(is_off, builder.sub(quotient, ir.Constant(a.type, 1)), quotient)
            return context.make_tuple(builder, _CHECKED, [value, deviates])

        return _CHECKED(one, other), code

    return operation


@intrinsic
def negated(_context: Any, number: Any) -> Any:
    """Return a float with the other sign, also of 0.0 and NaN."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fneg(arguments[0])

    return number(number), code


add_checked, subtract_checked, multiply_checked = map(_with_overflow, ("sadd", "ssub", "smul"))
floor_divide_checked, modulo_checked, remainder_checked = map(_dividing, ("quotient", "modulo", "remainder"))


@njit(inline="always")
def exact_float(number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - numba knows
    """Return an int as a float, and whether it may be another number: Python compares and divides large ints exactly."""
    return float(number), (number > _MOST) | (number < _LEAST)


@njit(inline="always")
def divide_checked(one, other):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the quotient of two floats, and whether the divisor is zero."""
    is_zero = other == 0.0
    return one / (1.0 if is_zero else other), is_zero


@njit(inline="always")
def magnitude(number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return a float without its sign."""
    return abs(number)


inner = njit(error_model="numpy")
"""Makes the loop of a lane a function that another loop calls."""


@inner
def first_from(times, start, stop, bound):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the first row from `start` on, up to `stop`, whose time is not below a bound: in steps that double, then by halves."""
    low, step = start, 1
    while low + step < stop and times[u64(low + step)] < bound:
        low += step
        step += step
    high = min(low + step, stop)
    while low < high:
        middle = (low + high) >> 1
        if times[u64(middle)] < bound:
            low = middle + 1
        else:
            high = middle
    return low


def compiled(
    function: Callable[..., Any], arguments: Sequence[str], states: Sequence[str]
) -> Callable[..., Any]:
    """Return a loop as machine code. `arguments`: the types of its columns and ints, with `in:` if it only reads them, `io:` if it reads and writes them. `states`: of scalars.

    Raises Refused if numba refuses it.
    """
    columns = [
        types.int64
        if of == "int"
        else types.Array(_TYPES[of.rpartition(":")[2]], 1, "C", readonly=of.startswith("in:"))
        for of in arguments
    ]
    signature = (*columns, *(_TYPES[of] for of in states))
    try:
        return njit(signature, cache=True, error_model="numpy")(function)
    except NumbaError as error:
        raise Refused(f"numba does not compile it: {str(error).strip().splitlines()[0]}") from error
