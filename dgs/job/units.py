"""Values in the notation of plan.yaml: durations, sizes and rates with units, units of time, paths of files.

>>> parse_duration("10ms"), parse_size("64KiB"), parse_rate("3/m")
(10000000, 65536, 0.05)
"""

from __future__ import annotations

import codecs
import os
import re
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
GREATEST = 2**62
"""The greatest duration in nanoseconds (146 years), and the greatest size in bytes: sums of two fit into 64 bits."""

MOST_PER_SECOND, LEAST_PER_SECOND = 1e15, 1e-9
_MOST_DIGITS = 30

TimeUnit = Literal["ns", "us", "ms", "s", "m", "h", "d", "none"]


def parse_duration(text: Any) -> int:
    """Return a duration such as `10ms` in nanoseconds. Raises ValueError without a known unit."""
    return _with_unit(text, NANOSECONDS, "a duration with a unit, such as 10ms, 5s or 2h")


def parse_size(text: Any) -> int:
    """Return a size such as `256MiB` in bytes. Raises ValueError without a known unit."""
    return _with_unit(text, BYTES, "a size with a unit, such as 64KiB or 256MiB")


def parse_rate(text: Any) -> float:
    """Return a rate such as `3/h` in events per second. Raises ValueError without a known unit, and for more than 1e15/s."""
    number = r"([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
    match = re.fullmatch(rf"\s*{number}\s*([kKM]?)\s*/\s*(ms|s|m|h|d)\s*", str(text))
    if not match:
        raise ValueError(f"expected a rate such as 100/s, 2k/s or 3/h, got {text!r}")
    scale = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6}[match[2]]
    rate = float(match[1]) * scale / (NANOSECONDS[match[3]] / 10**9)
    if rate > MOST_PER_SECOND:
        raise ValueError(f"a rate is at most {MOST_PER_SECOND:g}/s, got {str(text)[:60]!r}")
    return rate


def parse_pace(text: Any) -> float:
    """Return a rate above 0. Raises ValueError."""
    rate = parse_rate(text)
    if rate < LEAST_PER_SECOND:
        raise ValueError(f"a pace is at least {LEAST_PER_SECOND:g}/s, got {text!r}")
    return rate


def _with_unit(text: Any, units: dict[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", str(text))
    if isinstance(text, bool) or not match or match[2] not in units:
        raise ValueError(f"expected {expected}, got {text!r}")
    value = int(Fraction(match[1]) * units[match[2]]) if len(match[1]) <= _MOST_DIGITS else GREATEST + 1
    if value > GREATEST:
        raise ValueError(f"{str(text)[:60]!r} is too large: at most {shown(GREATEST, units)} are possible")
    return value


def shown(value: int, units: dict[str, int]) -> str:
    """Return a value in the largest unit that divides it.

    >>> shown(90 * 10**9, NANOSECONDS)
    '90s'
    """
    unit = max((u for u in units if value % units[u] == 0), key=lambda u: units[u])
    return f"{value // units[unit]}{unit}" if value else f"0{next(iter(units))}"


def encoding(name: str) -> str:
    """Return the name of a Python codec that decodes text. Raises ValueError for any other name.

    >>> encoding("Latin-1")
    'Latin-1'
    """
    try:
        "".encode(name)  # also refuses codecs that are not for text
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError, ValueError):
        raise ValueError(
            f"{name!r} is not an encoding that Python knows: expected one such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    return name


_EXAMPLE = datetime(2001, 12, 31, 22, 58, 59)  # noqa: DTZ001 - formats with and without a zone are to read it


def one_delimiter(text: str) -> str:
    """Return the delimiter of CSV unchanged. Raises ValueError unless it is one ASCII character without another meaning in CSV."""
    if len(text) != 1 or not text.isascii() or text in '"\r\n\0':
        raise ValueError(
            f"{text!r} is no delimiter: expected one ASCII character such as ',' or ';', or \"\\t\""
        )
    return text


def time_format(text: str) -> str:
    """Return a format of times for `datetime.strptime`. Raises ValueError if it does not know the format or the format has no year.

    >>> time_format("%d.%m.%Y %H:%M")
    '%d.%m.%Y %H:%M'
    """
    try:
        example = _EXAMPLE.astimezone().strftime(text)
        has_year = datetime.strptime(example, text).year == _EXAMPLE.year  # noqa: DTZ007 - only the year counts
    except (ValueError, re.error) as error:
        raise ValueError(f"{text!r} is not a format of times, such as '%d.%m.%Y %H:%M': {error}") from None
    if not has_year:
        raise ValueError(f"{text!r} has no year: times need one, such as '%d.%m.%Y %H:%M'")
    return text


LONGEST_NAME, LONGEST_PATH = 255, 4000
"""The most bytes of a name and of a path in file systems."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def place_of_spark(path: str) -> str:
    """Return a path or an address that Spark reads unchanged. Raises ValueError for what cannot be one.

    >>> place_of_spark("s3a://bucket/in")
    's3a://bucket/in'
    >>> place_of_spark("")
    Traceback (most recent call last):
    ValueError: it is empty: write '.' for the directory of the plan file
    """
    _refuse_nul(path)
    if not path:
        raise ValueError("it is empty: write '.' for the directory of the plan file")
    return path


def _refuse_nul(path: str) -> None:
    if "\0" in path:
        raise ValueError(f"{path[:30]!r} has a NUL byte, which no path in a file system has")


def local_path(path: str) -> str:
    """Return a path unchanged. Raises ValueError for an address, which would become a directory of that name.

    >>> local_path("out/2026:01")
    'out/2026:01'
    >>> local_path("s3a://bucket/out")
    Traceback (most recent call last):
    ValueError: 's3a://bucket/out' is an address, and a path in the file system is needed, such as that of a mounted directory
    >>> local_path("file:/out")
    Traceback (most recent call last):
    ValueError: 'file:/out' is an address, and a path in the file system is needed: '/out'
    """
    _refuse_nul(path)
    found = _ADDRESS.match(path)
    if found is None:
        if (
            any(len(os.fsencode(name)) > LONGEST_NAME for name in path.split("/"))
            or len(os.fsencode(path)) > LONGEST_PATH
        ):
            raise ValueError(f"'{path[:30]}...' is longer than a path in a file system can be")
        return path
    advice = ", such as that of a mounted directory"
    if found[0].lower() == "file:/":
        advice = f": {'/' + path[len(found[0]) :].lstrip('/')!r}"
    raise ValueError(f"{path!r} is an address, and a path in the file system is needed{advice}")
