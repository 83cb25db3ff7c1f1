"""The meanings of functions of times, which have no zone.

>>> units_between(time_of("2020-01-31"), time_of("2020-02-01 10:00"), "month")
1
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Callable

from dgs.query.errors import failed
from dgs.query.types import one_float

TIME_TEXT = re.compile(
    r"\s*(\d{1,4})([-/ ])(\d{1,2})\2(\d{1,2})(?:(?:T| +)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?"
    r"(?:Z| UTC| ?[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def time_of(text: str) -> dt.datetime:
    """Return the time in a text: a date, and hours, minutes, seconds. A zone is ignored, as in DuckDB."""
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
    "isoyear": lambda at: at.isocalendar().year,
    "yearweek": lambda at: at.isocalendar().year * 100 + at.isocalendar().week,
    "millisecond": lambda at: at.second * 1000 + at.microsecond // 1000,
    "microsecond": lambda at: at.second * 10**6 + at.microsecond,
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
    """Return how many times a unit begins after the first time, up to the last."""
    if unit in MONTHS:
        months = [(one.year * 12 + one.month - 1) // MONTHS[unit] for one in (first, last)]
        return months[1] - months[0]
    return (truncated_time(last, unit) - truncated_time(first, unit)) // TIME_UNITS[unit]


def micros_since_1970(at: dt.datetime) -> int:
    """Return the microseconds from the beginning of 1970 to a time."""
    return (at - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001


def millis_since_1970(at: dt.datetime) -> int:
    """Return the milliseconds from the beginning of 1970 to a time, rounded half away from zero."""
    micros = micros_since_1970(at)
    return (abs(micros) + 500) // 1000 * (1 if micros > 0 else -1)


def seconds_since_1970(at: dt.datetime) -> float:
    """Return the seconds from the beginning of 1970 to a time."""
    return one_float(float(micros_since_1970(at)) / 1e6)


def months_later(at: dt.datetime, months: int) -> dt.datetime:
    """Return a time some months later, on the last day of the month if the month has no such day."""
    years, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    if not dt.MINYEAR <= years <= dt.MAXYEAR:
        raise failed("a time and months", f"{at} and {months} months is out of range")
    return at.replace(year=years, month=month + 1, day=min(at.day, monthrange(years, month + 1)[1]))


def micros_later(at: dt.datetime, micros: int) -> dt.datetime:
    """Return a time some microseconds later."""
    try:
        return _moved(at, dt.timedelta(microseconds=micros))
    except OverflowError:
        raise failed("a time and an interval", f"{at} and {micros} microseconds is out of range") from None


def _moved(at: dt.datetime, by: dt.timedelta) -> dt.datetime:
    try:
        return at + by
    except OverflowError:
        raise failed("a time and an interval", f"{at} and {by} is out of range") from None
