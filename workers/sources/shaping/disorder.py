"""Disorder: the times of a stream must not decrease, and the user chooses a policy for events that come too late.

All three policies rest on one number, the *floor*: the least timestamp that may still come. It is the latest timestamp so
far minus the allowed delay (0, or the duration of `sort_within`), or one above the latest heartbeat if that is greater. An event
below the floor is disorder. The floor never falls, so dropped events do not move it.

>>> from dgs.workers.sources.rows import NO_BEATS
>>> floors(np.array([5, 9, 7]), NO_BEATS, delay=3, floor=0)       # before each event, and after the last
(array([0, 2, 6]), 6)

The reorder buffer of `sort_within` holds chunks, sorted on arrival, and releases them from the front by timestamp. Each chunk is cut, as
a view, where the released part ends. Only released parts are merged, so an event is copied a fixed number of times, however long it
waits.

>>> from dgs.model.tags import Tag
>>> waiting = SortedChunks("clicks", 0)
>>> waiting.add(EventBatch.of("clicks", rank=0, tags=[Tag("click")], ts=[3, 9, 5], payload=["a", "b", "c"]))
>>> waiting.add(EventBatch.of("clicks", rank=0, tags=[Tag("click")], ts=[4], seq=[3], payload=["d"]))
>>> waiting.below(9).payload, waiting.rest().payload
(['a', 'd', 'c'], ['b'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dgs.errors import MalformedRowError, OutOfOrderError
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import Codes, EventBatch, Int64s
from dgs.model.order import END, MAX_TS, MIN_TS, OrderKey, after_event
from dgs.model.tags import Tag
from dgs.workers.sources.rows import Arrivals, Beats


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


@dataclass(frozen=True, slots=True)
class Ordered:
    """Events of a stream in order, and the frontier of the stream after them."""

    batch: EventBatch
    frontier: OrderKey


class Ordering(Protocol):
    """A policy. `drops` counts the events left out so far; `held` those that wait; `floor` is the least timestamp that may still come.

    Law: the batches of successive calls are in the order of their keys, and each is at or above the frontier of the call
    before it.
    """

    rank: int
    drops: int
    held: int
    floor: int

    def accept(self, arrivals: Arrivals) -> Ordered:
        """Take events in their order of arrival; return those that may go on."""

    def finish(self) -> Ordered:
        """Return the remaining events when the stream has ended."""


def ordering(
    policy: Literal["error", "drop"] | int, *, stream: str, rank: int, drops_late: bool = False
) -> Ordering:
    """Return the policy of a stream. `policy`: `error`, `drop`, or the delay of `sort_within` in the plan's unit.

    `drops_late`: `sort_within` leaves out events that are later still.
    """
    if isinstance(policy, int):
        return SortWithin(stream, rank, delay=policy, drops_late=drops_late)
    return InOrder(stream, rank, drops_late=policy == "drop")


def floors(ts: Int64s, beats: Beats, *, delay: int, floor: int) -> tuple[Int64s, int]:
    """Return the floor before each event, and the floor after all of them."""
    lifted = np.maximum(ts, MIN_TS + delay) - delay
    if not beats.before:
        running = np.maximum.accumulate(np.concatenate(([floor], lifted)))
        return running[:-1], int(running[-1])
    above = np.minimum(np.asarray(beats.ts, dtype=np.int64), MAX_TS - 1) + 1
    values = np.insert(lifted, beats.before, above)
    is_event = np.insert(np.ones(len(ts), dtype=bool), beats.before, False)
    running = np.maximum.accumulate(np.concatenate(([floor], values)))
    return running[:-1][is_event], int(running[-1])


def below(floor: int, rank: int) -> OrderKey:
    """Return the frontier of a stream with this floor: END when no timestamp is left."""
    return END if floor >= MAX_TS else OrderKey(floor, rank, 0)


class _Checked:
    """The common part of all policies: the floor, and the error with the row, its timestamp and the previous one."""

    def __init__(self, stream: str, rank: int, *, delay: int, drops_late: bool) -> None:
        self.stream, self.rank, self.delay = stream, rank, delay
        self._drops_late = drops_late
        self.drops = self.held = 0
        self.floor = MIN_TS
        self._latest = MIN_TS

    def in_time(self, arrivals: Arrivals) -> EventBatch:
        """Return the events that are not in disorder, and leave the others out. Raises OutOfOrderError if they may not be."""
        late, before = self.late(arrivals)
        if len(late) and not self._drops_late:
            raise self.refuse(arrivals, int(late[0]), int(before[late[0]]))
        self._latest = max(self._latest, int(arrivals.ts.max(initial=MIN_TS)))
        batch = self.batch(arrivals)
        if not len(late):
            return batch
        self.drops += len(late)
        return batch.take(np.delete(np.arange(len(batch)), late))

    def late(self, arrivals: Arrivals) -> tuple[Int64s, Int64s]:
        """Return the indices of the events in disorder, and the floor before each event; move the floor."""
        if len(arrivals) and int(arrivals.ts.max()) == MAX_TS:
            row = arrivals.first + int(arrivals.ts.argmax())
            problem = f"timestamp {MAX_TS} is reserved for the end of a stream"
            raise MalformedRowError(stream=self.stream, row=row, problem=problem)
        before, self.floor = floors(arrivals.ts, arrivals.beats, delay=self.delay, floor=self.floor)
        return np.flatnonzero(arrivals.ts < before), before

    def refuse(self, arrivals: Arrivals, index: int, floor: int) -> OutOfOrderError:
        """Return the error for an event that came after a later event or after a heartbeat that excludes it."""
        latest = max(self._latest, int(arrivals.ts[:index].max(initial=MIN_TS)))
        previous = latest if latest - self.delay >= floor else floor - 1
        return OutOfOrderError(
            stream=self.stream, row=arrivals.first + index, ts=int(arrivals.ts[index]), previous=previous
        )

    def batch(self, arrivals: Arrivals) -> EventBatch:
        """Return the events as a batch of the declared stream."""
        return EventBatch(
            self.stream, self.rank, arrivals.ts, arrivals.seq, arrivals.tags, arrivals.codes, arrivals.payload
        )


class InOrder(_Checked):
    """`error` and `drop`: events pass at once. The frontier is just above the last event or the last heartbeat."""

    def __init__(self, stream: str, rank: int, *, drops_late: bool) -> None:
        super().__init__(stream, rank, delay=0, drops_late=drops_late)
        self._frontier = OrderKey(MIN_TS, rank, 0)

    def accept(self, arrivals: Arrivals) -> Ordered:
        """Check that the events are in order, or leave out late ones."""
        if not arrivals.beats.before and self._is_sorted(arrivals.ts):
            return self._passed_whole(arrivals)
        batch = self.in_time(arrivals)
        if len(batch):
            self._frontier = max(self._frontier, after_event(batch.key(len(batch) - 1)))
        if self.floor > self._frontier.ts:
            self._frontier = below(self.floor, self.rank)
        return Ordered(batch, self._frontier)

    def _is_sorted(self, ts: Int64s) -> bool:
        """Return whether all events are in order. This usual case costs one comparison per row."""
        return len(ts) > 0 and bool(ts[0] >= self.floor) and bool((ts[1:] >= ts[:-1]).all())

    def _passed_whole(self, arrivals: Arrivals) -> Ordered:
        self.floor = self._latest = int(arrivals.ts[-1])
        batch = self.batch(arrivals)
        self._frontier = max(self._frontier, after_event(batch.key(len(batch) - 1)))
        return Ordered(batch, self._frontier)

    def finish(self) -> Ordered:
        """Return no events, since none are held back."""
        return Ordered(EventBatch.of(self.stream, rank=self.rank, tags=(), ts=()), END)


class SortWithin(_Checked):
    """`sort_within: d`: events wait until the floor has passed them. An event at the latest timestamp - d is still in time.

    Ties keep their order of arrival. An event that comes later than d is disorder: an error, or left out if `drops_late`.
    """

    def __init__(self, stream: str, rank: int, *, delay: int, drops_late: bool = False) -> None:
        super().__init__(stream, rank, delay=delay, drops_late=drops_late)
        self._waiting = SortedChunks(stream, rank)

    def accept(self, arrivals: Arrivals) -> Ordered:
        """Put the events into the buffer; return those below the new floor."""
        batch = self.in_time(arrivals)
        self._waiting.add(batch)
        ready = self._waiting.below(self.floor)
        self.held += len(batch) - len(ready)
        return Ordered(ready, below(self.floor, self.rank))

    def finish(self) -> Ordered:
        """Return all events that still wait."""
        self.held = 0
        return Ordered(self._waiting.rest(), END)
