"""The clock, the machine, the memory and the signals of a process of ours.

The clock does not jump, freed memory stays, garbage is collected rarely, and signals end the process.

The clock is for times that several processes compare. Unlike `time.time()`, it measures intervals correctly even if the machine's clock is
set meanwhile. Between processes it is as exact as the machine's clock was when they began.

By default, the allocator of glibc returns every large array to the system when it is freed. A page that comes back is zeroed and
mapped again. That takes 3 us, which is longer than computing on the page. A signal that asks a command to end does so from its first
moment, even during imports, until a run handles signals itself.

>>> before = now()
>>> 0 <= now() - before < 60
True
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

_BEGINNING = time.time() - time.monotonic()

KEPT_BYTES = 256 << 20
"""The bytes of freed memory to keep at the end of the heap."""

HEAP_BYTES = 32 << 20
"""Arrays up to this size come from the heap. An older glibc refuses a value over 32 MiB, and then keeps its limit of 128 KiB."""

NEW_OBJECTS = 5000
"""The least number of new containers between two garbage collections during a run. Python's 700 mean hundreds of collections while a batch
of rows is read, which is then visited again and again, although it is in no cycle. More than 5,000 gain no more."""

LOOK_SECONDS = 0.001
"""Seconds between two checks whether C code has changed the handlers of signals."""

LARGEST_BYTES = 512
"""More than `struct sigaction` has on any system."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def now() -> float:
    """Return the seconds since 1970-01-01 UTC, read once at the start and counted on without jumps."""
    return _BEGINNING + time.monotonic()


def this_machine() -> str:
    """Return the name of this machine, with its kind of processor and the number of its cores."""
    return f"{platform.node()} ({platform.machine()}, {os.cpu_count()} cores)"


@contextmanager
def rarer_collections() -> Iterator[None]:
    """Collect garbage less often meanwhile, unless that is set already."""
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold() == (NEW_OBJECTS, *before[1:]):  # nobody else has set it meanwhile
            gc.set_threshold(*before)


def keep_freed_memory() -> None:
    """Set the allocator of this process to keep freed memory. Without glibc, nothing happens.

    Call this only in our own processes (hosts and the command line), not in a user's process that imports dgs.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # the C library is not glibc
            allocator = ctypes.CDLL(None).mallopt
            allocator(_M_TRIM_THRESHOLD, KEPT_BYTES)
            allocator(_M_MMAP_THRESHOLD, HEAP_BYTES)


class Stopped(KeyboardInterrupt):
    """A signal has asked the process to end. The process stops as after Ctrl-C. `exit_code`: 128 plus the number of the signal.

    A class of its own, since Python ignores the exit code after a plain KeyboardInterrupt in `exec`, for example in an import.
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


came: list[int] = []
"""The signals that have asked the process to end, also those whose exception other code has swallowed, such as an import."""


def _stop(number: int, _frame: FrameType | None) -> None:
    came.append(number)
    raise Stopped(number)


def check_not_stopped() -> None:
    """Raise Stopped if a signal has come, even if its exception was swallowed."""
    if came:
        raise Stopped(came[0])


@contextmanager
def kept_in_c(numbers: Sequence[int]) -> Iterator[Callable[[], None]]:
    """Set the handlers of these signals again whenever C code has changed them; yield a function that ends this early.

    Ray's C++ part sets a handler for SIGTERM as it starts. As it ends, it restores the default: for a second, until `ray.shutdown` returns,
    a SIGTERM would end the process without a message. Python can set handlers only in its main thread, which waits for Ray just then.
    """
    try:
        sigaction = ctypes.CDLL(None).sigaction
    except (OSError, TypeError, AttributeError):  # Windows
        yield lambda: None
        return

    def handler_of(number: int) -> ctypes.Array[ctypes.c_char]:
        found = ctypes.create_string_buffer(LARGEST_BYTES)
        sigaction(number, None, found)
        return found

    ours, is_over, turn = (
        {number: handler_of(number) for number in numbers},
        threading.Event(),
        threading.RLock(),
    )

    def keep() -> None:
        while not is_over.wait(LOOK_SECONDS):
            with turn:
                for number, handler in () if is_over.is_set() else ours.items():
                    if handler_of(number).raw != handler.raw:
                        sigaction(number, handler, None)

    def let_go() -> None:
        with turn:
            is_over.set()

    threading.Thread(target=keep, daemon=True, name="signals").start()
    try:
        yield let_go
    finally:
        let_go()
