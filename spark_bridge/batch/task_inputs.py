"""The events of one task: it reads the streams it needs with our own readers, and keeps the events with its tags.

A task reads its streams from their beginning, or some row groups of a stream of Parquet files, so nothing is shuffled and events
come in order. For each row, one task *keeps* its stream: it counts dropped rows, reports how far it has come, and refuses tags that no
worker owns. Whether the parts of a stream are in order is checked by `check_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import OutOfOrderError, UnownedTagError
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END
from dgs.model.tag_sets import owned_instead
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.runtime.job import Job
from dgs.workers.sources import EventSource, open_source
from dgs.workers.sources.contract import Reading


@dataclass(frozen=True, order=True, slots=True)
class Edges:
    """The first row read of a part of a stream, with its time, and the time of the last row."""

    row: int
    first: int
    last: int


def check_order(stream: str, parts: Iterable[Edges]) -> None:
    """Raise OutOfOrderError if a part of a stream begins before the end of the previous part.

    >>> check_order("clicks", [Edges(100, 7, 9), Edges(0, 1, 8)])
    Traceback (most recent call last):
    dgs.errors.OutOfOrderError: stream 'clicks', row 100: timestamp 7 comes after 8...
    """
    for before, part in pairwise(sorted(parts)):
        if part.first < before.last:
            raise OutOfOrderError(stream=stream, row=part.row, ts=part.first, previous=before.last)


class Inputs:
    """The sources with events of `tags`. `keeps`: the implementation streams kept here. Must be closed.

    `rows`: the row groups to read of streams that several tasks share. `edges`: of those streams, once they have been read.
    """

    def __init__(
        self,
        job: Job,
        tags: ImplTagSet,
        keeps: frozenset[str],
        point: ResumePoint,
        rows: Mapping[str, range] | None = None,
    ) -> None:
        self._job, self._tags, self._keeps, self._point = job, tags, keeps, point
        self._rows = rows or {}
        self.edges: dict[str, Edges] = {}
        self._whole = job.plan.root.subtree_tags()
        self._known: dict[tuple[str, Any], bool] = {}
        wanted = {stream for stream, _ in tags} | keeps
        found = {c.id: tuple(s for s in c.impl_streams if s in wanted) for c in job.streams}
        self.streams: dict[str, tuple[str, ...]] = {name: some for name, some in found.items() if some}
        self._sources = {
            config.id: self._open(rank, self.streams[config.id])
            for rank, config in enumerate(job.streams)
            if config.id in self.streams
        }
        self.events = 0

    def _open(self, rank: int, streams: Sequence[str]) -> EventSource:
        job, config = self._job, self._job.streams[rank]
        source = open_source(
            config,
            job.source_context,
            rank=rank,
            batch_rows=job.runtime.batch_rows,
            until=job.until,
            streams=streams,
            rows=self._rows.get(config.id),
        )
        if config.id in self._point.sources:
            source.resume(self._point.sources[config.id])
        base = self._point.positions.base(config.id)
        if BEGIN < base < END:
            source.skip_to(base)
        return source

    def read(self, name: str) -> Reading:
        """Read from a declared stream. Raises UnownedTagError, and the errors of its source."""
        reading = self._sources[name].read()
        if name in self._rows:
            self._note_edges(name, reading.batches)
        batches = tuple(self._mine(name, reading.batches))
        self.events += sum(map(len, batches))
        return Reading(batches, reading.frontier)

    def batches(self) -> Iterator[EventBatch]:
        """Yield all batches, one stream after the other."""
        for name in self.streams:
            frontier = BEGIN
            while frontier != END:
                reading = self.read(name)
                frontier = reading.frontier
                yield from reading.batches

    def described(self) -> dict[str, Any]:
        """Return descriptions of the sources of the streams kept here, with their read positions, in the form of a checkpoint."""
        return {name: self._sources[name].description for name in self._kept()}

    def drops(self) -> dict[str, int]:
        """Return the number of dropped events of each stream kept here."""
        return {name: self._sources[name].drops for name in self._kept()}

    def close(self) -> None:
        """Release the sources."""
        for source in self._sources.values():
            source.close()

    def _note_edges(self, name: str, batches: Sequence[EventBatch]) -> None:
        for batch in batches:
            row, first, last = int(batch.seq[0]), int(batch.ts[0]), int(batch.ts[-1])
            known = self.edges.get(name, Edges(row, first, last))
            self.edges[name] = Edges(min(known.row, row), min(known.first, first), max(known.last, last))

    def _kept(self) -> list[str]:
        return [name for name, some in self.streams.items() if self._keeps.intersection(some)]

    def _mine(self, name: str, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
        splits = self._job.splits[name]
        for read in batches:
            batch = read if self._point.epoch == 0 else self._point.positions.above(read, splits)
            if batch.stream in self._keeps:
                self._check(batch)
            mine = self._chosen(batch, self._tags, "mine")
            if len(mine):
                yield mine

    def _check(self, batch: EventBatch) -> None:
        owned = self._chosen(batch, self._whole, "owned")
        if len(owned) < len(batch):
            row = int(np.flatnonzero(~np.isin(np.asarray(batch.seq), np.asarray(owned.seq)))[0])
            tag = batch.tags[0 if batch.codes is None else int(batch.codes[row])]
            instead = owned_instead(tag, self._whole.stream(batch.stream))
            raise UnownedTagError(stream=batch.stream, row=int(batch.seq[row]), tag=tag, owned=instead)

    def _chosen(self, batch: EventBatch, tags: ImplTagSet, why: str) -> EventBatch:
        """Return the events whose tags are in a set; the answer for each tag is cached under `why`."""
        some = tags.stream(batch.stream)
        keeps = []
        for tag in batch.tags:
            asked = (why + batch.stream, tag)
            if asked not in self._known:
                self._known[asked] = tag in some
            keeps.append(self._known[asked])
        if all(keeps):
            return batch
        if batch.codes is None:
            return batch if keeps[0] else batch.cut(0, 0)
        return batch.take(np.flatnonzero(np.array(keeps)[batch.codes]))


codec.register(Edges, name="dgs.spark.Edges")
