"""Time steps between the events of a scenario, for programs that look at `event.ts`.

A session that never ends, an entry that never expires and a window that never closes hide every mistake there is in ending,
expiring and closing. So time does not pass by single ticks only: it jumps by the durations that the program's own code names, it
goes a bit beyond them, and it stands still, since equal timestamps are common.

>>> TTL = 60_000
>>> class Dedup(Program):
...     def init(self): return {}
...     def update(self, state, event, emit):
...         if event.ts - state.get(event.tag.key, 0) > TTL: emit(event.payload)
...         return {**state, event.tag.key: event.ts}
>>> passes(Dedup(), [])
(1, 1, 1, 0, 60000, 60001)
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from dgs.check.drawing.constants import codes_of, functions_of, values_of
from dgs.model.dependence import Dependence
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tags import Tag

__all__ = ["Dependence", "Program", "is_quick", "passes"]

LONGEST_JUMP = 10**15
MOST_JUMPS = 8
SECONDS = 0.002
"""What an update after a jump may take: a program may count every window that has passed."""
ATTEMPTS = 3
UNITS = (1, 10**3, 10**6, 10**9)
"""What a `timedelta` may be compared with: seconds, and so on to nanoseconds."""


def passes(program: Program, samples: Sequence[tuple[Tag, Any]]) -> tuple[int, ...]:
    """Return by how much time may pass from one event to the next, what is simplest first; (1,) if the program does not look.

    `samples`: a tag and a payload of every kind, to try how long an event after a jump takes.
    """
    functions = list(functions_of(program))
    if not any(
        "ts" in code.co_names or "ts" in code.co_consts
        for one in functions
        for code in codes_of(one.__code__)
    ):
        return (1,)
    named = sorted(
        {
            found
            for value in values_of(program, functions)
            for found in _ticks(value)
            if 1 < found <= LONGEST_JUMP
        }
    )
    jumps = [jump for found in named[-MOST_JUMPS // 2 :] for jump in (found, found + 1)]
    jumps = list(takewhile(lambda jump: _is_taken(program, samples, jump), jumps))
    ticks = max(3, len(jumps))
    return (*[1] * ticks, *[0] * (ticks // 3), *jumps)


def is_quick(action: Callable[[], Any], seconds: float) -> bool:
    """Return whether something takes at most so many seconds of this thread, once of a few times at least."""
    for _ in range(ATTEMPTS):
        started = time.thread_time()
        action()
        if time.thread_time() - started <= seconds:
            return True
    return False


def _is_taken(program: Program, samples: Sequence[tuple[Tag, Any]], jump: int) -> bool:
    """Try larger and larger jumps, up to this one: if it takes ever longer, a large one would take forever."""
    sizes = (*takewhile(lambda size: size < jump, (10**power for power in range(1, 16))), jump)
    return all(is_quick(lambda size=size: _jumped(program, samples, size), SECONDS) for size in sizes)  # type: ignore[misc]


def _jumped(program: Program, samples: Sequence[tuple[Tag, Any]], size: int) -> None:
    ignore: Callable[[Any], None] = [].append
    with suppress(Exception):  # what user code raises is for the laws to find
        state, update = program.init(), program.states()[0].update
        for ts in (1, 1 + size):
            for tag, payload in samples:
                state = update(state, Event(tag, tag.kind, ts, payload), ignore)


def _ticks(value: Any) -> list[int]:
    if isinstance(value, dt.timedelta):
        return [int(value.total_seconds() * unit) for unit in UNITS]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [int(value)] if is_number and abs(value) <= LONGEST_JUMP else []
