"""Event-based windowing: the sum of the values between every two barriers (Section 4.1).

The window is not a span of time: it ends when the barrier says so. Values only add up, so they *accumulate*: no fork
has to be written, and many windows can be in flight at once.

>>> from dgs import Event
>>> program, outputs = EventWindow(), []
>>> state = program.init()
>>> for tag, payload in [(VALUE(), 3), (VALUE(), 4), (BARRIER(), 0), (VALUE(), 5), (BARRIER(), 1)]:
...     state = program.update(state, Event(tag, "input", 0, payload), outputs.append)
>>> outputs
[7, 5]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dgs
from dgs.columns import Column
from dgs.monoids import SUM
from dgs.vectorised import by_kind, one_by_one

VALUE = dgs.kind("value")
BARRIER = dgs.kind("barrier")


class EventWindow(dgs.Program):
    """Emits, at every barrier, the sum of the values since the one before."""

    depends = dgs.Dependence(
        (BARRIER, BARRIER, dgs.ALWAYS),
        (BARRIER, VALUE, dgs.ALWAYS),
    )
    accumulates = (VALUE,)

    def init(self) -> int:
        """Start with an empty window."""
        return 0

    def update(self, state: int, event: dgs.Event, emit: Callable[[Any], None]) -> int:
        """Add a value, or close the window."""
        if event.tag.kind == VALUE:
            return state + event.payload  # type: ignore[no-any-return]
        emit(state)
        return 0

    def update_batch(self, state: int, batch: dgs.EventBatch, emit_batch: Callable[..., None]) -> int:
        """Add all the values between two barriers at once."""
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == VALUE:
                state += SUM.fold(run.payload)
            else:
                state = one_by_one(self.update, state, run, emit)
        return state

    def update_windows(self, batch: dgs.EventBatch, cuts: npt.NDArray[np.int64]) -> Column:
        """Return the sums of many windows of values."""
        return SUM.windows(batch.payload, cuts)

    def identity(self) -> int:
        """Return the sum of no values."""
        return 0

    def join(self, left: int, right: int) -> int:
        """Add the values of both sides."""
        return left + right
