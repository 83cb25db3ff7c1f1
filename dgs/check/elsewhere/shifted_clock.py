"""Another time: Python's clocks, moved on by more than a year, so that every field of a date differs.

If user code reads a clock, two runs at once seldom show it: the date, the hour, even the second are the same. So it runs in a
process whose clocks are moved before its modules are imported. Clocks of other C libraries (NumPy's "now") do not move.

`datetime` must stay the same class, for C extensions, for pickle and for `type(x) is datetime`. So its methods are replaced
in place, which Python allows only by a back door.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import gc
import time
from collections.abc import Callable
from typing import Any

SHIFT = dt.timedelta(days=400, hours=5, minutes=7, seconds=11)

COUNTERS = ("time", "monotonic", "perf_counter")
BROKEN_DOWN = ("localtime", "gmtime")


def move_clocks() -> None:
    """Move the clocks of this process. Functions imported from `time` before keep the real clock."""
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
    _move_datetime()  # date.today() calls time.time


def _later(clock: Callable[[], Any], shift: float) -> Callable[[], Any]:
    return lambda: clock() + shift


def _of_now(broken_down: Callable[[Any], Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda moment=None: broken_down(now() if moment is None else moment)


def _move_datetime() -> None:
    (methods,) = gc.get_referents(vars(dt.datetime))
    methods |= {name: _ahead(methods[name]) for name in ("now", "utcnow")}  # today() calls time.time, too
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(dt.datetime))


def _ahead(method: Any) -> Any:
    return classmethod(lambda cls, *tz, **named: method.__get__(None, cls)(*tz, **named) + SHIFT)
