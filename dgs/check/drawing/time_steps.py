"""Time steps between the events of a scenario, for programs that use `event.ts`.

Mistakes at the end of a session, an entry or a window never show if time passes by single ticks only. So time also jumps by the durations
in the program's own code, and a little more. It also stands still, since equal timestamps are common.

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

from dgs.check.drawing.constants import functions_of, values_of
from dgs.model.dependence import Dependence
from dgs.model.events import Event
from dgs.model.outputs import emitted_one_by_one
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.model.user_code import code_objects

__all__ = ["Dependence", "Program", "is_quick", "passes"]

LONGEST_JUMP = 10**15
MOST_JUMPS = 8
SECONDS = 0.002
"""Seconds that an update may take after a jump. A program may handle every window that has passed."""
ATTEMPTS = 3
UNITS = (1, 10**3, 10**6, 10**9)
"""The units in which a `timedelta` may be compared with timestamps, from seconds to nanoseconds."""


def passes(program: Program, samples: Sequence[tuple[Tag, Any]]) -> tuple[int, ...]:
    """Return time steps from one event to the next, the simplest first; (1,) if the program does not use times.

    `samples`: a tag and a payload of every kind, to measure an event after a jump.
    """
    functions = list(functions_of(program))
    if not any(
        "ts" in code.co_names or "ts" in code.co_consts
        for one in functions
        for code in code_objects(one.__code__)
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
    """Return whether an action takes at most `seconds` of this thread, in at least one of a few attempts."""
    for _ in range(ATTEMPTS):
        started = time.thread_time()
        action()
        if time.thread_time() - started <= seconds:
            return True
    return False


def _is_taken(program: Program, samples: Sequence[tuple[Tag, Any]], jump: int) -> bool:
    """Return whether `update` is quick after a jump. Smaller jumps are tried first, since a large one could take forever."""
    sizes = (*takewhile(lambda size: size < jump, (10**power for power in range(1, 16))), jump)
    return all(is_quick(lambda size=size: _jumped(program, samples, size), SECONDS) for size in sizes)  # type: ignore[misc]


def _jumped(program: Program, samples: Sequence[tuple[Tag, Any]], size: int) -> None:
    with suppress(Exception):  # the laws report exceptions of user code
        state, update = program.init(), program.states()[0].update
        for ts in (1, 1 + size):
            for tag, payload in samples:
                event = Event(tag, tag.kind, ts, payload)
                state, _ = emitted_one_by_one(update, state, event, program.emits_columns)


def _ticks(value: Any) -> list[int]:
    if isinstance(value, dt.timedelta):
        return [int(value.total_seconds() * unit) for unit in UNITS]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [int(value)] if is_number and abs(value) <= LONGEST_JUMP else []
