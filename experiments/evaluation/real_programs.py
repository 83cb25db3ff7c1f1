"""Small programs for the recorded data, of the kinds that the applications of the paper lack: skewed keys, running values, maps.

>>> from dgs import Event
>>> outputs = []
>>> state = Latest().update({}, Event(WRITE("a"), "s", 1, 7), outputs.append)
>>> state = Latest().update(state, Event(READ("a"), "s", 2, 3), outputs.append)
>>> outputs
[{'of': 3, 'latest': 7}]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import dgs
from dgs.keyed import KeyedState
from dgs.monoids import MAX, MIN, AllOf, Windows
from dgs.vectorised import by_kind, by_tag, one_by_one

Emit = Callable[[Any], None]

WRITE, READ = dgs.kind("write", key=str), dgs.kind("read", key=str)
"""A change of the entry of a key, and a use of the entry."""
ITEM, CLOSE = dgs.kind("item"), dgs.kind("close")
"""Something that is counted, and the end of a window."""


class Latest(KeyedState):
    """Emits for every read the latest write of its key."""

    changes, reads = (WRITE,), (READ,)

    def update(self, state: dict[str, int], event: dgs.Event, emit: Emit) -> dict[str, int]:
        """Keep a write, or answer a read."""
        if event.tag.kind == READ:
            emit({"of": event.payload, "latest": state.get(event.tag.key)})
        else:
            state[event.tag.key] = event.payload
        return state

    def update_batch(
        self, state: dict[str, int], batch: dgs.EventBatch, emit_batch: Callable[..., None]
    ) -> dict[str, int]:
        """Answer all reads between two writes at once."""
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == READ:
                emit({"of": run.payload, "latest": by_tag(run, [state.get(tag.key) for tag in run.tags])})
            else:
                state = one_by_one(self.update, state, run, emit)
        return state


class Running(KeyedState):
    """Emits for every write the sum of its key so far. Keys are independent, and each event has an output."""

    changes = (WRITE,)

    def update(self, state: dict[str, int], event: dgs.Event, emit: Emit) -> dict[str, int]:
        """Add to the sum of the key."""
        key = event.tag.key
        state[key] = state.get(key, 0) + event.payload
        emit((key, state[key]))
        return state


class Counts(dgs.Program):
    """Emits at every close the five most frequent parts of the items since the last one. An item is a text or a list."""

    depends = dgs.Dependence((CLOSE, CLOSE, dgs.ALWAYS), (CLOSE, ITEM, dgs.ALWAYS))
    accumulates = (ITEM,)

    def init(self) -> dict[Any, int]:
        """Return no counts."""
        return {}

    def identity(self) -> dict[Any, int]:
        """Return no counts."""
        return {}

    def update(self, state: dict[Any, int], event: dgs.Event, emit: Emit) -> dict[Any, int]:
        """Count the parts of an item, or emit the counts and reset them."""
        if event.tag.kind == CLOSE:
            emit(sorted(state.items(), key=lambda one: (-one[1], one[0]))[:5])
            return {}
        parts = event.payload.split() if isinstance(event.payload, str) else event.payload
        for part in parts:
            state[part] = state.get(part, 0) + 1
        return state

    def join(self, left: dict[Any, int], right: dict[Any, int]) -> dict[Any, int]:
        """Add the counts."""
        return dict(Counter(left) + Counter(right))


class Range(Windows):
    """Emits at every close the least and the greatest item since the last one."""

    monoid = AllOf(least=MIN, greatest=MAX)
    accumulates, closes = (ITEM,), (CLOSE,)
