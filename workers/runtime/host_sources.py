"""The sources that one host reads: opened, resumed at a checkpoint, and read in turn.

After a resume, events that are already in the restored state are left out.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, MIN_TS, OrderKey
from dgs.model.tags import Tag
from dgs.workers.observing.figures import StreamFigures
from dgs.workers.runtime import process
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.sources import EventSource, open_source
from dgs.workers.sources.rows import LiveTime, Stopwatch
from dgs.workers.sources.ticks import LAST, Ticks


class HostSources:
    """The sources of one host by declared stream.

    `in_flight` returns the bytes on their way to a host. While there are too many, sources that feed this host wait. A busy
    host takes nothing, so without this bound the queues to it would grow.
    """

    def __init__(self, deployment: Deployment, index: int, in_flight: Callable[[int], int]) -> None:
        self._point = deployment.point
        self._splits = deployment.job.splits
        self._in_flight = in_flight
        self._credit_bytes = deployment.credit_bytes
        self._waits: list[float] = []
        self._latest = MIN_TS
        self._sources: dict[str, EventSource] = {}
        self._fed: dict[str, tuple[int, ...]] = {}
        with ExitStack() as opened:
            opened.callback(self.close)
            self._open(deployment, index)
            opened.pop_all()

    def _open(self, deployment: Deployment, index: int) -> None:
        job = deployment.job
        clock = LiveTime(job.runtime.linger, elapsed=Stopwatch())
        for config, streams in deployment.local_streams(index):
            self._fed[config.id] = deployment.fed_hosts(index, streams)
            self._sources[config.id] = open_source(
                config,
                job.source_context,
                rank=deployment.rank(config.id),
                batch_rows=job.runtime.batch_rows,
                until=job.until,
                streams=streams,
                time=clock,
            )
        self._ticks = [source for source in self._sources.values() if isinstance(source, Ticks)]
        self._heard = dict.fromkeys(self._sources, process.now())
        self._events = dict.fromkeys(self._sources, 0)
        self._newest: dict[str, int] = {}
        if self._point.epoch:
            for name, source in self._sources.items():
                self._resume(name, source)

    def _resume(self, name: str, source: EventSource) -> None:
        """Check that a source has not changed, and let it skip the events that are already in the state, if it can."""
        if name in self._point.sources:
            source.resume(self._point.sources[name])
        base = self._point.positions.base(name)
        if BEGIN < base < END:
            source.skip_to(base)
        if isinstance(source, Ticks):
            source.owe(self._point.committed)

    def begin_step(self, lowest_besides: Callable[[str], OrderKey]) -> None:
        """Forget the waiting times of the previous step, and tell ticks how far the other sources have come."""
        self._waits = []
        for ticks in self._ticks:
            ticks.follow(lowest_besides(ticks.stream), self._latest)

    def is_ready(self, source: str) -> bool:
        """Return whether a source has something to read. If not, its waiting time is noted for `idle_seconds`."""
        wait = self._sources[source].wait
        if 0 < wait < math.inf:
            self._waits.append(wait)
        return wait <= 0

    @property
    def idle_seconds(self) -> float | None:
        """The time until a live source that was not ready may bring an event; None if none will."""
        return min(self._waits, default=None)

    def is_congested(self, source: str) -> bool:
        """Return whether too much is on its way to a host that a source feeds. That host's acknowledgement wakes this one."""
        return any(self._in_flight(host) > self._credit_bytes for host in self._fed[source])

    def read(self, name: str, known: OrderKey) -> tuple[list[EventBatch], OrderKey]:
        """Read on; return the events that are not in the restored state, and the frontier. `known`: the frontier so far."""
        reading = self._sources[name].read()
        if reading.batches or reading.frontier > known:
            self._heard[name] = process.now()
        batches = list(reading.batches)
        if times := [int(batch.ts[-1]) for batch in batches if len(batch)]:
            self._newest[name] = max(self._newest.get(name, MIN_TS), *times)
        if self._ticks and not isinstance(self._sources[name], Ticks):
            self._latest = max(self._latest, self._newest.get(name, MIN_TS))
        if self._point.epoch:
            batches = [self._point.positions.above(batch, self._splits[name]) for batch in batches]
        self._events[name] += sum(map(len, batches))
        return batches, reading.frontier

    def describe(self) -> dict[str, Mapping[str, Any]]:
        """Return the description of each source and how far it has been read, for a checkpoint."""
        return {name: source.description for name, source in self._sources.items()}

    def figures(
        self, frontiers: Mapping[str, OrderKey], dead_lettered: Mapping[str, int]
    ) -> dict[str, StreamFigures]:
        """Return the figures of the streams that are read here. `frontiers`, `dead_lettered`: by stream."""
        return {
            name: self._figures(name, source, frontiers[name], dead_lettered.get(name, 0))
            for name, source in self._sources.items()
        }

    def _figures(self, name: str, source: EventSource, frontier: OrderKey, letters: int) -> StreamFigures:
        counted, newest = source.counted, self._newest.get(name)
        # after it come only the last ticks and the end
        is_told = MIN_TS < frontier.ts < LAST
        return StreamFigures(
            rows=counted.rows,
            events=self._events[name],
            frontier=frontier.ts if is_told else newest,
            newest=newest,
            has_ended=frontier >= END,
            heard=self._heard[name],
            held=counted.held,
            dropped=source.drops,
            dead_lettered=letters,
            share=counted.share,
        )

    def ages(self) -> dict[str, float]:
        """Return how many seconds ago each source last brought something."""
        now = process.now()
        return {source: now - heard for source, heard in self._heard.items()}

    def close(self) -> None:
        """Close all sources."""
        for source in self._sources.values():
            source.close()


LEAST_COUNTED, SHARE_COUNTED = 64, 1 / 256
"""Events of a batch that are counted, and their share in a large batch."""

MOST_TAGS = 10_000
"""Tags that are counted separately. Later ones are counted as None: frequent tags come early."""


class TagCounts:
    """Counts the events that a host reads by implementation tag: the rates at which a run compares plans.

    Of a large batch only a sample is counted, so that counting is cheap for any batch: one event of each of many equal parts, at a
    random place, since tags often come in turns. `add` and `take` may be called by two threads.

    >>> counts = TagCounts()
    >>> counts.add(EventBatch.of("s", rank=0, tags=[Tag("a"), Tag("b")], ts=[1, 2, 3], codes=[0, 1, 0]))
    >>> counts.take(), counts.take()
    ({('s', a): 2.0, ('s', b): 1.0}, {})
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Tag | None], float] = {}
        self._random = np.random.default_rng(0)  # the same in each run
        self._lock = threading.Lock()

    def add(self, batch: EventBatch) -> None:
        """Count the events of a batch."""
        events = len(batch)
        if not events:
            return
        with self._lock:
            if batch.codes is None:
                self._note(batch.stream, batch.tags[0], events)
                return
            parts = min(events, max(LEAST_COUNTED, int(SHARE_COUNTED * events)))
            bounds = np.arange(parts + 1) * events // parts
            some = batch.codes[self._random.integers(bounds[:-1], bounds[1:])]
            each = events / parts
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
