"""What a running job is told from outside: to stop at a checkpoint, or to move to another plan.

Wishes come as signals (Ctrl-C, SIGTERM) or as a file in the control directory of the run, left by `dgs stop` and `dgs replan`.
Drivers ask now and then; nothing interrupts user code half way, unless it does not come back for longer than a stop may take. A
second Ctrl-C ends the run at once.

>>> import itertools, tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> control = Control(folder, clock=itertools.count().__next__)
>>> control.wish() is None
True
>>> leave_wish(folder, Wish("stop"))
>>> control.wish()
Wish(action='stop', by='dgs stop', plan=None)
>>> control.granted = 7                                    # the epoch that was committed for it
>>> control.take(), control.wish() is None
(7, True)
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

from dgs.errors import OutputUnwritableError

LOOK_EVERY = 0.2
"""Seconds between two looks at the control directory."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`stop`: commit and end; `replan`: commit and go on under the plan of the plan file `plan`. `by`: who wants it."""

    action: Literal["stop", "replan"]
    by: str = "dgs stop"
    plan: str | None = None


class Control:
    """The wishes of one run. Without a directory only signals count.

    A wish waits, over restarts too, until somebody takes it. `granted`: the epoch that was committed for it.
    """

    def __init__(self, directory: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._next_look = 0.0
        self._signal: Wish | None = None
        self._waiting: Wish | None = None
        self.granted: int | None = None

    def wish(self) -> Wish | None:
        """Return what is wanted, if anything is: a signal goes before a file, and to stop before anything else."""
        if self._signal is not None:
            return self._signal
        if self._directory is not None and self._clock() >= self._next_look:
            self._next_look = self._clock() + LOOK_EVERY
            if self._waiting is None or self._waiting.action != "stop":
                self._waiting = _oldest(self._directory, "stop") or self._waiting
            if self._waiting is None:
                self._waiting = _oldest(self._directory, "replan")
        return self._waiting

    def take(self) -> int | None:
        """Take the wish away; return the epoch that was committed for it, None if none was."""
        granted, self.granted, self._waiting = self.granted, None, None
        return granted

    @contextmanager
    def listening(self, *, patience: float) -> Iterator[None]:
        """Take SIGINT and SIGTERM as the wish to stop while the context lasts; only the main thread can.

        The second signal does what it did before: it interrupts. So does the first, after `patience` seconds, if the run has not
        ended by then. One that was ignored stays so: Ctrl-C is not for a job that a script runs in the background.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

        def note(number: int, _frame: FrameType | None) -> None:
            self._signal = Wish("stop", signal.Signals(number).name)
            restore()
            signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(number))
            signal.setitimer(signal.ITIMER_REAL, patience)

        def restore() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in before:
            signal.signal(number, note)
        try:
            yield
        finally:
            restore()


def leave_wish(directory: Path, wish: Wish) -> None:
    """Leave a wish for the run that looks into a directory, beside those that others leave. Raises OutputUnwritableError."""
    name = f"wish-{time.time_ns():020}-{os.getpid()}.{wish.action}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f"{name}.draft"
        draft.write_text(json.dumps(asdict(wish)), encoding="utf-8")
        draft.replace(directory / name)
    except OSError as error:
        raise OutputUnwritableError(path=directory, problem=error.strerror or str(error)) from None


def forget_wishes(directory: Path) -> None:
    """Remove what was left for a run that ended before it looked."""
    for path in directory.glob("wish-*"):
        path.unlink(missing_ok=True)


def _oldest(directory: Path, action: str) -> Wish | None:
    """Take away the wish of its kind that was left first."""
    for path in sorted(directory.glob(f"wish-*.{action}")):
        wish = _taken(path)
        if wish is not None:
            return wish
    return None


def _taken(path: Path) -> Wish | None:
    try:
        text = path.read_text(encoding="utf-8")
        path.unlink()
        return Wish(**json.loads(text))
    except (
        OSError,
        ValueError,
        TypeError,
    ):  # it is gone with its directory, or nobody left it with `leave_wish`
        return None
