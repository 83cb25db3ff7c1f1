"""Requests to a running job from outside: to stop at a checkpoint, or to move to another plan.

A request is a signal (Ctrl-C, SIGTERM), or a file that `dgs stop` or `dgs replan` posts into the control directory of the run.
Drivers look for requests now and then. User code is interrupted only if it runs for longer than a stop may take, or by a second
Ctrl-C, which ends the run at once.

>>> import itertools, tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> control = Control(folder, clock=itertools.count().__next__)
>>> control.pending() is None
True
>>> post(folder, ControlRequest("stop"))
>>> control.pending()
ControlRequest(action='stop', by='dgs stop', plan=None)
>>> control.take()
>>> control.pending() is None
True

One thread does all the work of a local run, so a slow sink or `update` keeps it from seeing the request of `dgs stop`. Another thread
watches for the request. After the time limit it interrupts the work: by a signal in the main thread, else when the current call returns.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from dgs.errors import OutputUnwritableError
from dgs.errors.raised import Interruption
from dgs.job import private_files
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime.process import kept_in_c

LOOK_EVERY = 0.2
"""Seconds between two looks at the control directory."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the request of a process supervisor, and the end of the terminal."""

Handler = Callable[[int, FrameType | None], Any]


def is_main_thread() -> bool:
    """Return whether this thread may set handlers."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handled(handler: Handler) -> Iterator[Callable[[], None]]:
    """Let a handler take the signals of `ENDING` inside this context; yield a function that restores the previous handlers.

    An ignored signal stays ignored: a job that a script runs in the background ignores Ctrl-C, and a job under `nohup` ignores the end of
    the terminal. Only the main thread can set handlers; in any other thread this does nothing.
    """
    numbers = ENDING if is_main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: known for number, known in before.items() if known not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, known in before.items():
            signal.signal(number, known)

    for number in before:
        signal.signal(number, handler)
    try:
        yield restore
    finally:
        restore()


@contextmanager
def deferred(*, all_of_them: bool = False) -> Iterator[None]:
    """Delay the effect of a signal to the end of this context. A second signal acts at once, unless `all_of_them` have to wait.

    At the end the previous handlers are back, even if code inside has set others. Handlers that C code sets are undone at once.
    """
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1 and not all_of_them:
            let_go()
            restore()
            signal.raise_signal(number)

    alarm = signal.getsignal(signal.SIGALRM)
    with handled(note) as restore, kept_in_c(ENDING if is_main_thread() else ()) as let_go:
        try:
            yield
        finally:
            if is_main_thread():
                signal.signal(signal.SIGALRM, alarm)
    if came:
        signal.raise_signal(came[0])


class Control:
    """The requests to one run. Without a directory only signals count. A request stays pending, over restarts, until `take`."""

    def __init__(self, directory: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._next_look = 0.0
        self._listens = False
        self._signal: ControlRequest | None = None
        self._waiting: ControlRequest | None = None

    def pending(self) -> ControlRequest | None:
        """Return the request to act on next, if any. A signal comes before a file, and a stop before a move."""
        if self._signal is not None:
            return self._signal
        if self._directory is not None and self._clock() >= self._next_look:
            self._next_look = self._clock() + LOOK_EVERY
            if self._waiting is None or self._waiting.action != "stop":
                self._waiting = _oldest(self._directory, "stop") or self._waiting
            if self._waiting is None:
                self._waiting = _oldest(self._directory, "replan")
        return self._waiting

    def take(self) -> None:
        """Remove the pending request, since it has been met."""
        self._waiting = None

    @contextmanager
    def listening(self, *, patience: float) -> Iterator[None]:
        """Take the signals of `ENDING` as requests to stop inside this context. In other threads than the main one, do nothing.

        A second signal acts as before: it interrupts. So does the first, after `patience` seconds, if the run has not ended by
        then. A KeyboardInterrupt that leaves this context has the exit code of the first one.
        """

        def note(number: int, _frame: FrameType | None) -> None:
            self._signal = ControlRequest("stop", signal.Signals(number).name)
            restore()
            signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(number))
            signal.setitimer(signal.ITIMER_REAL, patience)

        alarm = signal.getsignal(signal.SIGALRM)
        self._listens = True
        with handled(note) as restore:
            try:
                yield
            except KeyboardInterrupt as error:
                # Ray's C++ part raises a plain one
                if self._signal is not None and not hasattr(error, "exit_code"):
                    error.exit_code = 128 + signal.Signals[self._signal.by]  # type: ignore[attr-defined]
                raise
            finally:
                if is_main_thread():
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, alarm)

    def leave_in_peace(self) -> None:
        """Let the first signal interrupt no more: the run has ended, and outputs that were lost now would not be made again."""
        if self._signal is not None and is_main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)

    def is_to_stop(self) -> bool:
        """Return whether there is a request to stop, and leave it where it is. Another thread may call this."""
        waiting = self._signal or self._waiting
        if waiting is not None and waiting.action == "stop":
            return True
        return self._directory is not None and any(self._directory.glob("request-*.stop"))

    @property
    def can_be_asked(self) -> bool:
        """Whether a request can come: there is a directory for it, or signals are listened to."""
        return self._directory is not None or self._listens

    @property
    def is_signalled(self) -> bool:
        """Whether a signal has asked the run to stop. Then its process may have little time left."""
        return self._signal is not None


def post(directory: Path, request: ControlRequest) -> None:
    """Write a request into the control directory of a run, beside the requests of others. Raises OutputUnwritableError."""
    name = f"request-{time.time_ns():020}-{os.getpid()}.{request.action}"
    try:
        private_files.make_directory(directory)
        private_files.write(directory / name, json.dumps(asdict(request)))
    except OSError as error:
        raise OutputUnwritableError(path=directory, problem=error.strerror or str(error)) from None


def forget_requests(directory: Path) -> None:
    """Remove requests to a run that ended before it saw them."""
    for path in directory.glob("request-*"):
        path.unlink(missing_ok=True)


def _oldest(directory: Path, action: str) -> ControlRequest | None:
    """Remove and return the oldest request of a kind."""
    for path in sorted(directory.glob(f"request-*.{action}")):
        request = _taken(path)
        if request is not None:
            return request
    return None


def _taken(path: Path) -> ControlRequest | None:
    try:
        text = private_files.read_text(path)
        path.unlink()
        return ControlRequest(**json.loads(text))
    except (
        OSError,
        ValueError,
        TypeError,
    ):  # the file is gone with its directory, or `post` did not write it
        return None


NUMBER = signal.SIGURG
"""By default the signal does nothing, so a late one does no harm."""


class OverdueStopError(Interruption):
    """The time for a stop is over, and user code or a sink is still at work. User code does not catch this as an Exception."""

    def __str__(self) -> str:
        return (
            "user code or a sink has kept the run for longer than `runtime.stop_timeout` and is interrupted"
        )


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
                signal.signal(NUMBER, signal.SIG_DFL if known is None else known)  # None: C code has set it

    @contextmanager
    def work(self) -> Iterator[None]:
        """Let the work inside this context be interrupted. Raises OverdueStopError."""
        self._works = True
        try:
            self.check()
            yield
        finally:
            self._works = False

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Let a part of the work not be interrupted."""
        self._works = False
        try:
            yield
        finally:
            self._works = True

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
                if worker is not None:  # repeated, since user code may catch everything
                    signal.pthread_kill(worker, NUMBER)
