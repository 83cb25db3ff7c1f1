"""Programs to be killed: one whose outputs show every event once, one with a large state.

>>> from dgs.semantics.sequential import run
>>> from dgs.model.events import EventBatch
>>> batches = [
...     EventBatch.of("barriers", rank=0, tags=[BARRIER()], ts=[2]),
...     EventBatch.of("values", rank=1, tags=[VALUE()], ts=[1], payload=[7]),
... ]
>>> [output.value for output in run(Ledger(), [[batch] for batch in batches]).outputs]
[7, [1, 7]]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs import ALWAYS, Dependence, EventBatch, Program, kind

BARRIER, VALUE = kind("barrier"), kind("value")
Counts = npt.NDArray[np.int64]


class Ledger(Program):
    """Outputs every value, and at each barrier the count and sum of the values since the last.

    `pause`, `barrier_pause`: seconds per value and per barrier. `note`: changes nothing.
    """

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def __init__(self, pause: float = 0.0, barrier_pause: float = 0.0, note: str = "") -> None:
        """Set the pauses and the note."""
        self.pause, self.barrier_pause, self.note = pause, barrier_pause, note

    def init(self) -> tuple[int, int]:
        """Return count and sum 0."""
        return 0, 0

    identity = init

    def update(self, state: tuple[int, int], event: Any, emit: Callable[[Any], None]) -> tuple[int, int]:
        """Count and sum a value, or output both at a barrier and start again."""
        if event.tag.kind == BARRIER:
            time.sleep(self.barrier_pause)
            emit(list(state))
            return 0, 0
        if self.pause:
            time.sleep(self.pause)
        emit(event.payload)
        return state[0] + 1, state[1] + event.payload

    def join(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        """Add up."""
        return left[0] + right[0], left[1] + right[1]


class Table(Program):
    """A table of `size` counters of 8 bytes: a value increments one `rounds` times, a barrier outputs the sum."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def __init__(self, size: int = 1_250_000, rounds: int = 1) -> None:
        """Set the size of the table and the rounds."""
        self.size, self.rounds = size, rounds

    def init(self) -> Counts:
        """Return zeros."""
        return np.zeros(self.size, dtype=np.int64)

    identity = init

    def update(self, state: Counts, event: Any, emit: Callable[[Any], None]) -> Counts:
        """Count one value."""
        if event.tag.kind == BARRIER:
            emit(int(state.sum()))
        else:
            state[event.payload % self.size] += self.rounds
        return state

    def update_batch(self, state: Counts, batch: EventBatch, emit_batch: Callable[..., None]) -> Counts:
        """Count many values."""
        if batch.tags[0].kind == BARRIER or len(batch.tags) > 1:
            return super().update_batch(state, batch, emit_batch)
        places = np.asarray(batch.payload) % self.size
        for _ in range(self.rounds):
            np.add.at(state, places, 1)
        return state

    def join(self, left: Counts, right: Counts) -> Counts:
        """Add up."""
        return left + right


def values(events: int, window: int) -> Iterator[dict[str, Counts]]:
    """Yield `events` values, one per unit of time, a window at a time."""
    payload = np.random.default_rng(1).integers(0, 2**40, window)
    for start in range(0, events, window):
        yield {"ts": np.arange(start, min(start + window, events)), "payload": payload[: events - start]}


def barriers(events: int, window: int) -> Iterator[dict[str, Counts]]:
    """Yield the barriers of `events` values: one at the end of each window."""
    yield {"ts": np.arange(window, events + 1, window)}


def slow_sink(batch: Any) -> None:
    """Take a millisecond for every output."""
    time.sleep(0.001 * len(batch))
