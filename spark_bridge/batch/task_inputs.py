"""The events of one task: it reads the streams it needs with our own readers, and keeps the events with its tags.

Every task reads its streams from their beginning, so nothing is shuffled and events come in order. One reader of each stream
*keeps* it: this one counts dropped rows, reports where the stream ended, and refuses tags that no worker owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dgs.errors import UnownedTagError
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END
from dgs.model.tag_sets import owned_instead
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.runtime.job import Job
from dgs.workers.sources import EventSource, open_source
from dgs.workers.sources.contract import Reading


class Inputs:
    """The sources with events of `tags`. `keeps`: the implementation streams kept here. Must be closed."""

    def __init__(self, job: Job, tags: ImplTagSet, keeps: frozenset[str], point: ResumePoint) -> None:
        self._job, self._tags, self._keeps, self._point = job, tags, keeps, point
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
