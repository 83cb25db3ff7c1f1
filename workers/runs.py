"""Runs: events that a mailbox has released together, and the orders in which they may be processed.

Only events of dependent lanes have an order among each other. So a run is processed in long *stretches* of single lanes, cut
where another lane has an event that must come between; where lanes alternate densely, it is merged by OrderKey instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dgs.errors import InternalError
from dgs.events import EventBatch
from dgs.order import END, OrderKey

SHORT_STRETCH = 16
"""Stretches of fewer events on average cost more than merging does."""

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Run:
    """Events that may be processed now: per batch the lane it is of, each lane in its order.

    `ordered` gives for each lane the others that its events have an order with.
    """

    lanes: tuple[int, ...]
    batches: list[EventBatch]
    ordered: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def is_dense(self) -> bool:
        """Whether dependent lanes alternate so often that merging is cheaper than processing stretches."""
        if len(self.batches) == 1:
            return False
        sizes: dict[int, int] = {}
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            sizes[lane] = sizes.get(lane, 0) + len(batch)
        cuts = {lane: 1 + sum(sizes.get(other, 0) for other in self.ordered.get(lane, ())) for lane in sizes}
        stretches = sum(min(size, cuts[lane]) for lane, size in sizes.items())
        return len(sizes) > 1 and stretches * SHORT_STRETCH > len(self)

    def stretches(self) -> Iterator[tuple[int, EventBatch]]:
        """Yield the events in an order that dependent lanes agree with, in stretches of one lane as long as can be."""
        if len(set(self.lanes)) == 1:
            yield from zip(self.lanes, self.batches, strict=True)
            return
        left: dict[int, deque[EventBatch]] = {}
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            left.setdefault(lane, deque()).append(batch)
        heads = {lane: batches[0].key(0) for lane, batches in left.items()}
        while heads:
            lane = min(heads, key=heads.__getitem__)
            limit = min((heads[other] for other in self.ordered.get(lane, ()) if other in heads), default=END)
            if limit == heads[lane]:
                raise InternalError(problem=f"two lanes have an event at {limit}")
            yield from ((lane, batch) for batch in _take_below(left[lane], limit))
            if left[lane]:
                heads[lane] = left[lane][0].key(0)
            else:
                del heads[lane]

    def merge_order(self) -> tuple[Rows, Rows, Rows]:
        """Return the permutation that merges the batches by OrderKey, and for each merged event its batch and row."""
        ts = np.concatenate([batch.ts for batch in self.batches])
        sizes = [len(batch) for batch in self.batches]
        rank = np.repeat([batch.rank for batch in self.batches], sizes)
        seq = np.concatenate([batch.seq for batch in self.batches])
        order = np.lexsort((seq, rank, ts))
        part = np.repeat(np.arange(len(sizes)), sizes)[order]
        return order, part, order - np.cumsum([0, *sizes[:-1]])[part]


def _take_below(batches: deque[EventBatch], limit: OrderKey) -> Iterator[EventBatch]:
    """Remove and yield the events below a key from the left of a queue."""
    while batches:
        batch = batches.popleft()
        count = batch.position_of(limit)
        if count:
            yield batch.cut(0, count) if count < len(batch) else batch
        if count < len(batch):
            batches.appendleft(batch.cut(count, len(batch)))
            return
