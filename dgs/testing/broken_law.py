"""A broken law of a connector as an error, `LawBroken`, with the law and the problem; and crashes at a line of a call.

>>> raise LawBroken("source", object(), "order", "row 3 has the time 5, after 7")
Traceback (most recent call last):
dgs.testing.broken_law.LawBroken: source object breaks the law `order`: row 3 has the time 5, after 7
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from dgs.errors.raised import Interruption


class LawBroken(AssertionError):  # noqa: N818 - a finding of a test, as OutputsDiffer is
    """A connector breaks a law of its contract. `law`: its name, as in `dgs.connectors` and docs/connectors.md."""

    def __init__(self, role: str, connector: object, law: str, problem: str) -> None:
        self.role, self.law, self.problem = role, law, problem
        super().__init__(f"{role} {type(connector).__name__} breaks the law `{law}`: {problem}")


MOST_LINES = 400
"""The most lines of one call at which a crash is tried."""


class Crashed(Interruption):
    """The process ends here."""


def crashes_at(number: int, owner: object, call: Callable[[], Any]) -> bool:
    """Call a function, and end it at its line `number` (from 1) in the file of the owner's class; return whether that line was reached.

    It is as if the process had died there, but `with` and `finally` blocks still run, as a database cleans up after a dead
    process.

    >>> crashes_at(2, print, lambda: None)
    False
    """
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
        warnings.simplefilter("ignore", ResourceWarning)  # a process that dies closes nothing
        sys.settrace(trace)
        try:
            call()
        except Crashed:
            has_crashed = True
        finally:
            sys.settrace(before)
        if has_crashed:
            gc.collect(1)  # objects that the call has made are young
    return has_crashed
