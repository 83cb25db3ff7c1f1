"""Texts of the page: numbers in few characters, spans of time, event times, and safe forms of foreign texts.

>>> count(1_204_118), count(212), seconds(15.2), size(6_200_000), share(0.713)
('1.20 M', '212', '15.2 s', '6.20 MB', '71 %')
"""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta

from dgs.errors.hidden_values import masked
from dgs.job.units import NANOSECONDS

_THOUSAND = 1000
_PREFIXES = ("", " k", " M", " G", " T", " P")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_EARLIEST, _LATEST = 10**8, 10**10
"""Seconds since 1970 that are shown as a date, from 1973 to 2286: other times count from some origin of the user's own."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of invisible characters, and of those that change the direction of text."""


def clean(text: object, most: int = 300) -> str:
    r"""Return a text with secrets masked, invisible characters replaced, and at most `most` characters.

    >>> clean("a\x00b\u202egnp.exe"), clean("x" * 9, 5)
    ('a�b�gnp.exe', 'xxxx…')
    """
    shown = masked(str(text))
    if not shown.isprintable():
        shown = "".join(
            " " if c in "\n\t" else "�" if unicodedata.category(c) in _HIDDEN else c for c in shown
        )
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def count(number: float) -> str:
    """Return a number in at most three digits and a prefix.

    >>> count(0), count(0.25), count(999_999), count(3e9)
    ('0', '0.25', '1.00 M', '3.00 G')
    """
    if not math.isfinite(number):
        return "-"
    power = 0
    while abs(number) >= _THOUSAND - 0.5 and power < len(_PREFIXES) - 1:
        number, power = number / _THOUSAND, power + 1
    if power == 0 and (number == int(number) or abs(number) >= 10):  # noqa: PLR2004 - two digits are enough
        return f"{number:.0f}"
    digits = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0  # noqa: PLR2004 - three digits in all
    return f"{number:.{digits}f}{_PREFIXES[power]}"


def size(number: float) -> str:
    """Return a number of bytes."""
    text = count(number)
    return f"{text}B" if text[-1] in "kMGTP" else f"{text} B"


def share(part: float) -> str:
    """Return a share (0 to 1) in per cent."""
    return f"{100 * part:.0f} %"


def seconds(span: float) -> str:
    """Return a span of time.

    >>> seconds(2e-5), seconds(0.0031), seconds(0.31), seconds(75), seconds(119.7), seconds(7380), seconds(200_000)
    ('20 µs', '3.1 ms', '310 ms', '1 min 15 s', '2 min 0 s', '2 h 3 min', '2 d 7 h')
    """
    if not math.isfinite(span):
        return "-"
    if span < 1:
        return _milliseconds(1000 * span)
    if round(span, 1) < _MINUTE:
        return f"{span:.1f} s"
    span = round(span)
    if span < _HOUR:
        return f"{span // _MINUTE:.0f} min {span % _MINUTE:.0f} s"
    if span < _DAY:
        return f"{span // _HOUR:.0f} h {span % _HOUR // _MINUTE:.0f} min"
    return f"{span // _DAY:,.0f} d" + (f" {span % _DAY // _HOUR:.0f} h" if span < 10 * _DAY else "")


def _milliseconds(span: float) -> str:
    if 0 < span < 0.1:  # noqa: PLR2004 - shown in microseconds
        return f"{1000 * span:.0f} µs"
    return f"{span:.1f} ms" if span < 10 else f"{span:.0f} ms"  # noqa: PLR2004 - two digits


def event_time(ts: float | None, unit: str, *, with_day: bool = False) -> str:
    """Return an event time: a time of day in UTC if its unit and size say that it is one, else the number.

    >>> event_time(1373966880_000, "ms"), event_time(1373966880, "s", with_day=True), event_time(4200, "ms"), event_time(7, "none")
    ('09:28:00', '16 Jul 2013 09:28:00', '4.20 s', '7')
    """
    if ts is None:
        return "the beginning"
    if unit not in NANOSECONDS:
        return f"{ts:.0f}"
    instant = ts * NANOSECONDS[unit] / 10**9
    if not _EARLIEST <= instant <= _LATEST:
        return f"{instant:,.2f} s"
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=instant)
    part = f".{moment.microsecond // 1000:03}" if moment.microsecond >= _THOUSAND else ""
    return f"{moment:%d %b %Y %H:%M:%S}{part}" if with_day else f"{moment:%H:%M:%S}{part}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "worker"), plural(3, "worker")
    ('1 worker', '3 workers')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
