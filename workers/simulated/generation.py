"""One generation of a simulated run: hosts, the frames between them, and what they read.

It offers its possible steps and takes the chosen one. A crash loses everything here. The `World` survives, with the disk and the outputs
that sinks have accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from dgs import codec
from dgs.model.order import END
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.messages import EpochClosed, Skipped, Snapshot
from dgs.workers.protocol.story import Story
from dgs.workers.recovery.checkpoint import CheckpointStore, ResumePoint
from dgs.workers.recovery.coordinator import Coordinator, RootReport
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.driver import Driver
from dgs.workers.simulated.layout import Layout
from dgs.workers.simulated.network import Edge, Network
from dgs.workers.simulated.oracles import Reader, reads_out_of_turn
from dgs.workers.simulated.outputs import Outputs
from dgs.workers.simulated.slowness import Slowness, staging
from dgs.workers.simulated.sources import BLOCK, Sources, Where
from dgs.workers.simulated.world import World
from dgs.workers.transport.frames import NetworkLoad, decoded, encoded_with_sizes

MOST_HOSTS = 4
PACES = (0.01, 0.2, 0.0)
"""Seconds per step for work that is bounded by time (`dgs.workers.protocol.bounds`). Each generation takes the next."""

SMALLEST_BUFFER = 1
"""Bytes, so that any event is too much."""

Step = tuple[str, Any]


class Generation:
    """A tree of workers on random hosts, which starts from a point."""

    def __init__(self, world: World, layout: Layout, store: CheckpointStore, point: ResumePoint) -> None:
        self.world, self.layout, self.point = world, layout, point
        self.has_lost_frames = False
        self.asked = 0
        self._looks = 0
        self._pace = PACES[(point.generation + len(layout.plan)) % len(PACES)]
        rnd, plan = world.random, layout.plan
        self._lanes = layout.lanes(world.program.dependence, world.bounds)
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
            live=world.live,
            about=point.sources,
            object_to=world.object_to,
        )
        self.sources.silence_some(world.faults.muting, world.now)
        self._hosts = [self._make_host(index, hosts) for index in range(hosts)]
        self.network = Network()
        self.load = world.result.load = NetworkLoad(self._lanes)
        self._stale = dict.fromkeys(range(hosts))
        self.slowness = Slowness(rnd, world.says)
        self.outputs = Outputs(world, layout, point, self._hosts, self.slowness)
        coordinator = Coordinator(range(hosts), self._lanes.all, point, layout.splits, BLOCK)
        self.driver = Driver(world, store, coordinator, hosts, self.slowness)
        self._root = plan.root.id
        self._root_host = self._home[self._root]
        self._restore()

    def _clock(self) -> float:
        """Return the time for work that is bounded by time. It advances with every step and every call."""
        self._looks += 1
        return (self.world.now + self._looks) * self._pace

    def _make_host(self, index: int, hosts: int) -> Host:
        mine = [node.id for node in self.layout.plan.nodes() if self._home[node.id] == index]
        return Host(
            index,
            [
                make_worker(
                    node_id,
                    self.world.program,
                    self._lanes,
                    skips=self.world.skips,
                    clock=self._clock,
                    bounds=self.world.bounds,
                )
                for node_id in mine
            ],
            self._lanes,
            self._home,
            hosts=hosts,
            sources=self.sources.of_host(index),
            buffer_bytes=self._buffer_bytes or 0,
            generation=self.point.generation,
            story=Story(index, self._lanes, generation=self.point.generation, log=self.world.result.log),
            bounds=self.world.bounds,
        )

    def _restore(self) -> None:
        """Start every worker at the point, with the outputs that sinks have not accepted before."""
        starts = {
            lane.id: self.point.positions.start(lane.stream, lane.tags, self.layout.split(lane.stream))
            for lane in self._lanes.all
        }
        for host in self._hosts:
            for worker in host.workers.values():
                worker.resume(starts)
        program, root = self.world.program, self._hosts[self._root_host].workers[self._root]
        state = program.init() if self.point.state is None else codec.decode(self.point.state)
        root.start(state, self.point.epoch)
        self._hosts[self._root_host].wake(self._root)
        self.outputs.restore(self._lanes, self._home)

    def steps(self) -> Iterator[Step]:
        """Yield all possible next steps."""
        yield from (("act", index) for index in self._stale if not self._is_staging(index))
        for edge in self.network.open_edges(self.world.now):
            if not self._is_staging(edge[1]):
                yield "deliver", edge
        for index in self.driver.waiting():
            yield "report", index
        for index in self.outputs.waiting():
            yield "accept", index
        if self.driver.can_finish:
            yield "finish", "commit"
        yield from self._reads()

    def _reads(self) -> Iterator[Step]:
        now, sources = self.world.now, self.sources
        if self._buffer_bytes is None:
            for where in sources.all:
                if sources.has_more(where, now) and not self._is_staging(where[0]):
                    yield "read", where
            return
        for host in self._hosts:
            if self._is_staging(host.index):
                continue
            source = host.next_source(partial(self._has_more, host.index))
            if source is not None:
                yield "read", (host.index, source)

    def _is_staging(self, host: int) -> bool:
        return self.slowness.is_busy(staging(host), self.world.now)

    def _has_more(self, host: int, stream: str) -> bool:
        return self.sources.has_more((host, stream), self.world.now)

    def next_event(self) -> int | None:
        """Return the next step at which an edge or a slow part is free again or a silent source speaks."""
        now = self.world.now
        times = (self.network.next_opening(now), self.sources.next_voice(now), self.slowness.next_end(now))
        return min((time for time in times if time is not None), default=None)

    def do(self, action: str, what: Any) -> None:
        """Take a step."""
        self.world.result.trace.append(f"{self.point.generation} {action} {what}")
        for host in self._hosts:
            host.story.tick(self.world.now)
        if action == "act":
            del self._stale[what]
            self._act(self._hosts[what])
        elif action == "deliver":
            self._deliver(what, self.network.take(what))
        elif action == "report":
            self.driver.take_report(what)
        elif action == "accept":
            self.outputs.accept(what)
        elif action == "finish":
            self.driver.finish()
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
            self.outputs.ended(index, stream, self.sources.end(where))
        host.ingest(stream, batches, frontier)
        self._stale[index] = None
        self._validate(host)

    def _act(self, host: Host) -> None:
        for worker, effect in host.pump():
            if isinstance(effect, OutputBatch):
                self.outputs.write(host.index, worker, effect)
            elif isinstance(effect, Skipped):
                self.outputs.leave_out(host.index, worker, effect)
            elif isinstance(effect, EpochClosed):
                report = self.outputs.close_epoch(host.index, worker, effect.epoch)
                if report is not None:
                    host.story.says(f"has staged epoch {effect.epoch}")
                    self.driver.send(host.index, replace(report, sources=self.sources.described(host.index)))
            else:
                self._snapshot(host.index, effect)
        for target, frame in host.frames():
            data, sizes = encoded_with_sizes(frame)
            self.load.note(target, frame, sizes)
            self.network.send((host.index, target), data)
        if host.is_behind:
            self._stale[host.index] = None
        self._validate(host)

    def _snapshot(self, host: int, snapshot: Snapshot) -> None:
        state = codec.encode(snapshot.state, keeps_order=True)
        positions = Positions.of(self._lanes.all, snapshot.positions, self.layout.splits, BLOCK)
        self.world.saw_snapshot(self.point.generation, state, positions.over(self.point.positions))
        self.driver.send(host, RootReport(snapshot.epoch, state, snapshot.positions, snapshot.is_final))

    def _deliver(self, edge: tuple[int, int], frame: bytes) -> None:
        self._hosts[edge[1]].receive(decoded(frame, edge[0]))
        self._stale[edge[1]] = None
        self._validate(self._hosts[edge[1]])

    def _validate(self, host: Host) -> None:
        """Let a host check itself after a step, if the run validates. Raises InternalError."""
        if self.world.validates:
            host.validate_state()

    @property
    def is_fenced(self) -> bool:
        """Whether this generation knows that a newer one has begun."""
        return self.driver.is_fenced or self.outputs.is_fenced

    @property
    def is_done(self) -> bool:
        """Whether the end is committed and the sinks have all outputs."""
        return self.driver.final is not None and self.outputs.is_done

    def request_snapshot(self) -> None:
        """Ask the root for a checkpoint."""
        self.asked += 1
        host = self._hosts[self._root_host]
        host.story.says("is asked for a snapshot")
        host.workers[self._root].snapshot()
        host.wake(self._root)
        self._stale[host.index] = None

    def free(self) -> None:
        """Let time pass: everything that waits may move."""
        self.network.free()
        self.sources.let_speak()
        self.slowness.end()

    def busy_edges(self) -> list[Edge]:
        """Return the edges with frames on their way."""
        return self.network.busy_edges()

    def lose(self, edge: Edge) -> None:
        """Lose the next frame of an edge."""
        self.world.tells("loses the next frame of host {} to host {}".format(*edge))
        self.network.take(edge)
        self.has_lost_frames = True

    def repeat(self, edge: Edge) -> None:
        """Deliver the next frame of an edge, and deliver it again later: at once, or after the others."""
        self.world.tells("repeats the next frame of host {} to host {}".format(*edge))
        if self.world.random.random() < 0.5:  # noqa: PLR2004 - as often as not
            self.network.repeat_late(edge)
        else:
            self._deliver(edge, self.network.peek(edge))

    def stray(self, edge: Edge, frame: bytes) -> None:
        """Deliver a frame of an older generation (R1)."""
        if max(edge) < len(self._hosts):
            self._deliver(edge, frame)
