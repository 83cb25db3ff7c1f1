"""The fold of one stream into partial states of windows, which leaves each window as soon as the stream has passed it.

Window i has the events from key i - 1 to below key i; the last window lies after all keys.

>>> from dgs.model.tags import Tag
>>> from dgs.monoids import SUM, Windows
>>> class Sums(Windows):
...     monoid, accumulates, closes = SUM, ("value",), ("barrier",)
>>> program = Sums()
>>> keys = EventBatch.of("barriers", rank=0, tags=[Tag("barrier")], ts=[10, 20])
>>> windows = OpenWindows(Folder(program, program.states()[0], "leaf"), keys)
>>> values = EventBatch.of("values", rank=1, tags=[Tag("value")], ts=[5, 12, 30], payload=[1, 2, 4])
>>> windows.fold(values)
[]
>>> windows.closed(OrderKey(19, 0, 0)), windows.closed(END)
([(0, 1)], [(1, 2), (2, 4)])
"""

from __future__ import annotations

from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.spark_bridge.batch.window_states import Window
from dgs.workers.protocol.folding.fold import NOTHING, Folder

MOST_AT_ONCE = 65_536
"""Most windows that one call folds into. A batch with fewer events than windows goes from one event to the next."""


class OpenWindows:
    """The partial states of the windows that a stream has not passed yet. `keys`: the order keys that end the windows."""

    def __init__(self, folder: Folder, keys: EventBatch | None) -> None:
        self._folder, self._keys = folder, keys
        self._states: dict[int, State] = {}

    def fold(self, batch: EventBatch) -> list[OutputBatch]:
        """Fold a batch into its windows; return its outputs."""
        outputs: list[OutputBatch] = []
        while len(batch):
            first, stop = self._window_of(batch.key(0)), self._window_of(batch.key(len(batch) - 1))
            stop = min(stop, first + MOST_AT_ONCE)
            if self._keys is None or first == stop:
                return outputs + self._fill(first, first + 1, batch, None)
            keys = self._keys.cut(first, stop)
            below = batch.position_of(keys.key(len(keys) - 1))
            outputs += self._fill(first, stop, batch.cut(0, below), keys)
            batch = batch.cut(below, len(batch))
        return outputs

    def closed(self, frontier: OrderKey) -> list[Window]:
        """Remove the windows that end at or below a frontier, and return them in order."""
        below = self._window_of(frontier)
        done = sorted(i for i in self._states if frontier == END or i < below)
        return [(i, self._states.pop(i)) for i in done]

    def _window_of(self, key: OrderKey) -> int:
        return 0 if self._keys is None else self._keys.position_of(key)

    def _fill(self, first: int, stop: int, batch: EventBatch, keys: EventBatch | None) -> list[OutputBatch]:
        states = [self._states.pop(i, NOTHING) for i in range(first, stop)]
        outputs = self._folder.fold_windows(states, batch, keys)
        for i, state in enumerate(states, first):
            if state is not NOTHING:
                self._states[i] = state
        return outputs
