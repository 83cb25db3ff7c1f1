"""The events that a host has read, by implementation tag: the rates at which a run compares plans.

A part of the events of large batches is counted in place of all, so that counting costs little whatever a batch has.

>>> from dgs.model.tags import Tag
>>> counts = TagCounts()
>>> counts.add(EventBatch.of("s", rank=0, tags=[Tag("a"), Tag("b")], ts=[1, 2, 3], codes=[0, 1, 0]))
>>> counts.take(), counts.take()
({('s', a): 2.0, ('s', b): 1.0}, {})
"""

from __future__ import annotations

import threading
from collections import Counter

from dgs.model.events import EventBatch
from dgs.model.tags import Tag

MOST_COUNTED = 64
"""Events of a batch that are counted."""

MOST_TAGS = 10_000
"""Tags that are told apart. Others are counted as None: the frequent ones come early."""

STRIDE = 7919
"""A prime, so that the events that are counted are at other places in each batch."""


class TagCounts:
    """Counts events. `add` and `take` may be called by two threads."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Tag | None], float] = {}
        self._batches = 0
        self._lock = threading.Lock()

    def add(self, batch: EventBatch) -> None:
        """Count the events of a batch."""
        events = len(batch)
        if not events:
            return
        with self._lock:
            self._batches += 1
            if batch.codes is None:
                self._note(batch.stream, batch.tags[0], events)
                return
            step = -(-events // MOST_COUNTED)
            some = batch.codes[self._batches * STRIDE % step :: step]
            each = events / len(some)
            for code, count in Counter(some.tolist()).items():
                self._note(batch.stream, batch.tags[code], count * each)

    def _note(self, stream: str, tag: Tag, events: float) -> None:
        key: tuple[str, Tag | None] = (stream, tag)
        if key not in self._counts and len(self._counts) >= MOST_TAGS:
            key = stream, None
        self._counts[key] = self._counts.get(key, 0.0) + events

    def take(self) -> dict[tuple[str, Tag | None], float]:
        """Return the events by stream and tag since the last call."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return taken
