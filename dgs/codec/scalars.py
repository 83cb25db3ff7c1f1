"""Forms of Python's own types that msgpack lacks: times, exact numbers, the containers of `collections`.

Time zones travel as a fixed offset, as the name of a zone, or as pytz makes them. A `defaultdict` travels if its factory is one of a
closed list of builtins.

>>> from dgs import codec
>>> codec.decode(codec.encode(deque([1, 2], maxlen=5)))
deque([1, 2], maxlen=5)
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from dgs.codec.forms import Form, require
from dgs.errors import CodecError

FACTORIES = {one.__name__: one for one in (int, float, str, list, dict, set, tuple, bool)}


PYTZ = ("_p", "_UTC", "FixedOffset")
"""The functions with which pytz makes its zones from plain values."""


def zone_form(zone: Any) -> Any:
    """Return a time zone as plain values. Raises CodecError."""
    if zone is None:
        return None
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [offset, *name]
    if type(zone).__module__.partition(".")[0] == "pytz":
        made_by, parts = zone.__reduce__()[:2]
        return {made_by.__name__: parts}
    raise CodecError(
        problem=f"cannot encode the time zone {zone!r}; use zoneinfo.ZoneInfo or datetime.timezone"
    )


def zone_back(zone: Any) -> tzinfo | None:
    """Return the time zone of plain values."""
    if zone is None:
        return None
    if isinstance(zone, dict):
        ((made_by, parts),) = zone.items()
        return _pytz_zone(made_by, parts)
    return ZoneInfo(zone) if isinstance(zone, str) else timezone(*zone)


def _pytz_zone(made_by: str, parts: Any) -> tzinfo:
    import pytz

    if made_by not in PYTZ:
        raise CodecError(problem=f"pytz makes no time zone by {made_by}")
    zone: tzinfo = getattr(pytz, made_by)(*parts)
    return zone


def _clock(value: datetime | time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, zone_form(value.tzinfo), value.fold]


def _from_datetime(content: Any) -> datetime:
    year, month, day, *clock = content
    return datetime.combine(date(year, month, day), _from_time(clock))


def _from_time(content: Any) -> time:
    hour, minute, second, microsecond, zone, fold = content
    return time(hour, minute, second, microsecond, zone_back(zone), fold=fold)


def _from_ratio(content: Any) -> Fraction:
    above, below = content
    return Fraction(require(above, int), require(below, int))


def _factory_name(value: defaultdict[Any, Any]) -> str | None:
    factory = value.default_factory
    for name, known in FACTORIES.items():
        if factory is known:
            return name
    if factory is None:
        return None
    raise CodecError(
        problem=f"cannot encode a defaultdict of {factory!r}; use one of {', '.join(FACTORIES)}, or a dict"
    )


def _from_defaultdict(content: Any) -> defaultdict[Any, Any]:
    name, entries = content
    return defaultdict(None if name is None else FACTORIES[name], entries)


FORMS = (
    Form(10, (datetime,), lambda value: [value.year, value.month, value.day, *_clock(value)], _from_datetime),
    Form(11, (date,), lambda value: [value.year, value.month, value.day], lambda content: date(*content)),
    Form(12, (time,), _clock, _from_time),
    Form(
        13,
        (timedelta,),
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda content: timedelta(*content),
    ),
    Form(14, (Decimal,), str, lambda content: Decimal(require(content, str)), is_raw=True),
    Form(15, (Fraction,), lambda value: list(value.as_integer_ratio()), _from_ratio),
    Form(16, (complex,), lambda value: [value.real, value.imag], lambda content: complex(*content)),
    Form(17, (UUID,), lambda value: value.bytes, lambda content: UUID(bytes=content), is_raw=True),
    Form(18, (bytearray,), bytes, lambda content: bytearray(require(content, bytes)), is_raw=True),
    Form(
        20, (deque,), lambda value: [value.maxlen, list(value)], lambda content: deque(content[1], content[0])
    ),
    Form(21, (Counter,), dict, Counter),
    Form(22, (OrderedDict,), lambda value: list(map(list, value.items())), OrderedDict),
    Form(23, (defaultdict,), lambda value: [_factory_name(value), dict(value)], _from_defaultdict),
)
