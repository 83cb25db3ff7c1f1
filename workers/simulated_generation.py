"""One generation of a simulated run: hosts, the frames between them, the coordinator, and what is on its way to it.

It offers its possible steps and does the one that is chosen. Everything here is lost in a crash; what survives is in the
`World`: the disk, and what sinks have accepted.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from dgs import codec
from dgs.dependence import Dependence
from dgs.errors import CheckpointFailedError, FencedError
from dgs.events import EventBatch
from dgs.order import END, OrderKey
from dgs.outputs import OutputBatch
from dgs.program import Program
from planner.plan import Plan
from workers.build import make_worker
from workers.checkpointing import MOST_FAILURES
from workers.checkpoints import Checkpoint, CheckpointStore, ResumePoint, StagedFile
from workers.coordinator import Coordinator
from workers.effects import Closed, Skipped, Snapshot
from workers.epochs import Epochs, HostReport, RootReport
from workers.faults import Faults
from workers.frames import decoded, encoded
from workers.host import Host
from workers.lanes import Lanes, Router
from workers.oracles import Reader, reads_out_of_turn
from workers.outbox import dealt_otherwise, dealt_outputs, owners
from workers.positions import Positions
from workers.simulated_network import Edge, Network
from workers.simulated_sources import BLOCK, FOR_EVER, LONGEST_SILENCE, Sources, Where

MOST_HOSTS = 4
SMALLEST_BUFFER = 1
"""Bytes: any event is too much."""

Step = tuple[str, Any]


@dataclass(frozen=True)
class Layout:
    """A plan, and into how many each stream is split. Its lanes are made once, for all generations that have it."""

    plan: Plan
    splits: Mapping[str, int] = field(default_factory=dict)
    _lanes: dict[Dependence, Lanes] = field(default_factory=dict, repr=False, compare=False)

    def lanes(self, dependence: Dependence) -> Lanes:
        """Return the lanes of the plan."""
        if dependence not in self._lanes:
            self._lanes[dependence] = Lanes(self.plan, dependence)
        return self._lanes[dependence]

    def impl_streams(self, stream: str) -> tuple[str, ...]:
        """Return the implementation streams of a declared one."""
        splits = self.splits.get(stream, 1)
        return (stream,) if splits == 1 else tuple(f"{stream}/{i}" for i in range(splits))


class World(Protocol):
    """What outlives a generation."""

    random: random.Random
    program: Program
    skips: bool
    streams: Mapping[str, Sequence[EventBatch]]
    is_transactional: bool
    buffer_bytes: int | None
    faults: Faults

    @property
    def now(self) -> int:
        """Virtual time: the number of steps."""

    def is_odd(self) -> bool:
        """Return whether a legal but rare path is to be taken here."""

    def write(self, path: str, batch: OutputBatch) -> None:
        """Append to a staged file."""

    def has_staged(self, path: str) -> bool:
        """Return whether there is such a file."""

    def accept(self, generation: int, batch: OutputBatch, splits: int) -> None:
        """Let the idempotent sink take outputs. Raises FencedError."""

    def saw_snapshot(self, state: bytes, positions: Positions) -> None:
        """Note a snapshot, for the oracle."""

    def committed(self, checkpoint: Checkpoint) -> None:
        """Note a commit, for the oracle."""

    def object_to(self, problem: str) -> None:
        """Note what should not be."""


class Generation:
    """A tree of workers on random hosts, started from a point."""

    def __init__(
        self, world: World, layout: Layout, store: CheckpointStore, point: ResumePoint, trace: list[str]
    ) -> None:
        self.world, self.layout, self.point, self.trace = world, layout, point, trace
        self._store = store
        self.has_lost_frames = False
        self.is_fenced = False
        self.final: Checkpoint | None = None
        self.commits = 0
        self.asked = 0
        rnd, plan = world.random, layout.plan
        self._lanes = layout.lanes(world.program.dependence)
        spread = {node.id: rnd.randrange(MOST_HOSTS) for node in plan.nodes()}
        used = sorted(set(spread.values())) if rnd.random() < 0.8 else [spread[plan.root.id]]  # noqa: PLR2004
        self._home = {node: used.index(host) if host in used else 0 for node, host in spread.items()}
        hosts = len(used)
        self._buffer_bytes = SMALLEST_BUFFER if world.is_odd() else world.buffer_bytes
        self.sources = Sources(
            rnd,
            world.streams,
            layout.impl_streams,
            hosts=hosts,
            point=point.positions,
            is_odd=world.is_odd,
        )
        self._silence()
        self._hosts = [self._make_host(index, hosts) for index in range(hosts)]
        self._epochs = [Epochs(host.workers, point.epoch) for host in self._hosts]
        self.network = Network()
        self._stale = dict.fromkeys(range(hosts))
        self._reports: dict[int, deque[HostReport | RootReport]] = {i: deque() for i in range(hosts)}
        self._outlets: dict[int, deque[tuple[int, OutputBatch]]] = {i: deque() for i in range(hosts)}
        self._ends: dict[int, dict[str, OrderKey]] = {i: {} for i in range(hosts)}
        self._coordinator = Coordinator(range(hosts), self._lanes.all, point, layout.splits, BLOCK)
        self._root = plan.root.id
        self._root_host = self._home[self._root]
        self._restore()

    def _silence(self) -> None:
        """Let some sources say nothing, for a while or until nothing else can move."""
        rnd, muting = self.world.random, self.world.faults.muting
        for where in self.sources.all if muting else ():
            if rnd.random() < muting:
                is_short = rnd.random() < 0.5  # noqa: PLR2004 - as often as not
                longest = rnd.randint(1, LONGEST_SILENCE)
                self.sources.silence(where, self.world.now + longest if is_short else FOR_EVER)

    def _make_host(self, index: int, hosts: int) -> Host:
        mine = [node.id for node in self.layout.plan.nodes() if self._home[node.id] == index]
        return Host(
            index,
            [
                make_worker(node_id, self.world.program, self._lanes, skips=self.world.skips)
                for node_id in mine
            ],
            self._lanes,
            self._home,
            hosts=hosts,
            sources=self.sources.of_host(index),
            buffer_bytes=self._buffer_bytes or 0,
            generation=self.point.generation,
        )

    def _restore(self) -> None:
        """Start every worker where the point is, and put what sinks have not accepted before all newer outputs (R7)."""
        starts = {
            lane.id: self.point.positions.start(lane.stream, lane.tags, self._splits(lane.stream))
            for lane in self._lanes.all
        }
        for host in self._hosts:
            for worker in host.workers.values():
                worker.resume(starts)
        program, root = self.world.program, self._hosts[self._root_host].workers[self._root]
        state = program.init() if self.point.state is None else codec.decode(self.point.state)
        root.start(state, self.point.epoch)
        self._hosts[self._root_host].wake(self._root)
        router = Router(self._lanes)
        for batch in self.point.outbox:
            before = dealt_otherwise(batch, self.point.committed, self.layout.splits, block=BLOCK)
            if before is not None:
                self.world.accept(self.point.generation, batch, before)
                continue
            for part in dealt_outputs(batch, self.layout.impl_streams, block=BLOCK):
                for lane, some in owners(part, router):
                    owner = self._lanes.all[lane].owner
                    self._outlets[self._home[owner]].append((self.point.epoch, some))

    def _splits(self, stream: str) -> int:
        return self.layout.splits.get(stream.partition("/")[0], 1)

    def steps(self) -> Iterator[Step]:
        """Yield everything that could happen next."""
        for index in self._stale:
            yield "act", index
        for edge in self.network.open_edges(self.world.now):
            yield "deliver", edge
        for index, reports in self._reports.items():
            if reports:
                yield "report", index
        for index, outlet in self._outlets.items():
            if outlet:
                yield "accept", index
        yield from self._reads()

    def _reads(self) -> Iterator[Step]:
        now, sources = self.world.now, self.sources
        if self._buffer_bytes is None:
            yield from (("read", where) for where in sources.all if sources.has_more(where, now))
            return
        for host in self._hosts:
            source = host.next_source(partial(self._has_more, host.index))
            if source is not None:
                yield "read", (host.index, source)

    def _has_more(self, host: int, stream: str) -> bool:
        return self.sources.has_more((host, stream), self.world.now)

    def next_event(self) -> int | None:
        """Return the step at which something can happen although nothing can now: an edge is free, or a source speaks."""
        now = self.world.now
        times = (self.network.next_opening(now), self.sources.next_voice(now))
        return min((time for time in times if time is not None), default=None)

    def do(self, action: str, what: Any) -> None:
        """Take a step."""
        self.trace.append(f"{self.point.generation} {action} {what}")
        if action == "act":
            del self._stale[what]
            self._act(self._hosts[what])
        elif action == "deliver":
            self._deliver(what, self.network.take(what))
        elif action == "report":
            self._hear(self._reports[what].popleft())
        elif action == "accept":
            self._accept(what)
        else:
            self._read(what)

    def _read(self, where: Where) -> None:
        index, stream = where
        host = self._hosts[index]
        if self._buffer_bytes is not None:
            reader = Reader(stream, host.frontiers[stream], host.load, self._buffer_bytes)
            frontiers = [frontier for other in self._hosts for frontier in other.frontiers.values()]
            if (problem := reads_out_of_turn(reader, frontiers)) is not None:
                self.world.object_to(problem)
        batches, frontier = self.sources.read(where)
        if frontier == END:
            self._ends[index][stream] = self.sources.end(stream)
        host.ingest(stream, batches, frontier)
        self._stale[index] = None

    def _act(self, host: Host) -> None:
        epochs = self._epochs[host.index]
        for worker, effect in host.pump():
            if isinstance(effect, OutputBatch):
                self._output(host.index, epochs.of(worker), effect)
            elif isinstance(effect, Skipped):
                self._leave_out(host.index, epochs.of(worker), effect)
            elif isinstance(effect, Closed):
                if epochs.close(worker, effect.epoch):
                    self._stage(host.index, effect.epoch)
            else:
                self._snapshot(host.index, effect)
        for target, frame in host.frames():
            self.network.send((host.index, target), encoded(frame))

    def _snapshot(self, host: int, snapshot: Snapshot) -> None:
        state = codec.encode(snapshot.state)
        positions = Positions.of(self._lanes.all, snapshot.positions, self.layout.splits, BLOCK)
        self.world.saw_snapshot(state, positions.over(self.point.positions))
        self._reports[host].append(RootReport(snapshot.epoch, state, snapshot.positions, snapshot.is_final))

    def _output(self, host: int, epoch: int, batch: OutputBatch) -> None:
        self.trace.append(f"output {batch.stream} {batch.ts.tolist()} {np.asarray(batch.seq).tolist()}")
        if not self.world.is_transactional:
            self._outlets[host].append((epoch, batch))
            return
        new = self.point.committed.outputs_above(batch, self._splits(batch.stream))
        if len(new):
            self.world.write(self._path(host, epoch), new)

    def _leave_out(self, host: int, epoch: int, skipped: Skipped) -> None:
        """Write a dead letter: always to a file, like an output whose value it is."""
        if len(self.point.committed.above(skipped.event, self._splits(skipped.event.stream))):
            letter = OutputBatch.of_rows(skipped.event, [skipped.letter])
            self.world.write(self._path(host, epoch), letter)

    def _path(self, host: int, epoch: int) -> str:
        return f"{epoch}-{host}.{self.point.generation}"

    def _stage(self, host: int, epoch: int) -> None:
        path = self._path(host, epoch)
        files = (StagedFile(path, path, 0, "", 0),) if self.world.has_staged(path) else ()
        unaccepted = tuple(batch for of, batch in self._outlets[host] if of <= epoch)
        self._reports[host].append(HostReport(host, epoch, files, unaccepted, dict(self._ends[host])))

    def _deliver(self, edge: tuple[int, int], frame: bytes) -> None:
        self._hosts[edge[1]].receive(decoded(frame, edge[0]))
        self._stale[edge[1]] = None

    def _hear(self, report: HostReport | RootReport) -> None:
        """Let the coordinator hear a report, and commit what is complete."""
        if isinstance(report, RootReport):
            self._coordinator.root_reports(report)
        else:
            self._coordinator.host_reports(report)
        checkpoint = self._coordinator.complete()
        if checkpoint is None:
            return
        if not checkpoint.is_final and self.world.is_odd():
            self._coordinator.carry(checkpoint)  # not worth saving: `checkpoint.when`
            return
        self._commit(checkpoint)

    def _commit(self, checkpoint: Checkpoint) -> None:
        """Commit a checkpoint. Raises CheckpointFailedError if it is the last one, or several have failed."""
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError:
            self.trace.append(f"epoch {checkpoint.epoch} is not durable")
            self._coordinator.failed(checkpoint)
            if checkpoint.is_final or self._coordinator.failures >= MOST_FAILURES:
                raise
            return
        except FencedError:
            self.is_fenced = True
            return
        self.trace.append(f"epoch {checkpoint.epoch} is committed")
        self._coordinator.committed()
        self.commits += 1
        self.world.committed(checkpoint)
        if checkpoint.is_final:
            self.final = checkpoint

    def _accept(self, host: int) -> None:
        _, batch = self._outlets[host][0]
        try:
            self.world.accept(self.point.generation, batch, self._splits(batch.stream))
        except FencedError:
            self.is_fenced = True
        if not self.world.is_odd():  # else: accepted, but nobody heard of it
            self._outlets[host].popleft()

    @property
    def is_done(self) -> bool:
        """Whether the end is committed and the sinks have everything."""
        return self.final is not None and not any(self._outlets.values())

    def request_snapshot(self) -> None:
        """Ask the root for a checkpoint."""
        self.asked += 1
        host = self._hosts[self._root_host]
        host.workers[self._root].snapshot()
        host.wake(self._root)
        self._stale[host.index] = None

    def busy_edges(self) -> list[Edge]:
        """Return the edges with frames on their way."""
        return self.network.busy_edges()

    def lose(self, edge: Edge) -> None:
        """Lose the next frame of an edge."""
        self.network.take(edge)
        self.has_lost_frames = True

    def repeat(self, edge: Edge) -> None:
        """Deliver the next frame of an edge, and keep it to be delivered again: next, or after the others."""
        if self.world.random.random() < 0.5:  # noqa: PLR2004 - as often as not
            self.network.repeat_late(edge)
        else:
            self._deliver(edge, self.network.peek(edge))

    def stray(self, edge: Edge, frame: bytes) -> None:
        """Deliver a frame of an older generation (R1)."""
        if max(edge) < len(self._hosts):
            self._deliver(edge, frame)
