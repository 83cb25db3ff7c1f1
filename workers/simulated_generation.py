"""One generation of a simulated run: hosts, the frames between them, the coordinator, and what is on its way to it.

It offers its possible steps and does the one that is chosen. Everything here is lost in a crash; what survives is in the
`World`: the disk, and what sinks have accepted.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dgs import codec
from dgs.errors import CheckpointFailedError, FencedError
from dgs.events import EventBatch
from dgs.order import BEGIN, END, OrderKey, after_event, after_heartbeat
from dgs.outputs import OutputBatch
from dgs.program import Program
from planner.plan import Plan
from workers.build import make_worker
from workers.checkpoints import Checkpoint, CheckpointStore, ResumePoint, StagedFile
from workers.coordinator import Coordinator
from workers.effects import Closed, Skipped
from workers.epochs import Epochs, HostReport, RootReport
from workers.frames import decoded, encoded
from workers.host import Host
from workers.lanes import Lanes, Router
from workers.outbox import dealt_outputs, owners
from workers.positions import Positions
from workers.sources.dealing import dealt

MOST_HOSTS = 4
BLOCK = 2
"""Rows per block of a split stream: small, as streams are."""

Step = tuple[str, Any]


@dataclass(frozen=True)
class Layout:
    """A plan, and into how many each stream is split."""

    plan: Plan
    splits: Mapping[str, int] = field(default_factory=dict)

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
        rnd, plan = world.random, layout.plan
        self._lanes = Lanes(plan, world.program.dependence)
        spread = {node.id: rnd.randrange(MOST_HOSTS) for node in plan.nodes()}
        used = sorted(set(spread.values())) if rnd.random() < 0.8 else [spread[plan.root.id]]  # noqa: PLR2004
        self._home = {node: used.index(host) if host in used else 0 for node, host in spread.items()}
        hosts = len(used)
        self._feeds = self._make_feeds(hosts)
        self._hosts = [self._make_host(index, hosts) for index in range(hosts)]
        self._epochs = [Epochs(host.workers, point.epoch) for host in self._hosts]
        self._edges: dict[tuple[int, int], deque[bytes]] = {}
        self._stale = dict.fromkeys(range(hosts))
        self._reports: dict[int, deque[HostReport | RootReport]] = {i: deque() for i in range(hosts)}
        self._outlets: dict[int, deque[tuple[int, OutputBatch]]] = {i: deque() for i in range(hosts)}
        self._ends: dict[int, dict[str, OrderKey]] = {i: {} for i in range(hosts)}
        self._coordinator = Coordinator(range(hosts), self._lanes.all, point, layout.splits, BLOCK)
        self._root = plan.root.id
        self._root_host = self._home[self._root]
        self._restore()

    def _make_host(self, index: int, hosts: int) -> Host:
        mine = [node.id for node in self.layout.plan.nodes() if self._home[node.id] == index]
        sources = {
            stream: tuple(sorted(self._wanted[host, stream])) for host, stream in self._feeds if host == index
        }
        return Host(
            index,
            [make_worker(node_id, self.world.program, self._lanes, skips=self.world.skips) for node_id in mine],
            self._lanes,
            self._home,
            hosts=hosts,
            sources=sources,
            buffer_bytes=self.world.buffer_bytes or 0,
            generation=self.point.generation,
        )

    def _make_feeds(self, hosts: int) -> dict[tuple[int, str], deque[tuple[list[EventBatch], OrderKey]]]:
        """Deal every stream to its splits, and let a random host read each of these."""
        rnd = self.world.random
        self._wanted: dict[tuple[int, str], set[str]] = {}
        for stream in self.world.streams:
            for impl in self.layout.impl_streams(stream):
                self._wanted.setdefault((rnd.randrange(hosts), stream), set()).add(impl)
        return {
            (host, stream): deque(self._readings(stream, wanted))
            for (host, stream), wanted in self._wanted.items()
        }

    def _readings(self, stream: str, wanted: set[str]) -> Iterator[tuple[list[EventBatch], OrderKey]]:
        """Yield the events of a stream from the point on, in readings of random size with heartbeats between, and its end.

        A source may begin anywhere at or below the base: what is in the state already is left out.
        """
        rnd, point = self.world.random, self.point.positions
        impl, splits = self.layout.impl_streams(stream), self.layout.splits.get(stream, 1)
        base = point.base(stream)
        for whole in self.world.streams[stream]:
            start = rnd.randint(0, whole.position_of(base))
            while start < len(whole):
                stop = min(len(whole), start + rnd.choice([1, 1, 2, 5, 1000]))
                parts = [
                    point.above(p, splits) for p in dealt(whole.cut(start, stop), impl, wanted, block=BLOCK)
                ]
                yield [part for part in parts if len(part)], after_event(whole.key(stop - 1))
                start = stop
                later = int(whole.ts[stop]) if stop < len(whole) else None
                if later is not None and later > int(whole.ts[stop - 1]) and rnd.random() < 0.3:  # noqa: PLR2004
                    beat = rnd.randint(int(whole.ts[stop - 1]), later - 1)
                    yield [], after_heartbeat(beat, whole.rank)
        yield [], END

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
        for edge, frames in self._edges.items():
            if frames:
                yield "deliver", edge
        for index, reports in self._reports.items():
            if reports:
                yield "report", index
        for index, outlet in self._outlets.items():
            if outlet:
                yield "accept", index
        yield from self._reads()

    def _reads(self) -> Iterator[Step]:
        if self.world.buffer_bytes is None:
            yield from (("read", where) for where, readings in self._feeds.items() if readings)
            return
        for host in self._hosts:
            if (source := host.next_source()) is not None:
                yield "read", (host.index, source)

    def do(self, action: str, what: Any) -> None:
        """Take a step."""
        self.trace.append(f"{self.point.generation} {action} {what}")
        if action == "act":
            del self._stale[what]
            self._act(self._hosts[what])
        elif action == "deliver":
            self._deliver(what, self._edges[what].popleft())
        elif action == "report":
            self._hear(self._reports[what].popleft())
        elif action == "accept":
            self._accept(what)
        else:
            self._read(*what)

    def _read(self, index: int, stream: str) -> None:
        batches, frontier = self._feeds[index, stream].popleft()
        if frontier == END:
            events = [batch for batch in self.world.streams[stream] if len(batch)]
            last = after_event(events[-1].key(len(events[-1]) - 1)) if events else BEGIN
            self._ends[index][stream] = last
        self._hosts[index].ingest(stream, batches, frontier)
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
                state = codec.encode(effect.state)
                positions = Positions.of(self._lanes.all, effect.positions, self.layout.splits, BLOCK)
                self.world.saw_snapshot(state, positions.over(self.point.positions))
                self._reports[host.index].append(
                    RootReport(effect.epoch, state, effect.positions, effect.is_final)
                )
        for target, frame in host.frames():
            self._edges.setdefault((host.index, target), deque()).append(encoded(frame))

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
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError:
            self.trace.append(f"epoch {checkpoint.epoch} is not durable")
            self._coordinator.failed(checkpoint)
            return
        except FencedError:
            self.is_fenced = True
            return
        self.trace.append(f"epoch {checkpoint.epoch} is committed")
        self.world.committed(checkpoint)
        if checkpoint.is_final:
            self.final = checkpoint

    def _accept(self, host: int) -> None:
        _, batch = self._outlets[host][0]
        try:
            self.world.accept(self.point.generation, batch, self._splits(batch.stream))
        except FencedError:
            self.is_fenced = True
        self._outlets[host].popleft()

    @property
    def is_done(self) -> bool:
        """Whether the end is committed and the sinks have everything."""
        return self.final is not None and not any(self._outlets.values())

    def request_snapshot(self) -> None:
        """Ask the root for a checkpoint."""
        host = self._hosts[self._root_host]
        host.workers[self._root].snapshot()
        host.wake(self._root)
        self._stale[host.index] = None

    def busy_edges(self) -> list[tuple[int, int]]:
        """Return the edges with frames on their way."""
        return [edge for edge, frames in self._edges.items() if frames]

    def lose(self, edge: tuple[int, int]) -> None:
        """Lose the next frame of an edge."""
        self._edges[edge].popleft()
        self.has_lost_frames = True

    def repeat(self, edge: tuple[int, int]) -> None:
        """Deliver the next frame of an edge, and keep it to be delivered again."""
        self._deliver(edge, self._edges[edge][0])
