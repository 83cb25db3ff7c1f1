"""The bounded reorder buffer: chunks sorted on arrival, released from the front by timestamp.

Each chunk is cut, as a view, where the released part ends. Only released parts are merged, so an event is copied a fixed number
of times, however long it waits.

>>> from dgs.model.tags import Tag
>>> waiting = SortedChunks("clicks", 0)
>>> waiting.add(EventBatch.of("clicks", rank=0, tags=[Tag("click")], ts=[3, 9, 5], payload=["a", "b", "c"]))
>>> waiting.add(EventBatch.of("clicks", rank=0, tags=[Tag("click")], ts=[4], seq=[3], payload=["d"]))
>>> waiting.below(9).payload, waiting.rest().payload
(['a', 'd', 'c'], ['b'])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import Codes, EventBatch
from dgs.model.tags import Tag


class SortedChunks:
    """Waiting events of one stream. Ties keep the order in which they were added."""

    def __init__(self, stream: str, rank: int) -> None:
        self._empty = EventBatch.of(stream, rank=rank, tags=(), ts=())
        self._chunks: list[EventBatch] = []

    def add(self, batch: EventBatch) -> None:
        """Take events in their order of arrival; `seq` increases."""
        if len(batch):
            self._chunks.append(_in_order(batch))

    def below(self, ts: int) -> EventBatch:
        """Take out the events before `ts`, in order."""
        released, kept = [], []
        for chunk in self._chunks:
            stop = int(np.searchsorted(chunk.ts, ts, side="left"))
            if stop:
                released.append(chunk.cut(0, stop))
            if stop < len(chunk):
                kept.append(chunk.cut(stop, len(chunk)))
        self._chunks = kept
        return _in_order(joined(released)) if released else self._empty

    def rest(self) -> EventBatch:
        """Take out all events, in order."""
        released, self._chunks = self._chunks, []
        return _in_order(joined(released)) if released else self._empty


def joined(batches: Sequence[EventBatch]) -> EventBatch:
    """Return the events of several batches of one stream as one batch, without sorting."""
    first = batches[0]
    if len(batches) == 1:
        return first
    ts = np.concatenate([batch.ts for batch in batches])
    seq = np.concatenate([batch.seq for batch in batches])
    tags, codes = _joined_tags(batches)
    return EventBatch(first.stream, first.rank, ts, seq, tags, codes, _joined_payload(batches))


def _joined_tags(batches: Sequence[EventBatch]) -> tuple[tuple[Tag, ...], Codes | None]:
    index: dict[Tag, int] = {}
    parts = []
    for batch in batches:
        place = np.array([index.setdefault(tag, len(index)) for tag in batch.tags], dtype=np.int32)
        parts.append(np.full(len(batch), place[0]) if batch.codes is None else place[batch.codes])
    return tuple(index), (None if len(index) == 1 else np.concatenate(parts))


def _joined_payload(batches: Sequence[EventBatch]) -> Column:
    if all(batch.payload is None for batch in batches):
        return None
    return columns.concat([[None] * len(b) if b.payload is None else b.payload for b in batches])


def _in_order(batch: EventBatch) -> EventBatch:
    if np.all(batch.ts[1:] >= batch.ts[:-1]):
        return batch
    return batch.take(np.argsort(batch.ts, kind="stable"))
