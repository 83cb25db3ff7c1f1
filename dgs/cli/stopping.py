"""The stop of the command line by a signal: an exception, from the first moment on, and its exit code.

This module imports almost nothing, since signals also come while the verbs are imported.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal has asked the process to end. It stops as after Ctrl-C. `exit_code`: 128 plus the number of the signal.

    After a plain KeyboardInterrupt in `exec`, for example in an import, Python ends by the signal and ignores the exit code.
    """

    def __init__(self, number: int) -> None:
        """Take the number of the signal."""
        super().__init__()
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped for a signal that asks the process to end, inside this context, unless the signal is ignored."""
    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in known.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def stopped_early(error: KeyboardInterrupt) -> SystemExit:
    """Print that a signal came before a verb had begun, and return the exit."""
    sys.stderr.write("dgs was stopped before it had begun\n")
    return SystemExit(exit_code_of(error))


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """Return the exit code of a process that a signal has stopped."""
    return stopped.exit_code if isinstance(stopped, Stopped) else 128 + signal.SIGINT
