"""Another time: Python's clocks, moved on by more than a year, so that every field of a date is another.

User code that looks at a clock seldom shows it when it is run twice at once: the date, the hour, even the second are the same. It is
run in a process where `time` is moved before its modules are imported, and `datetime` afterwards, in these modules only: C extensions
(pandas, pyarrow) must find the true class, and so must pickle. Clocks of other C libraries (NumPy's "now") stay.

>>> moved = moved_datetime(dt.timedelta(days=400))
>>> (moved.now() - dt.datetime.now()).days in (399, 400), isinstance(dt.datetime(2024, 1, 1), moved)
(True, True)
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, cast

SHIFT = dt.timedelta(days=400, hours=5, minutes=7, seconds=11)

COUNTERS = ("time", "monotonic", "perf_counter")
BROKEN_DOWN = ("localtime", "gmtime")


def move_clocks() -> None:
    """Move the clocks in `time`. What was imported from it before keeps its own."""
    seconds = SHIFT.total_seconds()
    nanoseconds = round(seconds) * 10**9
    now = time.time
    for name in COUNTERS:
        setattr(time, name, _later(getattr(time, name), seconds))
        setattr(time, f"{name}_ns", _later(getattr(time, f"{name}_ns"), nanoseconds))
    for name in BROKEN_DOWN:
        setattr(time, name, _of_now(getattr(time, name), lambda: now() + seconds))
    formatted, local = time.strftime, time.localtime
    vars(time)["strftime"] = lambda form, moment=None: formatted(form, local() if moment is None else moment)
    vars(time)["ctime"] = lambda moment=None: time.asctime(local(moment))


def move_datetimes(modules: Iterable[ModuleType]) -> None:
    """Give modules a `datetime` that is ahead, the class or the module, whatever they call it. `date.today` asks `time`."""
    moved = ModuleType("datetime")
    vars(moved).update(vars(dt) | {"datetime": moved_datetime(SHIFT)})
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is dt:
                setattr(module, name, moved)
            elif value is dt.datetime:
                setattr(module, name, vars(moved)["datetime"])


def _later(clock: Callable[[], Any], shift: float) -> Callable[[], Any]:
    return lambda: clock() + shift


def _of_now(broken_down: Callable[[Any], Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda moment=None: broken_down(now() if moment is None else moment)


def moved_datetime(shift: dt.timedelta) -> type[dt.datetime]:
    """Return a class that stands for `datetime`, makes true datetimes, and is ahead in what it takes for now."""
    real = dt.datetime

    class Meta(type):
        def __instancecheck__(cls, one: object) -> bool:
            return isinstance(one, real)

        def __subclasscheck__(cls, one: type) -> bool:
            return issubclass(one, real)

        def __getattr__(cls, name: str) -> Any:
            return getattr(real, name)

    class Moved(metaclass=Meta):
        def __new__(cls, *fields: Any, **named: Any) -> Any:
            return real(*fields, **named)

        @staticmethod
        def now(tz: dt.tzinfo | None = None) -> dt.datetime:
            return real.now(tz) + shift

        @staticmethod
        def today() -> dt.datetime:
            return real.now() + shift

        @staticmethod
        def utcnow() -> dt.datetime:
            return real.now(dt.UTC).replace(tzinfo=None) + shift

    Moved.__name__ = Moved.__qualname__ = "datetime"
    return cast("type[dt.datetime]", Moved)
