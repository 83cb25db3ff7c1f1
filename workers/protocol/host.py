"""A host: many workers in one process, and the frames between hosts.

Messages between workers of one host go through a local queue; those for workers elsewhere are collected into one frame per
host and pump. A host also knows which of its sources may be read next (R11). Like the workers, it only says what to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dgs.errors import FrameGapError, UnownedTagError
from dgs.model.events import Codes, EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.lanes import Lanes, Router
from dgs.workers.protocol.messages import (
    EpochClosed,
    Events,
    ForkedState,
    Frame,
    Frontiers,
    Message,
    Send,
    Skipped,
    Snapshot,
)
from dgs.workers.protocol.releases import Rows
from dgs.workers.protocol.story import Story
from dgs.workers.protocol.worker import Worker


@dataclass(frozen=True, slots=True)
class Peer:
    """The last news of another host."""

    lowest_frontier: OrderKey = BEGIN
    load: int = 0


Reported = OutputBatch | Skipped | EpochClosed | Snapshot
"""What workers tell their host: outputs, events that were left out, ends of epochs, the root's snapshots."""

FEW_LANES = 8
"""Up to so many lanes, a pass over a batch for each is cheaper than sorting it."""


def _rows_by_lane(lanes: list[int | None], codes: Codes) -> Iterator[tuple[int | None, Rows]]:
    """Yield each lane that has events in a batch, with their rows: `lanes` is the lane of each tag code."""
    distinct = list(dict.fromkeys(lanes))
    which = np.array([distinct.index(lane) for lane in lanes], dtype=np.int32)
    group = codes if len(distinct) == len(lanes) else which[codes]
    if len(distinct) <= FEW_LANES:
        found = ((lane, (group == i).nonzero()[0]) for i, lane in enumerate(distinct))
    else:
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
        found = ((lane, order[bounds[i] : bounds[i + 1]]) for i, lane in enumerate(distinct))
    yield from ((lane, rows) for lane, rows in found if len(rows))


def _always(source: str) -> bool:  # noqa: ARG001 - asked of every source
    """Every source is ready."""
    return True


