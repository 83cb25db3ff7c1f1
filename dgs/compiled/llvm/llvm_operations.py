"""The checked operations as LLVM functions, and the types of their arguments and results.

Each returns a value, and whether Python would do something else: overflow, a division by zero, an int that no float equals.
`python_loops` defines the same operations with Python's ints.
"""

from __future__ import annotations

INT, FLOAT, BOOL = "i64", "double", "i1"
"""The types of numbers in registers, as LLVM names them."""
VALUES = {"i8": INT, "f8": FLOAT, "?": BOOL}
"""The types of the scalars of a state."""
EXACT = 2**53
"""Up to here every int is exactly a float."""
PAIR, FLOAT_PAIR = f"{{{INT}, {BOOL}}}", f"{{{FLOAT}, {BOOL}}}"

OF_INTS = ("add_checked", "subtract_checked", "multiply_checked", "floor_divide_checked", "modulo_checked", "remainder_checked")  # fmt: skip

SIGNATURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(OF_INTS, ((INT, INT), (INT, BOOL))),
    "exact_float": ((INT,), (FLOAT, BOOL)),
    "divide_checked": ((FLOAT, FLOAT), (FLOAT, BOOL)),
    "negated": ((FLOAT,), (FLOAT,)),
    "remainder_of": ((FLOAT, FLOAT), (FLOAT,)),
    "sign_of": ((FLOAT, FLOAT), (FLOAT,)),
    "whole_checked": ((FLOAT,), (INT, BOOL)),
    "root_checked": ((FLOAT,), (FLOAT, BOOL)),
    **dict.fromkeys(("magnitude", "floor_of", "ceiling_of", "nearest_of"), ((FLOAT,), (FLOAT,))),
}
"""The types of the arguments and of the results of each operation."""


def _overflowing(name: str, operation: str) -> str:
    """Return an operation on two ints with LLVM's test for overflow."""
    return f"""
declare {PAIR} @llvm.{operation}.with.overflow.i64(i64, i64)
define internal {PAIR} @{name}(i64 %a, i64 %b) alwaysinline nounwind {{
  %both = call {PAIR} @llvm.{operation}.with.overflow.i64(i64 %a, i64 %b)
  ret {PAIR} %both
}}"""


def _dividing(name: str, result: str) -> str:
    """Return an operation that divides two ints. For a constant divisor LLVM removes the tests. `result`: the lines that compute `%value`."""
    return f"""
define internal {PAIR} @{name}(i64 %a, i64 %b) alwaysinline nounwind {{
  %is_least = icmp eq i64 %a, {-(2**63)}
  %is_minus_one = icmp eq i64 %b, -1
  %overflows = and i1 %is_least, %is_minus_one
  %is_zero = icmp eq i64 %b, 0
  %deviates = or i1 %is_zero, %overflows
  %by = select i1 %deviates, i64 1, i64 %b
  %rest = srem i64 %a, %by
  %signs = xor i64 %rest, %by
  %differ = icmp slt i64 %signs, 0
  %is_some = icmp ne i64 %rest, 0
  %is_off = and i1 %is_some, %differ
  {result}
  %first = insertvalue {PAIR} undef, i64 %value, 0
  %both = insertvalue {PAIR} %first, i1 %deviates, 1
  ret {PAIR} %both
}}"""


QUOTIENT = """%towards_zero = sdiv i64 %a, %by
  %lower = sub i64 %towards_zero, 1
  %value = select i1 %is_off, i64 %lower, i64 %towards_zero"""
MODULO = """%moved = add i64 %rest, %by
  %value = select i1 %is_off, i64 %moved, i64 %rest"""
REMAINDER = "%value = add i64 %rest, 0"

