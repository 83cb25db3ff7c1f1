"""Partial states of windows of one stream, encoded for their way from tasks to the driver, in chunks of the same windows at all leaves.

>>> rows = list(chunks([(0, "a"), (1, "b"), (WINDOWS_A_CHUNK, "c")]))
>>> [(chunk, codec.decode(data)) for chunk, data in rows]
[(0, [(0, 'a'), (1, 'b')]), (1, [(256, 'c')])]
>>> list(joined([[(0, "a"), (1, "b")], [(1, "d"), (3, "e")]], lambda left, right: left + right).items())
[(0, 'a'), (1, 'bd'), (3, 'e')]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.planner.plan import PlanNode
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.folding.to_compile import ToCompile
from dgs.workers.runtime.job import Job

Window = tuple[int, State]
"""The number of a window, and its partial state."""

WINDOWS_A_CHUNK = 256
"""Windows in a chunk: a join holds this many states in memory."""

LARGEST_ROW = 8 * 2**20
"""Approximate limit on the bytes of a row of states; a single state may exceed it."""

FIRST = 16
"""States in the first row of a chunk, while their size is unknown."""


def chunks(windows: Iterable[Window]) -> Iterator[tuple[int, bytes]]:
    """Yield windows, sorted by number, as rows: the number of a chunk and encoded windows of it."""
    for chunk, part in groupby(windows, key=lambda window: window[0] // WINDOWS_A_CHUNK):
        for data in encoded(list(part)):
            yield chunk, data


def encoded(windows: Sequence[Window]) -> Iterator[bytes]:
    """Yield windows as encoded rows of limited size."""
    start, count = 0, FIRST
    while start < len(windows):
        data = codec.encode(list(windows[start : start + count]), keeps_order=True)
        yield data
        start += count
        count = max(1, count * LARGEST_ROW // len(data))


def joined(parts: Iterable[Iterable[Window]], join: Callable[[State, State], State]) -> dict[int, State]:
    """Return one state for each window, joined from left to right. The states given are not used again."""
    states: dict[int, State] = {}
    for part in parts:
        for number, state in part:
            states[number] = join(states[number], state) if number in states else state
    return dict(sorted(states.items()))


MOST_AT_ONCE = 65_536
"""The most windows that one call folds into. A batch with fewer events than windows is folded event by event."""


def folder_of(job: Job, node: PlanNode) -> Folder:
    """Return what folds the events of a worker, compiled as in every runtime."""
    state_type = next(one for one in job.program.states() if one.name == node.state_type)
    mode = job.runtime.compile
    compiled = ToCompile(state_type.update, mode == "require", clock=time.monotonic)
    return Folder(job.program, state_type, node.id, compiled=None if mode == "off" else compiled)


class OpenWindows:
    """The partial states of the windows that a stream has not passed yet. `keys`: the order keys that end the windows.

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
