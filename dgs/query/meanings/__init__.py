"""The meanings of scalar functions, in plain Python over canonical values. `functions` has the table of them, and `time_meanings` those of times.

Arguments are never null, unless the table says that a function sees nulls. In comparisons there is one NaN, greater than all numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dgs.query.errors import QueryError, failed
from dgs.query.meanings.time_meanings import time_of
from dgs.query.types import fitting, one_float, order_key

FLOAT_DIGITS = 300
"""Rounding to more digits than this does not change a float; to fewer than minus this it gives 0."""
INT_DIGITS = -18
"""Rounding to fewer digits than this gives 0 for an integer."""


def number(value: Any) -> Any:
    """Return a number in its canonical form. Raises QueryError Q701 beyond 64 bits."""
    return fitting(value) if isinstance(value, int) else one_float(value)


def divided(left: float, right: float) -> float:
    """Return a quotient of floats, by IEEE: infinite or NaN for a divisor of 0."""
    if right != 0:
        return one_float(left / right)
    if left == 0 or left != left:  # noqa: PLR0124 - NaN
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def truncated(left: int, right: int) -> int:
    """Return the quotient of integers without its fraction: -7 by 2 is -3."""
    if right == 0:
        raise failed("integer division", f"{left} by 0")
    quotient = abs(left) // abs(right)
    return fitting(quotient if (left < 0) == (right < 0) else -quotient)


def remainder(left: Any, right: Any) -> Any:
    """Return the remainder, with the sign of the dividend: -7 by 3 is -1."""
    if isinstance(left, float) or isinstance(right, float):
        return math.nan if right == 0 or math.isinf(left) else one_float(math.fmod(left, right))
    return left - right * truncated(left, right) if right != -1 else 0


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; NaN equals NaN."""
    return bool(left == right or (left != left and right != right))  # noqa: PLR0124


def less(left: Any, right: Any) -> bool:
    """Return whether one value comes before another; NaN comes after all numbers."""
    if isinstance(left, (float, tuple)) or isinstance(right, float):
        return bool(order_key(left) < order_key(right))
    return bool(left < right)


def like(text: str, pattern: str, escape: str = "") -> bool:
    """Return whether a text matches a pattern: `%` matches any text and `_` any character; after `escape` they match themselves."""
    pieces = re.findall(f"{re.escape(escape)}.|." if escape else ".", pattern, re.DOTALL)
    parts = (".*" if one == "%" else "." if one == "_" else re.escape(one[-1]) for one in pieces)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def rounded(value: Any, digits: int = 0) -> Any:
    """Round half away from zero: 2.675 is below the half, so that it is 2.67."""
    if isinstance(value, int):
        if digits >= 0:
            return value
        return 0 if digits < INT_DIGITS else fitting(int(_rounded(Decimal(value), digits)))
    if not math.isfinite(value):
        return value
    if abs(digits) > FLOAT_DIGITS:
        return value if digits > 0 else 0.0
    scaled = value * 10.0**digits if digits >= 0 else value / 10.0**-digits
    return value if abs(scaled) >= 2.0**52 else one_float(float(_rounded(Decimal(value), digits)))


def as_decimal(value: float, digits: int) -> float:
    """Return a float rounded like a decimal: 2.675 gives 2.68, since its product with 100 is 267.5."""
    scale = 10.0**digits
    scaled = abs(value * scale)
    if not scaled < 2.0**52:
        return value
    whole = math.floor(scaled)
    return one_float(math.copysign(whole + (scaled - whole >= 0.5), value) / scale)  # noqa: PLR2004 - a half


