"""A host: many workers in one process, and the routes that messages take between them.

Messages between workers of one host go through a local queue. Messages for workers elsewhere leave in frames, over edges. Events
of local sources go to the workers that own their lanes; the read gate says which source to read next (R11). Like a worker, a host
sends and reads nothing itself: it returns what to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Unpack

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program
from dgs.workers.observing.figures import NO_METER, NoMeter
from dgs.workers.protocol.bounds import BOUNDS, Bounds
from dgs.workers.protocol.edges import Edges, Peer, ReadGate, TickReader, always
from dgs.workers.protocol.inner import ForkingInner, KeepingInner, takers
from dgs.workers.protocol.lanes import Lanes, Router
from dgs.workers.protocol.leaf import Leaf
from dgs.workers.protocol.messages import (
    EpochClosed,
    Events,
    ForkedState,
    Frame,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Message,
    Prepare,
    Send,
    Skipped,
    Snapshot,
)
from dgs.workers.protocol.story import Story
from dgs.workers.protocol.worker import Options, Worker

Reported = OutputBatch | Skipped | EpochClosed | Snapshot
"""Effects that leave the host: outputs, events that were left out, ends of epochs, and the root's snapshots."""


class Host:
    """The workers of one process. There are `hosts` processes in all.

    `home`: the host of every worker of the plan. `sources`: the local sources with their streams. `story`: takes notes of what
    happens here (default: a story of this host alone). `ticks`: the host that reads ticks, if there are any. `meter`: where the
    time of its workers goes.
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
        bounds: Bounds = BOUNDS,
        ticks: TickReader | None = None,
        meter: NoMeter = NO_METER,
    ) -> None:
        self.index = index
        self.story = Story(index, lanes, generation=generation) if story is None else story
        self.workers = {worker.id: worker for worker in workers}
        self.meter = meter
        self._lanes = lanes
        self._router = Router(lanes, bounds)
        self._home = home
        self._streams = dict(sources)
        self._queue: deque[tuple[str, Message]] = deque()
        self._awake: dict[str, None] = {}
        self._behind: dict[str, None] = {}  # workers that go on at later pumps, one per pump
        self._is_awaited = False  # whether another host waits for what the next frames bring
        self._has_stopped = False  # whether the last pump has left messages since another host waits
        self._edges = Edges(index, hosts=hosts, generation=generation, buffer_bytes=buffer_bytes, ticks=ticks)
        feeds = {source: self._fed_hosts(streams) for source, streams in sources.items()}
        self._gate = ReadGate(feeds, buffer_bytes)
        self._note_ends()

    def _fed_hosts(self, streams: Iterable[str]) -> tuple[int, ...]:
        lanes = [lane for stream in streams for lane in self._router.of_stream(stream)]
        return tuple(sorted({self._home[lane.owner] for lane in lanes} - {self.index}))

    # -- incoming ------------------------------------------------------------------------------------------------------

    def ingest(self, source: str, batches: Iterable[EventBatch], frontier: OrderKey) -> None:
        """Take events of a local source, and the frontier that all its streams have reached.

        Raises UnownedTagError for an event whose tag no worker owns.
        """
        rows = 0
        for batch in batches:
            rows += len(batch)
            for lane, part in self._router.split(batch):
                self._send(self._lanes.all[lane].owner, Events(lane, part))
        if rows or frontier > self.frontiers[source]:
            self.story.reads(source, rows, frontier)
        if self._gate.advance(source, frontier):
            owners: dict[str, list[tuple[int, OrderKey]]] = {}
            for stream in self._streams[source]:
                for lane_of in self._router.of_stream(stream):
                    owners.setdefault(lane_of.owner, []).append((lane_of.id, frontier))
            for owner, frontiers in owners.items():
                self._send(owner, Frontiers(tuple(frontiers)))
            self._note_ends()

    def receive(self, frame: Frame) -> None:
        """Take a frame of another host. R1: drops a repeat or an older generation; raises FrameGapError for a gap."""
        if self._edges.accept(frame):
            self.story.receives(frame)
            self._queue.extend(frame.messages)
            self._note_ends()

    def _note_ends(self) -> None:
        """Tell the root, if it is on this host, once all sources of the run have ended, here and elsewhere."""
        if self.lowest_frontier < END or any(
            peer.lowest_frontier < END for peer in self._edges.peers.values()
        ):
            return
        for worker in self.workers.values():
            if worker.parent is None:
                worker.finish()
                self.wake(worker.id)

    # -- work ----------------------------------------------------------------------------------------------------------

    def wake(self, worker: str) -> None:
        """Let a worker act at the next pump without a message: it was started or asked for a snapshot."""
        self._awake[worker] = None

    def pump(self, *, until_awaited: bool = False) -> Iterator[tuple[str, Reported]]:
        """Let the workers do all they can. Yield every effect that is not a message, with the worker it comes from.

        With `until_awaited` it stops while another host waits for events, a request or a part of a state: `frames` should bring these before
        the workers here go on, so that both hosts work at once. Of the workers that have more to do than fits into a pump, one goes on, so
        that the call takes a bounded time; the others only take their messages.
        """
        self._has_stopped = until_awaited and self._is_awaited
        if self._has_stopped:
            return
        self._awake_next()
        while (self._queue or self._awake) and not (until_awaited and self._is_awaited):
            while self._queue:
                target, message = self._queue.popleft()
                self.story.takes(target, message)
                self.workers[target].offer(message)
                if target not in self._behind:
                    self._awake[target] = None
            if not self._awake:
                return
            worker = self.workers[next(iter(self._awake))]
            del self._awake[worker.id]
            self.meter.turn(worker.id)
            for effect in worker.work():
                if isinstance(effect, Send):
                    self._send(effect.target, effect.message)
                else:
                    self.story.gives(worker.id, effect)
                    yield worker.id, effect
            self.meter.rest()
            if worker.has_more:
                self._behind[worker.id] = None
        self._has_stopped = bool(self._queue)

    def _awake_next(self) -> None:
        """Wake the next worker that is behind, after those that are awake."""
        if self._behind:
            name = next(iter(self._behind))
            del self._behind[name]
            self._awake[name] = None

    @property
    def is_behind(self) -> bool:
        """Whether the next pump has something to do even if nothing arrives: a worker with more work, or messages left by a pump that stopped."""
        return bool(self._behind) or self._has_stopped

    def _send(self, target: str, message: Message) -> None:
        host = self._home[target]
        if host == self.index:
            self._queue.append((target, message))
        else:
            self._edges.put(host, target, message)
            self._is_awaited |= isinstance(message, Events | ForkedState | JoinRequest | Prepare)

    # -- outgoing ------------------------------------------------------------------------------------------------------

    def frames(self) -> Iterator[tuple[int, Frame]]:
        """Yield the frames to send to other hosts, with messages or only with news that they need of our frontier and load."""
        self._is_awaited = False
        for host, frame in self._edges.frames(Peer(self.lowest_frontier, self.load)):
            self.story.sends(host, frame)
            yield host, frame

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def load(self) -> int:
        """Bytes of events that the workers here hold."""
        return sum(worker.load for worker in self.workers.values())

    @property
    def frontiers(self) -> Mapping[str, OrderKey]:
        """The frontiers of the local sources."""
        return self._gate.frontiers

    @property
    def lowest_frontier(self) -> OrderKey:
        """The lowest frontier of the local sources, END when all have ended."""
        return self._gate.lowest_frontier

    def lowest_besides(self, source: str) -> OrderKey:
        """Return the lowest frontier of all other sources, here and, by their latest news, on other hosts."""
        here = (frontier for name, frontier in self.frontiers.items() if name != source)
        return min((*here, *(peer.lowest_frontier for peer in self._edges.peers.values())), default=END)

    @property
    def starved_reads(self) -> int:
        """The number of reads while a buffer was full. Only the globally lowest source may be read then."""
        return self._gate.starved_reads

    def next_source(self, is_ready: Callable[[str], bool] = always) -> str | None:
        """Return the source to read next among the ready ones, or None: see `ReadGate.next_source`."""
        return self._gate.next_source(self.load, self._edges.peers, is_ready)

    # -- invariants ----------------------------------------------------------------------------------------------------

    def validate_state(self) -> None:
        """Raise InternalError if an invariant does not hold. Tests call this after every step."""
        for problem in self.broken_invariants():
            raise InternalError(problem=f"host {self.index} is broken: {problem}")

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant of this host and of its workers that does not hold."""
        for worker in self.workers.values():
            yield from (f"worker {worker.id}: {problem}" for problem in worker.broken_invariants())
            if isinstance(worker, ForkingInner):
                yield from self._broken_holders(worker)
        yield from self._gate.broken_invariants()
        yield from self._edges.broken_invariants(self._home)
        strangers = [
            name
            for name in (*(target for target, _ in self._queue), *self._awake)
            if name not in self.workers
        ]
        if strangers:
            yield f"{strangers[0]} is to act here, but its home is another host"
        if not self._queue:
            yield from self._broken_frontiers()

    def _broken_holders(self, parent: ForkingInner) -> Iterator[str]:
        """Yield the children here whose part of the state is not in exactly one place: parent, queue or child."""
        for child in parent.takers:
            if child not in self.workers:
                continue
            places = [parent.has_part_of(child), self.workers[child].has_state]
            for target, message in self._queue:
                is_down = isinstance(message, ForkedState) and target == child
                places.append(is_down or (isinstance(message, JoinAnswer) and message.child == child))
            if sum(places) != 1:
                yield f"the state of {child} is in {sum(places)} places"

    def _broken_frontiers(self) -> Iterator[str]:
        """Yield the workers here that miss the frontier of a source here although no message is on its way."""
        for source, streams in self._streams.items():
            for lane in (lane for stream in streams for lane in self._router.of_stream(stream)):
                owner = self.workers.get(lane.owner)
                if owner is not None and owner.mailbox.frontier(lane.id) < self.frontiers[source]:
                    yield f"{owner.id} does not know that source {source!r} is at {self.frontiers[source]}"


def make_worker(node_id: str, program: Program, lanes: Lanes, **options: Unpack[Options]) -> Worker:
    """Return the worker of a node: a leaf, or one of the two kinds with children."""
    node = lanes.plan.node(node_id)
    with_children = ForkingInner if takers(node, program) else KeepingInner
    seen = program.when_skipping() if options.get("skips") else program
    return (Leaf if node.is_leaf else with_children)(node, seen, lanes, **options)
