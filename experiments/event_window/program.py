"""Event-based windowing: the sum of the values between every two barriers (Section 4.1).

The window is not a span of time: a barrier ends it. Values are only added, so they *accumulate*: the dependence, the fork and the
vectorised updates are derived from that, and many windows can be in flight at once.

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

import dgs
from dgs.monoids import SUM, Windows

VALUE = dgs.kind("value")
BARRIER = dgs.kind("barrier")


class EventWindow(Windows):
    """Emits at every barrier the sum of the values since the last one."""

    monoid = SUM
    accumulates = (VALUE,)
    closes = (BARRIER,)

    def update(self, state: int, event: dgs.Event, emit: Callable[[Any], None]) -> int:
        """Add a value, or close the window: the derived update written out, as the loop that benchmarks compare with."""
        if event.tag.kind == VALUE:
            return state + event.payload  # type: ignore[no-any-return]
        emit(state)
        return 0