def _rounded(value: Decimal, digits: int) -> Decimal:
    unit = Decimal(1).scaleb(-digits)
    return (value / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit


def whole(function: Any) -> Any:
    """Return a rounding function that leaves integers and infinite values alone, and gives floats."""
    return lambda value: (
        value if isinstance(value, int) or not math.isfinite(value) else one_float(float(function(value)))
    )


def root(value: float) -> float:
    """Return the square root, NaN of a negative number."""
    return math.sqrt(value) if value >= 0 else math.nan


def logarithm(value: float) -> float:
    """Return the natural logarithm: negative infinity of 0, NaN below."""
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


def logarithm_2(value: float) -> float:
    """Return the logarithm to the base 2; for numbers that are not positive like the natural one."""
    return math.log2(value) if value > 0 else logarithm(value)


def logarithm_10(value: float) -> float:
    """Return the logarithm to the base 10; for numbers that are not positive like the natural one."""
    return math.log10(value) if value > 0 else logarithm(value)


def angular(function: Callable[..., float]) -> Callable[..., float]:
    """Return a function of angles that is NaN where it has no value."""

    def angle(*given: float) -> float:
        try:
            return one_float(function(*given))
        except ValueError:
            return math.nan

    return angle


def exponential(value: float) -> float:
    """Return e to a power, infinity beyond the floats."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def power(base: float, exponent: float) -> float:
    """Return a power as a float, by IEEE: NaN for a fraction as exponent of a negative base."""
    base, exponent = float(base), float(exponent)
    try:
        return one_float(math.pow(base, exponent))
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def sign(value: Any) -> int:
    """Return -1, 0 or 1 for a negative number, zero, or a positive number."""
    return int(value > 0) - int(value < 0)


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part of a text; characters count from 1, from the end if `start` is negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    stop = len(text) if length is None else first + length
    if length is not None and length < 0:
        first, stop = stop, first
    return text[max(first, 0) : max(stop, 0)]


def lower(text: str) -> str:
    """Return a text in lower case, letter by letter, as in DuckDB."""
    return "".join(one if len(one) == 1 else one[0] for one in map(str.lower, text))


def upper(text: str) -> str:
    """Return a text in upper case, letter by letter, as in DuckDB: letters without a single capital stay."""
    return "".join(map(_capital, text))


def _capital(letter: str) -> str:
    found = letter.upper()
    if len(found) == 1:
        return found
    return "ẞ" if letter == "ß" else letter.title() if len(letter.title()) == 1 else letter


LONGEST = 10_000_000
"""The most characters that `repeat` and padding make, and the most items of a counted list."""


def repeated(text: str, times: int) -> str:
    """Return a text repeated `times` times, empty below 1. Raises QueryError Q704 for a text that would be too long."""
    if len(text) * times > LONGEST:
        raise failed("repeat", f"a text of {len(text) * times} characters")
    return text * times


def _padding(text: str, length: int, by: str) -> str:
    missing = max(length - len(text), 0)
    return repeated(by, missing)[:missing]


def padded_before(text: str, length: int, by: str) -> str:
    """Return a text with `by` before it, again and again, up to a length; only its beginning if it is longer."""
    return _padding(text, length, by) + text[: max(length, 0)]


def padded_behind(text: str, length: int, by: str) -> str:
    """Return a text with `by` after it, again and again, up to a length; only its beginning if it is longer."""
    return text[: max(length, 0)] + _padding(text, length, by)


def tokens(text: str) -> tuple[str, ...]:
    """Return the words of a text, without empty ones."""
    return tuple(one for one in re.split(r"[ \t\n\r\f\v\",()*]+", text) if one)


def split_text(text: str | None, separator: str | None) -> tuple[str, ...] | None:
    """Return the parts of a text between separators: its characters for an empty separator, the text alone for null."""
    if text is None:
        return None
    if separator is None:
        return (text,)
    return tuple(text.split(separator)) if separator else tuple(text) or ("",)


def split_part(text: str, separator: str, position: int) -> str:
    """Return one part of a text, from 1; empty if there is none."""
    parts = split_text(text, separator) or ()
    place = position - 1 if position > 0 else len(parts) + position
    return parts[place] if 0 <= place < len(parts) and position else ""


def counted(first: int, end: int) -> tuple[int, ...]:
    """Return the integers from one up to another, which is excluded. Raises QueryError Q704 for too many."""
    if end - first > LONGEST:
        raise failed("range", f"a list of {end - first} items")
    return tuple(range(first, end))


def present(items: Sequence[Any]) -> list[Any]:
    """Return the items that are not null."""
    return [item for item in items if item is not None]


def total(items: Sequence[Any]) -> Any:
    """Return the sum of the items that are not null; null if there are none."""
    some = present(items)
    return number(math.fsum(some) if isinstance(some[0], float) else sum(some)) if some else None


def mean(items: Sequence[Any]) -> Any:
    """Return the mean of the items that are not null; null if there are none."""
    some = present(items)
    return divided(float(sum(some)), float(len(some))) if some else None


def least_of(items: Sequence[Any]) -> Any:
    """Return the least item that is not null; null if there are none."""
    return min(present(items), key=order_key, default=None)


def greatest_of(items: Sequence[Any]) -> Any:
    """Return the greatest item that is not null; null if there are none."""
    return max(present(items), key=order_key, default=None)


def position(items: Sequence[Any] | None, wanted: Any) -> int | None:
    """Return the place of an item in a list, from 1; null if it is not there. Null can be found, too."""
    return next((place for place, item in enumerate(items or (), 1) if equal(item, wanted)), None)


def item_at(items: Sequence[Any], place: int) -> Any:
    """Return the item at a place from 1, from the end if negative; null outside."""
    index = place - 1 if place > 0 else len(items) + place
    return items[index] if place and 0 <= index < len(items) else None


def distinct(items: Sequence[Any]) -> tuple[Any, ...]:
    """Return the different items that are not null, in order."""
    return tuple(sorted(set(present(items)), key=order_key))


def cast(value: Any, kind: str) -> Any:
    """Return a value as another type. Raises QueryError Q704 if it cannot be converted, Q701 beyond 64 bits."""
    try:
        return _CASTS[kind](value)
    except (ValueError, TypeError, ArithmeticError):
        raise failed("cast", f"{value!r} cannot be {kind}") from None


def _ascii(text: str) -> str:
    """Return the text of a number without surrounding spaces. Raises ValueError for digits of other scripts."""
    if not text.isascii():
        raise ValueError
    return text.strip()


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        text = _ascii(value)
        if re.fullmatch(r"[+-]?\d+|0x[0-9a-f]+|0b[01]+", text, re.IGNORECASE):
            return fitting(int(text, 0 if text[1:2] in "xXbB" and text[1:] else 10))
        return fitting(int(_rounded(Decimal(text), 0)))
    if isinstance(value, float) and math.isfinite(value) and abs(value) >= 2.0**63 and value != -(2.0**63):
        raise QueryError.of("Q701", f"{value} does not fit 64 bits")
    return fitting(round(value) if isinstance(value, float) else int(value))


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "inf", "-inf": "-inf"}.get(str(value), "nan")
    if isinstance(value, dt.datetime) and value.microsecond:
        return str(value).rstrip("0")
    return str(value)


def _to_float(value: Any) -> float:
    return one_float(float(_ascii(value) if isinstance(value, str) else value))


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in ("true", "t", "yes", "y", "1"):
            return True
        if value.lower() in ("false", "f", "no", "n", "0"):
            return False
        raise ValueError
    return bool(value)


def _to_time(value: Any) -> dt.datetime:
    return time_of(value) if isinstance(value, str) else value


_CASTS: dict[str, Any] = {
    "int64": _to_int,
    "float64": _to_float,
    "text": _to_text,
    "bool": _to_bool,
    "time": _to_time,
}
