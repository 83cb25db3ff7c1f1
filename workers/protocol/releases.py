"""Releases: events that a mailbox releases together, and the orders in which they may be processed.

Only events of dependent lanes are ordered among each other. So a release is processed in long *stretches* of single lanes, cut
where an event of another lane has to come between. Where lanes alternate densely, a release is merged by OrderKey instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.workers.protocol.bounds import BOUNDS

Rows = npt.NDArray[np.intp]
_Stretch = tuple[tuple[int, int, int], int, EventBatch, int, int]
"""A stretch: the key of its first event, its lane, its batch, and where in the batch it begins and ends."""


@dataclass(frozen=True, slots=True)
class Release:
    """Events that may be processed now: batches, each with its lane; the batches of a lane are in order.

    `ordered`: for each lane, the other lanes that its events are ordered with.
    """

    lanes: tuple[int, ...]
    batches: list[EventBatch]
    ordered: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def is_dense(self, short_stretch: int = BOUNDS.short_stretch) -> bool:
        """Whether dependent lanes alternate so often that merging is cheaper than processing stretches."""
        if len(self.batches) == 1:
            return False
        sizes: dict[int, int] = {}
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            sizes[lane] = sizes.get(lane, 0) + len(batch)
        cuts = {lane: 1 + sum(sizes.get(other, 0) for other in self.ordered.get(lane, ())) for lane in sizes}
        stretches = sum(min(size, cuts[lane]) for lane, size in sizes.items())
        return len(sizes) > 1 and stretches * short_stretch > len(self)

    def cut(self, rows: int) -> tuple[Release, Release | None]:
        """Return about `rows` events, all before some key, and the rest from that key on, None if there is none."""
        if len(self) <= rows:
            return self, None
        bounds, sizes = [], dict.fromkeys(self.lanes, 0)
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            left = rows - sizes[lane]
            if 0 <= left < len(batch):
                bounds.append(batch.key(left))
            sizes[lane] += len(batch)
        if not bounds:
            return self, None
        places = [batch.position_of(min(bounds)) for batch in self.batches]
        return self._part([(0, place) for place in places]), self._part(
            [(place, len(batch)) for place, batch in zip(places, self.batches, strict=True)]
        )

    def _part(self, spans: Iterable[tuple[int, int]]) -> Release:
        """Return the events in a span of rows of each batch."""
        found = [
            (lane, batch if stop - start == len(batch) else batch.cut(start, stop))
            for lane, batch, (start, stop) in zip(self.lanes, self.batches, spans, strict=True)
            if start < stop
        ]
        return Release(tuple(lane for lane, _ in found), [batch for _, batch in found], self.ordered)

    def around(self, apart: Container[int], least: int) -> list[Release]:
        """Return the events in order, in parts: those of the lanes `apart`, and those between them.

        Empty unless there are both, and at least `least` of the others for each event of these.
        """
        is_apart = np.array([lane in apart for lane in self.lanes])
        rare = [batch for lane, batch in zip(self.lanes, self.batches, strict=True) if lane in apart]
        count = sum(map(len, rare))
        if not count or len(self) - count < max(1, least * count):
            return []
        order, part, _ = Release((0,) * len(rare), rare).merge_order()
        # of each batch, how many events come before each of the rare ones, and how many there are
        places = np.empty((len(self.batches), count + 1), np.intp)
        places[is_apart, :-1] = [np.cumsum(mine) - mine for mine in (part == np.arange(len(rare))[:, None])]
        for at in np.flatnonzero(~is_apart).tolist():
            batch = self.batches[at]
            places[at, :-1] = np.concatenate([batch.positions_of(one) for one in rare])[order]
        places[:, -1] = list(map(len, self.batches))
        starts = np.flatnonzero(np.diff(places[~is_apart, :-1].sum(axis=0), prepend=-1))
        cuts = [np.zeros(len(self.batches), np.intp)]
        for start, stop in pairwise([*starts.tolist(), count]):
            cuts += [places[:, start], np.where(is_apart, places[:, stop], places[:, start])]
        spans = (
            zip(before.tolist(), after.tolist(), strict=True)
            for before, after in pairwise([*cuts, places[:, -1]])
        )
        return [part for part in map(self._part, spans) if part.batches]

    def by_lane(self) -> dict[int, list[EventBatch]]:
        """Return the batches of each lane."""
        lanes: dict[int, list[EventBatch]] = {}
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            lanes.setdefault(lane, []).append(batch)
        return lanes

    def stretches(self) -> Iterator[tuple[int, EventBatch]]:
        """Yield the events in an order that respects dependent lanes, in the longest possible stretches of one lane."""
        if len(set(self.lanes)) == 1:
            yield from zip(self.lanes, self.batches, strict=True)
            return
        lanes: dict[int, _Lane] = {}
        for lane, batch in zip(self.lanes, self.batches, strict=True):
            lanes.setdefault(lane, _Lane(lane)).add(batch)
        for lane, one in lanes.items():
            for other in self.ordered.get(lane, ()):
                if lane < other and other in lanes:
                    _cut_each_other(one, lanes[other])
        yield from _by_first_key([stretch for one in lanes.values() for stretch in one.stretches()])

    def merge_order(self) -> tuple[Rows, Rows, Rows]:
        """Return the permutation that merges the batches by OrderKey, and for each merged event its batch and row."""
        ts = np.concatenate([batch.ts for batch in self.batches])
        sizes = [len(batch) for batch in self.batches]
        rank = np.repeat([batch.rank for batch in self.batches], sizes)
        seq = np.concatenate([batch.seq for batch in self.batches])
        order = np.lexsort((seq, rank, ts))
        part = np.repeat(np.arange(len(sizes)), sizes)[order]
        return order, part, order - np.cumsum([0, *sizes[:-1]])[part]


class _Lane:
    """The events of one lane, in batches, and the rows (counted over all of them) where stretches begin."""

    __slots__ = ("batches", "count", "lane", "starts")

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.batches: list[EventBatch] = []
        self.starts: list[Rows] = []
        self.count = 0

    def add(self, batch: EventBatch) -> None:
        """Take the next batch of the lane. A stretch never spans two batches."""
        self.batches.append(batch)
        self.starts.append(np.array([self.count]))
        self.count += len(batch)

    def places_of(self, keys: EventBatch) -> Rows:
        """Return, for every event of `keys`, how many events of the lane come before it."""
        places = np.zeros(len(keys), dtype=np.intp)
        for batch in self.batches:
            first, last = keys.position_of(batch.key(0)), keys.position_of(batch.key(len(batch) - 1))
            places[first:last] += batch.positions_of(keys.cut(first, last))
            places[last:] += len(batch)
        return places

    def stretches(self) -> Iterator[_Stretch]:
        """Yield the stretches in order, each with the key of its first event."""
        starts = np.sort(np.concatenate(self.starts))
        starts = starts[np.flatnonzero(np.diff(starts, prepend=-1))]  # np.unique imports much
        offset = 0
        for batch in self.batches:
            stop = offset + len(batch)
            rows = starts[starts.searchsorted(offset) : starts.searchsorted(stop)] - offset
            keys = zip(batch.ts[rows].tolist(), repeat(batch.rank), batch.seq[rows].tolist(), strict=False)
            for key, (row, end) in zip(keys, pairwise([*rows.tolist(), len(batch)]), strict=True):
                yield key, self.lane, batch, row, end
            offset = stop


def _cut_each_other(one: _Lane, other: _Lane) -> None:
    """Begin new stretches where two lanes alternate. The events of the smaller lane are searched for in the larger."""
    small, large = (one, other) if one.count < other.count else (other, one)
    places = np.concatenate([large.places_of(batch) for batch in small.batches])
    large.starts.append(places[places < large.count])
    small.starts.append(np.flatnonzero(places[1:] != places[:-1]) + 1)


def _by_first_key(stretches: list[_Stretch]) -> Iterator[tuple[int, EventBatch]]:
    """Yield stretches in the order of their first events. Dependent lanes were cut so that this order is right."""
    stretches.sort(key=itemgetter(0))
    before: tuple[int, int, int] | None = None
    for key, lane, batch, start, stop in stretches:
        if key == before:
            raise InternalError(problem=f"two lanes have an event at {OrderKey(*key)}")
        before = key
        yield lane, batch if stop - start == len(batch) else batch.cut(start, stop)
