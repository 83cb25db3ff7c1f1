"""Crashes at a line: what a method leaves behind when its process ends in the middle, at every line of it in turn.

Only lines of the file of the object's class count. What its `with` and `finally` do is done all the same, as a database does it for
a process that is gone.

>>> crashes_at(2, print, lambda: None)
False
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

MOST_LINES = 400
"""Lines at which crashes are tried, in one call."""


class Crashed(BaseException):
    """The process has ended here."""


def crashes_at(number: int, owner: object, call: Callable[[], Any]) -> bool:
    """Call a function, and end it at the line of a number (from 1) in the file of the owner's class; return whether it came so far."""
    file = getattr(sys.modules.get(type(owner).__module__), "__file__", None)
    left = number

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise Crashed
        return trace

    before, has_crashed = sys.gettrace(), False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a process that ends closes nothing
        sys.settrace(trace)
        try:
            call()
        except Crashed:
            has_crashed = True
        finally:
            sys.settrace(before)
        if has_crashed:
            gc.collect()
    return has_crashed