OF_FLOATS = f"""
declare double @llvm.sqrt.f64(double)
declare double @llvm.copysign.f64(double, double)
define internal {FLOAT_PAIR} @exact_float(i64 %a) alwaysinline nounwind {{
  %value = sitofp i64 %a to double
  %is_more = icmp sgt i64 %a, {EXACT}
  %is_less = icmp slt i64 %a, {-EXACT}
  %deviates = or i1 %is_more, %is_less
  %first = insertvalue {FLOAT_PAIR} undef, double %value, 0
  %both = insertvalue {FLOAT_PAIR} %first, i1 %deviates, 1
  ret {FLOAT_PAIR} %both
}}
define internal {FLOAT_PAIR} @divide_checked(double %a, double %b) alwaysinline nounwind {{
  %is_zero = fcmp oeq double %b, 0.0
  %by = select i1 %is_zero, double 1.0, double %b
  %value = fdiv double %a, %by
  %first = insertvalue {FLOAT_PAIR} undef, double %value, 0
  %both = insertvalue {FLOAT_PAIR} %first, i1 %is_zero, 1
  ret {FLOAT_PAIR} %both
}}
define internal double @negated(double %a) alwaysinline nounwind {{
  %value = fneg double %a
  ret double %value
}}
define internal double @remainder_of(double %a, double %b) alwaysinline nounwind {{
  %value = frem double %a, %b
  ret double %value
}}
define internal double @sign_of(double %a, double %b) alwaysinline nounwind {{
  %value = call double @llvm.copysign.f64(double %a, double %b)
  ret double %value
}}
define internal {PAIR} @whole_checked(double %a) alwaysinline nounwind {{
  %size = call double @llvm.fabs.f64(double %a)
  %fits = fcmp olt double %size, {2.0**63}
  %some = select i1 %fits, double %a, double 0.0
  %value = fptosi double %some to i64
  %deviates = xor i1 %fits, true
  %first = insertvalue {PAIR} undef, i64 %value, 0
  %both = insertvalue {PAIR} %first, i1 %deviates, 1
  ret {PAIR} %both
}}
define internal {FLOAT_PAIR} @root_checked(double %a) alwaysinline nounwind {{
  %deviates = fcmp olt double %a, 0.0
  %some = select i1 %deviates, double 0.0, double %a
  %value = call double @llvm.sqrt.f64(double %some)
  %first = insertvalue {FLOAT_PAIR} undef, double %value, 0
  %both = insertvalue {FLOAT_PAIR} %first, i1 %deviates, 1
  ret {FLOAT_PAIR} %both
}}
"""


def _of_float(name: str, operation: str) -> str:
    """Return an operation of LLVM on a float."""
    return f"""
declare double @llvm.{operation}.f64(double)
define internal double @{name}(double %a) alwaysinline nounwind {{
  %value = call double @llvm.{operation}.f64(double %a)
  ret double %value
}}"""


OPERATIONS = "".join(
    [
        _overflowing("add_checked", "sadd"),
        _overflowing("subtract_checked", "ssub"),
        _overflowing("multiply_checked", "smul"),
        _dividing("floor_divide_checked", QUOTIENT),
        _dividing("modulo_checked", MODULO),
        _dividing("remainder_checked", REMAINDER),
        _of_float("magnitude", "fabs"),
        _of_float("floor_of", "floor"),
        _of_float("ceiling_of", "ceil"),
        _of_float("nearest_of", "rint"),
        OF_FLOATS,
    ]
)
"""The text of all operations."""

IN_WORDS = '''
def first_from(times, start, stop, bound):
    """Return the first row from `start` on, up to `stop`, whose time is not below a bound: in steps that double, then by halves."""
    low = start
    step = i64(1)
    while low + step < stop and times[u64(low + step)] < bound:
        low += step
        step += step
    high = low + step
    if stop < high:
        high = stop
    while low < high:
        middle = (low + high) >> 1
        if times[u64(middle)] < bound:
            low = middle + 1
        else:
            high = middle
    return low


def shift_left_checked(number, by):
    """Return a number times a power of two."""
    deviates = by < 0 or by > 62
    bits = 0 if deviates else by
    shifted = number << bits
    return shifted, deviates or (shifted >> bits) != number


def shift_right_checked(number, by):
    """Return a number divided by a power of two, rounded down."""
    bits = 63 if by < 0 or by > 63 else by
    return number >> bits, by < 0


def float_modulo_checked(number, by):
    """Return the remainder, with the sign of the divisor."""
    is_zero = by == 0.0
    divisor = 1.0 if is_zero else by
    rest = remainder_of(number, divisor)
    if rest == 0.0:
        rest = sign_of(0.0, divisor)
    elif (divisor < 0.0) != (rest < 0.0):
        rest = rest + divisor
    return rest, is_zero


def float_floor_divide_checked(number, by):
    """Return the quotient, rounded down: by way of the remainder, as Python does it."""
    is_zero = by == 0.0
    divisor = 1.0 if is_zero else by
    rest = remainder_of(number, divisor)
    quotient, _ = divide_checked(number - rest, divisor)
    if rest != 0.0 and (divisor < 0.0) != (rest < 0.0):
        quotient = quotient - 1.0
    whole = floor_of(quotient)
    if quotient - whole > 0.5:
        whole = whole + 1.0
    if quotient == 0.0:
        exact, _ = divide_checked(number, divisor)
        whole = sign_of(0.0, exact)
    return whole, is_zero
'''
"""Functions that loops call, written like loops."""
