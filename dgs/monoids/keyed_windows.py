"""Windows by key: every key has a window of its own, which a closing event of that key closes.

>>> import dgs
>>> from dgs.monoids import SUM
>>> RIDE, PAY = dgs.kind("ride", key=str), dgs.kind("pay", key=str)
>>> class Fares(KeyedWindows):
...     '''Emits what a passenger owes, whenever that passenger pays.'''
...     monoid = SUM
...     accumulates = (RIDE,)
...     closes = (PAY,)
>>> rides = [(RIDE("ann"), 1, 5), (RIDE("bob"), 2, 8), (RIDE("ann"), 3, 6), (RIDE("ann"), 9, 4)]
>>> dgs.run(Fares(), streams={"rides": rides, "payments": [(PAY("ann"), 5, None)]}, runtime="local").outputs
[{'key': 'ann', 'result': 11}]
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dgs.model.columns import Column
from dgs.model.dependence import SAME_KEY, When
from dgs.model.events import Event, EventBatch
from dgs.model.program import Emit
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.monoids.contract import Cuts, are_equal
from dgs.monoids.maps import MapOf
from dgs.monoids.windows import Windows

States = dict[Any, Any]


class KeyedWindows(Windows):
    """Windows whose events of different keys are independent: the state holds a state of the monoid for each open key.

    A closing event emits {key, result}; override `close`, which gets the state of its key and returns the next one.
    """

    _when: ClassVar[When] = SAME_KEY

    def identity(self) -> States:
        """Return the state without keys."""
        return {}

    def join(self, left: States, right: States) -> States:
        """Join key by key."""
        return self._map.join(left, right)

    def close(self, state: Any, event: Event, emit: Emit) -> Any:
        """Emit key and result; return the state of the next window of that key."""
        emit({"key": event.tag.key, "result": self.monoid.result(state)})
        return self.monoid.identity()

    def update(self, state: States, event: Event, emit: Emit) -> States:
        """Join a value with those of its key, or close the window of that key."""
        key, kind, monoid = event.tag.key, event.tag.kind, self.monoid
        if kind in self.accumulates:
            new = monoid.lift(self.value(event))
            state[key] = monoid.join(state[key], new) if key in state else new
            return state
        self.check_closing(kind)
        after = self.close(state.pop(key) if key in state else monoid.identity(), event, emit)
        if not are_equal(after, monoid.identity()):
            state[key] = after
        return state

    def fork(self, state: States, left: TagSet, right: TagSet) -> tuple[States, States]:  # noqa: ARG002 - the contract
        """Give the right side the keys that are closed there, and the left side all others: accumulation can start from nothing."""
        on_right = {key: state.pop(key) for key in list(state) if self._are_closed(key, right)}
        return state, on_right

    def fold(self, batch: EventBatch) -> States:
        """Return the states by key of a batch of accumulating events."""
        return self.update_windows(batch, np.empty(0, dtype=np.int64))[0]

    def update_windows(self, batch: EventBatch, cuts: Cuts) -> list[States]:
        """Return the states by key of many windows of accumulating events."""
        count = len(batch)
        codes = np.zeros(count, dtype=np.int32) if batch.codes is None else batch.codes
        places: dict[Any, int] = {}
        place_of = np.array([places.setdefault(tag.key, len(places)) for tag in batch.tags], dtype=np.int64)
        records: Column = {"key": place_of[codes], "value": self.column(batch)}
        keys = list(places)
        found = self._map.windows(records, cuts)
        return [{keys[place]: state for place, state in window.items()} for window in found]

    @property
    def _map(self) -> MapOf:
        return MapOf(self.monoid)

    def _are_closed(self, key: Any, tags: TagSet) -> bool:
        return any(Tag(str(kind), key) in tags for kind in self.closes)
