"""Positions: which events a state contains, independent of the plan that computed it (App. D.2, corrected: see docs/recovery.md).

For each stream, positions give every implementation tag the key below which all its events are in the state. A run resumes from
them under any plan and any dealing of split streams. The positions of an earlier run stay as an older *layer*, and the position
of an event is the highest that any layer gives it. A layer is dropped once a newer one has passed it everywhere.

>>> from dgs.model.tags import Tag
>>> from dgs.workers.protocol.lanes import Lane
>>> lanes = [Lane(0, "w1", "clicks", TagSet.of(Tag("view"))), Lane(1, "w2", "clicks", TagSet.of(Tag("buy")))]
>>> positions = Positions.of(lanes, {0: OrderKey(5, 0, 3), 1: OrderKey(9, 0, 7)})
>>> positions.start("clicks", TagSet.of(Tag("view"), Tag("buy"))), positions.low
(OrderKey(ts=5, rank=0, seq=3, path=()), OrderKey(ts=5, rank=0, seq=3, path=()))
>>> batch = EventBatch.of("clicks", rank=0, tags=[Tag("view"), Tag("buy")], codes=[0, 1, 1], ts=[6, 7, 9], seq=[4, 5, 7])
>>> positions.above(batch).seq.tolist()            # the event of `buy` at 7 is already in the state
[4, 7]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import Tag
from dgs.workers.protocol.lanes import Lane

BLOCK = 1024
"""Rows per block. It decides where rows go and is saved in checkpoints, so it must not change."""


def dealt(
    batch: EventBatch, streams: tuple[str, ...], wanted: Collection[str] | None, *, block: int = BLOCK
) -> Iterator[EventBatch]:
    """Yield the events of each wanted implementation stream that has any, in the order of the streams.

    The rows of a split stream go to its implementation streams in blocks, round robin: the raw number of a row alone decides its
    split. Splits keep the stream's rank and the row's number, so splitting never changes the order of events.

    >>> from dgs.model.tags import Tag
    >>> batch = EventBatch.of("flights", rank=0, tags=[Tag("view")], ts=[5, 6, 7], seq=[1023, 1024, 2048])
    >>> [(part.stream, part.seq.tolist()) for part in dealt(batch, ("flights/0", "flights/1"), wanted=None)]
    [('flights/0', [1023, 2048]), ('flights/1', [1024])]
    """
    if not len(batch):
        return
    if len(streams) == 1:
        if wanted is None or streams[0] in wanted:
            yield replace(batch, stream=streams[0])
        return
    which = (np.asarray(batch.seq) // block) % len(streams)
    for number, stream in enumerate(streams):
        if wanted is not None and stream not in wanted:
            continue
        rows = np.flatnonzero(which == number)
        if len(rows):
            yield replace(batch.take(rows), stream=stream)


Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Part:
    """The tags of one split that have one position."""

    split: int
    tags: TagSet
    key: OrderKey


@dataclass(frozen=True, slots=True)
class Layer:
    """Positions of one stream from one run, in which it was dealt to `splits` splits in blocks of `block` rows."""

    splits: int
    parts: tuple[Part, ...]
    block: int = BLOCK

    @property
    def low(self) -> OrderKey:
        """The lowest position."""
        return min((part.key for part in self.parts), default=BEGIN)

    @property
    def high(self) -> OrderKey:
        """The highest position."""
        return max((part.key for part in self.parts), default=BEGIN)

    def start(self, tags: TagSet, split: int | None) -> OrderKey:
        """Return a key at or below the position of every event with one of the tags, in one split or in all (None)."""
        parts = [part for part in self.parts if split is None or part.split == split]
        touched = [part for part in parts if part.tags & tags]
        splits = {part.split for part in parts}
        is_whole = all(tags <= union(p.tags for p in touched if p.split == s) for s in splits)
        return min((part.key for part in touched), default=BEGIN) if is_whole else BEGIN

    def covers(self, older: Layer) -> bool:
        """Return whether every event's position here is at least that in the older layer."""
        same = (self.splits, self.block) == (older.splits, older.block)
        return all(part.key <= self.start(part.tags, part.split if same else None) for part in older.parts)

    def limits(self, batch: EventBatch, split: int | None) -> Rows | int:
        """Return, for each row, how many rows of the batch are below the position of its tag and split."""
        splits = range(self.splits) if split is None else (split,)
        table = np.array([[self._count(batch, tag, s) for tag in batch.tags] for s in splits], dtype=np.intp)
        codes = np.zeros(len(batch), dtype=np.intp) if batch.codes is None else batch.codes
        if split is not None:
            return np.asarray(table[0][codes], dtype=np.intp)
        dealt = (np.asarray(batch.seq) // self.block) % self.splits
        return np.asarray(table[dealt, codes], dtype=np.intp)

    def _count(self, batch: EventBatch, tag: Tag, split: int) -> int:
        key = next((part.key for part in self.parts if part.split == split and tag in part.tags), BEGIN)
        return batch.position_of(key)


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions of all streams by declared stream, the newest layer first. Without any, the state contains no event."""

    streams: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        lanes: Iterable[Lane],
        keys: Mapping[int, OrderKey],
        splits: Mapping[str, int] | None = None,
        block: int = BLOCK,
    ) -> Positions:
        """Return the positions of the lanes of a plan. `splits`: the number of splits of each declared stream (default 1)."""
        parts: dict[str, dict[tuple[int, OrderKey], list[TagSet]]] = {}
        for lane in lanes:
            stream, split = declared(lane.stream)
            parts.setdefault(stream, {}).setdefault((split, keys[lane.id]), []).append(lane.tags)
        return cls(
            {
                stream: (
                    Layer(
                        (splits or {}).get(stream, 1),
                        tuple(Part(split, union(tags), key) for (split, key), tags in found.items()),
                        block,
                    ),
                )
                for stream, found in parts.items()
            }
        )

    def over(self, older: Positions) -> Positions:
        """Return these positions on top of those that the run started from. An event is in the state if either of them says so."""
        streams = dict(older.streams)
        for stream, layers in self.streams.items():
            kept = (
                old for old in older.streams.get(stream, ()) if not any(new.covers(old) for new in layers)
            )
            streams[stream] = (*layers, *kept)
        return Positions(streams)

    def ended(self, ends: Mapping[str, OrderKey]) -> Positions:
        """Return the positions, with the key after a stream's last event in place of END, if it is known.

        A file may have grown when the run is resumed, and END would leave the new rows out.
        """

        def known(layer: Layer, end: OrderKey) -> Layer:
            return replace(layer, parts=tuple(replace(p, key=min(p.key, end)) for p in layer.parts))

        return Positions(
            {
                stream: tuple(known(layer, ends.get(stream, END)) for layer in layers)
                for stream, layers in self.streams.items()
            }
        )

    @property
    def low(self) -> OrderKey:
        """The lowest position of all streams, the watermark: everything below it is in the state."""
        return min((max(layer.low for layer in layers) for layers in self.streams.values()), default=BEGIN)

    def base(self, stream: str) -> OrderKey:
        """Return the key from which a declared stream must be read again."""
        return max((layer.low for layer in self.streams.get(stream, ())), default=BEGIN)

    def start(self, stream: str, tags: TagSet, splits: int = 1) -> OrderKey:
        """Return the key at which a lane starts: it brings no event below it. `splits`: the number of splits of its stream now."""
        name, split = declared(stream)
        layers = self.streams.get(name, ())
        return max(
            (lay.start(tags, split if lay.splits == splits else None) for lay in layers), default=BEGIN
        )

    def above(self, batch: EventBatch, splits: int = 1) -> EventBatch:
        """Return the events of a batch that are not in the state."""
        rows = self._rows_above(batch, splits)
        return batch if rows is None else batch.take(rows)

    def outputs_above(
        self, outputs: OutputBatch, splits: int = 1, *, put: tuple[OutputBatch, Rows | None] | None = None
    ) -> OutputBatch:
        """Return the outputs of events that are not in the state. `put`: the outputs to return instead, as `Stamps.put` made them."""
        events = EventBatch(
            outputs.stream, outputs.rank, outputs.ts, outputs.seq, outputs.tags, outputs.codes, None
        )
        rows = self._rows_above(events, splits)
        chosen, of = (outputs, None) if put is None else put
        if rows is None:
            return chosen
        return chosen.take(rows if of is None else np.flatnonzero(np.isin(of, rows)))

    def _rows_above(self, batch: EventBatch, splits: int) -> Rows | None:
        """Return the rows that are not in the state; None for all."""
        stream, split = declared(batch.stream)
        layers = self.streams.get(stream, ())
        if not len(batch) or all(batch.key(0) >= layer.high for layer in layers):
            return None
        limit: Rows | int = 0
        for layer in layers:
            limit = np.maximum(limit, layer.limits(batch, split if layer.splits == splits else None))
        return np.flatnonzero(np.arange(len(batch)) >= limit)


def declared(stream: str) -> tuple[str, int]:
    """Return the declared stream and the number of the split of an implementation stream."""
    name, _, split = stream.partition("/")
    return name, int(split or 0)


for _part in (Part, Layer, Positions):
    codec.register(_part, name=f"dgs.{_part.__name__}", formerly=f"workers.positions.{_part.__name__}")
