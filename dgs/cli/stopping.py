"""The stop of the command line by a signal: an exception, from its first moment on, and the exit code that belongs to it.

It imports next to nothing: signals come while the verbs are imported, too.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal arrived that asks the process to end: stop as after Ctrl-C. `exit_code`: 128 and the number of the signal.

    A plain KeyboardInterrupt that passes through `exec`, say in an import, lets Python end by the signal, whatever exit code is given.
    """

    def __init__(self, number: int) -> None:
        """Take the number of the signal."""
        super().__init__()
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped for a signal that asks the process to end while the block lasts, unless it is ignored."""
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
    """Say that a signal came before a verb had begun, and return the exit."""
    sys.stderr.write("dgs was stopped before it had begun\n")
    return SystemExit(exit_code_of(error))


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """Return the exit code of a process that a signal has stopped."""
    return stopped.exit_code if isinstance(stopped, Stopped) else 128 + signal.SIGINT
