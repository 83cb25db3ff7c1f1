"""The meanings of scalar functions, in plain Python over canonical values. `functions` has the table of them.

Arguments are never null, unless the table says that a function sees nulls. Comparisons know one NaN, greater than all numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dgs.query.errors import QueryError
from dgs.query.types import fitting, one_float, order_key

FLOAT_DIGITS = 300
"""Rounding to more digits than this changes nothing of a float, or leaves nothing of it."""


def failed(function: str, problem: str) -> QueryError:
    """Return the error of a function that fails on its values."""
    return QueryError.of("Q704", f"{function}: {problem}", function=function)


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
    """Whether two values are equal; NaN equals NaN."""
    return bool(left == right or (left != left and right != right))  # noqa: PLR0124


def less(left: Any, right: Any) -> bool:
    """Whether one value comes before another; NaN after all numbers."""
    if isinstance(left, (float, tuple)) or isinstance(right, float):
        return bool(order_key(left) < order_key(right))
    return bool(left < right)


def like(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern of `%` for any text and `_` for any character."""
    parts = (".*" if one == "%" else "." if one == "_" else re.escape(one) for one in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def rounded(value: Any, digits: int = 0) -> Any:
    """Round half away from zero."""
    if isinstance(value, int):
        return value if digits >= 0 else int(_rounded(Decimal(value), digits))
    if not math.isfinite(value):
        return value
    if abs(digits) > FLOAT_DIGITS:
        return value if digits > 0 else 0.0
    scale = 10.0 ** abs(digits)
    scaled = value * scale if digits >= 0 else value / scale
    if abs(scaled) >= 2.0**52:
        return value
    whole = math.copysign(math.floor(abs(scaled) + 0.5), scaled)
    return one_float(whole / scale if digits >= 0 else whole * scale)


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
    """Return -1, 0 or 1."""
    return int(value > 0) - int(value < 0)


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part of a text; characters count from 1, from the end if `start` is negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    stop = len(text) if length is None else first + length
    if length is not None and length < 0:
        first, stop = stop, first
    return text[max(first, 0) : max(stop, 0)]


def lower(text: str) -> str:
    """Return a text in small letters, each of one letter, as DuckDB has them."""
    return "".join(one if len(one) == 1 else one[0] for one in map(str.lower, text))


def upper(text: str) -> str:
    """Return a text in capital letters, each of one letter, as DuckDB has them: a letter without one stays."""
    return "".join(map(_capital, text))


def _capital(letter: str) -> str:
    found = letter.upper()
    if len(found) == 1:
        return found
    return "ẞ" if letter == "ß" else letter.title() if len(letter.title()) == 1 else letter


def tokens(text: str) -> tuple[str, ...]:
    """Return the words of a text, without empty ones."""
    return tuple(one for one in re.split(r"[ \t\n\r\f\v\",()*]+", text) if one)


def split_text(text: str | None, separator: str | None) -> tuple[str, ...] | None:
    """Return the parts of a text between separators: its characters if that is empty, the text alone if that is null."""
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
    """Return the place of an item in a list, from 1; null if it is not there. A null is found too."""
    return next((place for place, item in enumerate(items or (), 1) if equal(item, wanted)), None)


def item_at(items: Sequence[Any], place: int) -> Any:
    """Return the item at a place from 1, from the end if negative; null outside."""
    index = place - 1 if place > 0 else len(items) + place
    return items[index] if place and 0 <= index < len(items) else None


def distinct(items: Sequence[Any]) -> tuple[Any, ...]:
    """Return the different items that are not null, in order."""
    return tuple(sorted(set(present(items)), key=order_key))


TIME_TEXT = re.compile(
    r"\s*(\d{1,4})([-/ ])(\d{1,2})\2(\d{1,2})(?:(?:T| +)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?"
    r"(?:Z| UTC| ?[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def time_of(text: str) -> dt.datetime:
    """Return the time that a text writes: a date, and hours, minutes, seconds. A zone is read over, as DuckDB does."""
    found = TIME_TEXT.fullmatch(text)
    if found is None:
        raise failed("cast", f"{text!r} is no time")
    year, month, day, hour, minute, second = (int(found[place] or 0) for place in (1, 3, 4, 5, 6, 7))
    fraction = int((found[8] or "").ljust(6, "0")[:6])
    is_midnight = (hour, minute, second, fraction) == (24, 0, 0, 0)
    try:
        day_of = dt.datetime(year, month, day)  # noqa: DTZ001 - times of queries have no zone
        if is_midnight:
            return day_of + dt.timedelta(days=1)
        return day_of.replace(hour=hour, minute=minute, second=second, microsecond=fraction)
    except (ValueError, OverflowError):
        raise failed("cast", f"{text!r} is no time") from None


PARTS_OF_TIME: dict[str, Callable[[dt.datetime], int]] = {
    "quarter": lambda at: (at.month + 2) // 3,
    "week": lambda at: at.isocalendar().week,
    "dayofweek": lambda at: at.isoweekday() % 7,
    "isodow": lambda at: at.isoweekday(),
    "dayofyear": lambda at: at.timetuple().tm_yday,
}
"""Parts of a time beside its fields. A week begins on a Monday; `dayofweek` counts from Sunday, which is 0, and `isodow` from Monday, which is 1."""

TIME_UNITS = {
    "second": dt.timedelta(seconds=1),
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def truncated_time(at: dt.datetime, unit: str) -> dt.datetime:
    """Return the beginning of the unit that a time is in."""
    if unit in MONTHS:
        return dt.datetime(at.year, (at.month - 1) // MONTHS[unit] * MONTHS[unit] + 1, 1)  # noqa: DTZ001
    day = dt.datetime(at.year, at.month, at.day)  # noqa: DTZ001
    if unit == "week":
        return _moved(day, dt.timedelta(days=1 - at.isoweekday()))
    return day + (at - day) // TIME_UNITS[unit] * TIME_UNITS[unit]


def units_between(first: dt.datetime, last: dt.datetime, unit: str) -> int:
    """Return how many times a unit begins behind the first time, up to the last."""
    if unit in MONTHS:
        months = [(one.year * 12 + one.month - 1) // MONTHS[unit] for one in (first, last)]
        return months[1] - months[0]
    return (truncated_time(last, unit) - truncated_time(first, unit)) // TIME_UNITS[unit]


def seconds_since_1970(at: dt.datetime) -> float:
    """Return the seconds from the beginning of 1970 to a time."""
    since = at - dt.datetime(1970, 1, 1)  # noqa: DTZ001
    return one_float(float(since // dt.timedelta(microseconds=1)) / 1e6)


def months_later(at: dt.datetime, months: int) -> dt.datetime:
    """Return a time so many months later, on the last day of the month if that has no such day."""
    years, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    if not dt.MINYEAR <= years <= dt.MAXYEAR:
        raise failed("a time and months", f"{at} and {months} months is out of range")
    return at.replace(year=years, month=month + 1, day=min(at.day, monthrange(years, month + 1)[1]))


def micros_later(at: dt.datetime, micros: int) -> dt.datetime:
    """Return a time so many microseconds later."""
    try:
        return _moved(at, dt.timedelta(microseconds=micros))
    except OverflowError:
        raise failed("a time and an interval", f"{at} and {micros} microseconds is out of range") from None


def _moved(at: dt.datetime, by: dt.timedelta) -> dt.datetime:
    try:
        return at + by
    except OverflowError:
        raise failed("a time and an interval", f"{at} and {by} is out of range") from None


def cast(value: Any, kind: str) -> Any:
    """Return a value as another type. Raises QueryError Q704 if it has no such form, Q701 beyond 64 bits."""
    try:
        return _CASTS[kind](value)
    except (ValueError, TypeError, ArithmeticError):
        raise failed("cast", f"{value!r} cannot be {kind}") from None


def _ascii(text: str) -> str:
    """Return a text of a number without spaces around it. Raises ValueError for digits of other scripts."""
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
