"""A stopwatch that does not count the time in which other processes have the core, and the pace of the core."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

REPETITIONS = 3
"""Measurements of one call, of which the fastest counts: the first looks up functions of NumPy, and others are interrupted."""

ITERATIONS = 10_000
"""The iterations of the loop whose seconds are the pace."""

PACE = 0.36e-3
"""The pace for which costs are kept: that of a fast core of the machine on which typical costs were measured."""

FASTEST, SLOWEST = 1e-6, 1.0
"""A pace is between these."""


class Stopwatch:
    """Measures seconds since it was made, without those in which other processes had the core.

    Waiting, for a disk or in `sleep`, gives the core up voluntarily, and counts.
    """

    def __init__(self) -> None:
        self._waits, self._wall, self._work = _waits(), time.perf_counter(), time.thread_time()

    def seconds(self) -> float:
        """Return the seconds so far."""
        wall, work = time.perf_counter() - self._wall, time.thread_time() - self._work
        return wall if _waits() > self._waits else min(wall, work)


def _waits() -> int:
    """Return how often this thread has given up its core; if that is not known, this process."""
    return _usage().ru_nvcsw


def losses() -> int:
    """Return how often this thread has lost its core to another one; if that is not known, this process."""
    return _usage().ru_nivcsw


def _usage() -> resource.struct_rusage:
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))


def pace() -> float:
    """Return the seconds that a loop in Python takes now. A core of a virtual machine may take 1.4 times as long for some minutes."""
    return least(_loop, seconds=0.0)


def possible_pace(number: float) -> float:
    """Return a number that may be a pace. Raises ValueError if it is none, TypeError for what is no number."""
    if not FASTEST < number < SLOWEST:
        raise ValueError(number)
    return float(number)


def _loop() -> float:
    began, total = time.perf_counter(), 0
    for i in range(ITERATIONS):
        total += i
    return time.perf_counter() - began


def least(measure: Callable[[], float], seconds: float) -> float:
    """Return the least of some measurements; more are made until `seconds` have passed.

    >>> least(iter([3.0, 1.0, 2.0]).__next__, seconds=0.0)
    1.0
    """
    began, found = time.perf_counter(), [measure() for _ in range(REPETITIONS)]
    while time.perf_counter() - began < seconds:
        found.append(measure())
    return min(found)
