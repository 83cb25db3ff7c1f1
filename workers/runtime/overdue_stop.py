"""Overdue stops: user code that keeps a host in this process for longer than a stop may take is interrupted.

One thread does all the work of a local run, so a slow sink or `update` keeps it from seeing the request of `dgs stop`. Another thread
watches for the request. When the time is over, it interrupts the work: by a signal in the main thread, else when the current call returns.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from dgs.errors.raised import Interruption
from dgs.workers.runtime.control import LOOK_EVERY, is_main_thread

NUMBER = signal.SIGURG
"""By default it does nothing, so one that comes late does no harm."""


class OverdueStopError(Interruption):
    """The time for a stop is over, within user code, which does not catch this as one of its errors."""

    def __str__(self) -> str:
        return "user code has kept the run for longer than `runtime.stop_timeout` and is interrupted"


class OverdueStop:
    """Interrupts the work of a thread once a stop is asked for and `patience` seconds have passed."""

    def __init__(self, is_asked: Callable[[], bool], *, patience: float) -> None:
        self._is_asked, self._patience = is_asked, patience
        self._is_overdue = self._works = False
        self._has_ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for a stop inside this context. The thread that enters it is the one that works."""
        by_signal = is_main_thread()
        known = signal.signal(NUMBER, self._interrupt) if by_signal else None
        watch = threading.Thread(
            target=self._watch, args=[threading.get_ident() if by_signal else None], daemon=True
        )
        watch.start()
        try:
            yield
        finally:
            self._has_ended.set()
            watch.join()
            if by_signal:
                signal.signal(NUMBER, signal.SIG_DFL if known is None else known)  # None: one of C code

    @contextmanager
    def work(self) -> Iterator[None]:
        """Let the work inside this context be interrupted. Raises OverdueStopError."""
        self._works = True
        try:
            self.check()
            yield
        finally:
            self._works = False

    def check(self) -> None:
        """Raise OverdueStopError if the time is over."""
        if self._is_overdue:
            raise OverdueStopError

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._works:
            self.check()

    def _watch(self, worker: int | None) -> None:
        asked: float | None = None
        while not self._has_ended.wait(LOOK_EVERY):
            if asked is None and self._is_asked():
                asked = time.monotonic()
            if asked is not None and time.monotonic() - asked > self._patience:
                self._is_overdue, asked = True, time.monotonic()
                if worker is not None:  # and again later, since user code may catch everything
                    signal.pthread_kill(worker, NUMBER)