class Host:
    """The workers of one process, of `hosts` in all. `home` says on which of them every worker of the plan lives.

    `story`: takes notes of what happens here (default: one of its own).
    """

    def __init__(
        self,
        index: int,
        workers: Iterable[Worker],
        lanes: Lanes,
        home: Mapping[str, int],
        *,
        hosts: int,
        sources: Mapping[str, tuple[str, ...]],
        buffer_bytes: int,
        generation: int = 0,
        story: Story | None = None,
    ) -> None:
        self.index = index
        self.story = Story(index, lanes, generation=generation) if story is None else story
        self.workers = {worker.id: worker for worker in workers}
        self._lanes = lanes
        self._router = Router(lanes)
        self._home = home
        self._buffer_bytes = buffer_bytes
        self._generation = generation
        self._queue: deque[tuple[str, Message]] = deque()
        self._awake: dict[str, None] = {}
        self._outgoing: dict[int, list[tuple[str, Message]]] = {h: [] for h in range(hosts) if h != index}
        self._has_forked = False  # in this pump, to a worker elsewhere
        self._sent = dict.fromkeys(self._outgoing, 0)
        self._received = dict.fromkeys(self._outgoing, 0)
        self._peers = dict.fromkeys(self._outgoing, Peer())
        self._told = dict.fromkeys(self._outgoing, Peer())
        self._sources = dict.fromkeys(sources, BEGIN)
        self._streams = dict(sources)
        self._feeds = {source: self._fed_hosts(streams) for source, streams in sources.items()}
        self.starved_reads = 0
        self._note_ends()

    def _fed_hosts(self, streams: Iterable[str]) -> tuple[int, ...]:
        lanes = [lane for stream in streams for lane in self._router.of_stream(stream)]
        return tuple(sorted({self._home[lane.owner] for lane in lanes} - {self.index}))

    def ingest(self, source: str, batches: Iterable[EventBatch], frontier: OrderKey) -> None:
        """Take what a local source has read: events of its streams, and how far all of them have come.

        Raises UnownedTagError for an event whose tag no worker owns.
        """
        rows = 0
        for batch in batches:
            rows += len(batch)
            for lane, part in self._split(batch):
                self._send(self._lanes.all[lane].owner, Events(lane, part))
        if rows or frontier > self._sources[source]:
            self.story.reads(source, rows, frontier)
        if frontier > self._sources[source]:
            self._sources[source] = frontier
            owners: dict[str, list[tuple[int, OrderKey]]] = {}
            for lane_of in (
                lane for stream in self._streams[source] for lane in self._router.of_stream(stream)
            ):
                owners.setdefault(lane_of.owner, []).append((lane_of.id, frontier))
            for owner, frontiers in owners.items():
                self._send(owner, Frontiers(tuple(frontiers)))
            self._note_ends()

    def _split(self, batch: EventBatch) -> Iterator[tuple[int, EventBatch]]:
        """Cut a batch by lane: once, vectorised over its tag codes."""
        if not len(batch):
            return
        lanes = [self._router.lane(batch.stream, tag) for tag in batch.tags]
        if batch.codes is None:
            yield self._owned(lanes[0], batch, 0), batch
            return
        if len(set(lanes)) == 1 and lanes[0] is not None:
            yield lanes[0], batch
            return
        for lane, rows in _rows_by_lane(lanes, batch.codes):
            mine = batch
            if lanes.count(lane) == 1:  # all have one tag: no code for each is needed
                mine = replace(batch, tags=(batch.tags[lanes.index(lane)],), codes=None)
            yield self._owned(lane, batch, int(rows[0])), mine.take(rows)

    def _owned(self, lane: int | None, batch: EventBatch, row: int) -> int:
        if lane is None:
            tag = batch.tags[0 if batch.codes is None else int(batch.codes[row])]
            raise UnownedTagError(stream=batch.stream, row=int(batch.seq[row]), tag=tag)
        return lane

    def receive(self, frame: Frame) -> None:
        """Take a frame of another host. R1: a repeat or an older generation is dropped, a gap is an error."""
        if frame.generation != self._generation or frame.sequence <= self._received[frame.sender]:
            return
        expected = self._received[frame.sender] + 1
        if frame.sequence != expected:
            raise FrameGapError(host=self.index, sender=frame.sender, expected=expected, got=frame.sequence)
        self._received[frame.sender] = expected
        self.story.receives(frame)
        self._peers[frame.sender] = Peer(frame.lowest_frontier, frame.load)
        self._queue.extend(frame.messages)
        self._note_ends()

    def _note_ends(self) -> None:
        """Let the root, if it lives here, know when all sources of the run have ended, wherever they are read."""
        if self.lowest_frontier < END or any(peer.lowest_frontier < END for peer in self._peers.values()):
            return
        for worker in self.workers.values():
            if worker.parent is None:
                worker.finish()
                self.wake(worker.id)

    def wake(self, worker: str) -> None:
        """Let a worker act at the next pump although no message came: it was started or asked for a snapshot."""
        self._awake[worker] = None

    def pump(self, *, until_forked: bool = False) -> Iterator[tuple[str, Reported]]:
        """Let the workers do all they can; yield, each with its worker, all that they do not send each other.

        With `until_forked` it stops once parts of a state are on the way to another host: they should leave before the
        workers here go on with theirs, so that both hosts work at once.
        """
        self._has_forked = False
        while (self._queue or self._awake) and not (until_forked and self._has_forked):
            while self._queue:
                target, message = self._queue.popleft()
                self.story.takes(target, message)
                self.workers[target].offer(message)
                self._awake[target] = None
            worker = self.workers[next(iter(self._awake))]
            del self._awake[worker.id]
            for effect in worker.work():
                if isinstance(effect, Send):
                    self._send(effect.target, effect.message)
                else:
                    self.story.gives(worker.id, effect)
                    yield worker.id, effect

    def _send(self, target: str, message: Message) -> None:
        host = self._home[target]
        if host == self.index:
            self._queue.append((target, message))
        else:
            self._outgoing[host].append((target, message))
            self._has_forked |= isinstance(message, ForkedState)

    def frames(self) -> Iterator[tuple[int, Frame]]:
        """Yield what is to be sent to other hosts: messages, or news of our frontier and load that they wait for."""
        me = Peer(self.lowest_frontier, self.load)
        for host, messages in self._outgoing.items():
            if not messages and not self._is_news(self._told[host], me):
                continue
            self._outgoing[host] = []
            self._told[host] = me
            self._sent[host] += 1
            frame = Frame(
                self.index,
                self._generation,
                self._sent[host],
                tuple(messages),
                me.lowest_frontier,
                me.load,
            )
            self.story.sends(host, frame)
            yield host, frame

    def _is_news(self, told: Peer, me: Peer) -> bool:
        """Whether the others should hear of our frontier or load although there is no message for them.

        Frontiers matter only while some host is full (R11), which everybody has heard of; that all sources have ended matters to
        the root.
        """
        if told.lowest_frontier < END <= me.lowest_frontier:
            return True
        if (told.load > self._buffer_bytes) != (me.load > self._buffer_bytes):
            return True
        is_one_full = any(peer.load > self._buffer_bytes for peer in (me, *self._peers.values()))
        return is_one_full and told.lowest_frontier != me.lowest_frontier

    @property
    def load(self) -> int:
        """Bytes of events that the workers here hold."""
        return sum(worker.mailbox.nbytes for worker in self.workers.values())

    @property
    def frontiers(self) -> Mapping[str, OrderKey]:
        """The frontiers of the local sources."""
        return self._sources

    @property
    def lowest_frontier(self) -> OrderKey:
        """The lowest frontier of the local sources, END when all have ended."""
        return min(self._sources.values(), default=END)

    def next_source(self, is_ready: Callable[[str], bool] = _always) -> str | None:
        """Return the source to read from: of those that are ready the one that is furthest behind; None for none now.

        A live source that has nothing does not keep others from being read. R11: over `buffer_bytes`, here or where its
        events go, a source has to wait, unless it is the globally lowest one: what the others hold may be waiting for it.
        If that one is not ready, nobody reads.
        """
        in_turn = sorted(self._sources, key=self._sources.__getitem__)
        source = next((name for name in in_turn if self._sources[name] < END and is_ready(name)), None)
        if source is None:
            return None
        is_full = self.load > self._buffer_bytes or any(
            self._peers[host].load > self._buffer_bytes for host in self._feeds[source]
        )
        if not is_full:
            return source
        others = (self.lowest_frontier, *(peer.lowest_frontier for peer in self._peers.values()))
        if all(frontier >= self._sources[source] for frontier in others):
            self.starved_reads += 1
            return source
        return None
