"""A run in virtual time: the hosts of a plan take turns, and each is busy for as long as its costs say.

A host does one step after another, as in a real run: it takes frames, reads from a source and lets its workers do all they can.
Frames take the time of a hop. Sources have all events at the beginning, or bring each at its time. In the second case a host always knows
how far its streams have come, so nothing waits for a silent stream longer than a frame takes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.program import Program
from dgs.planner.plan import Plan, PlanNode, is_accumulating
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import AT_ONCE
from dgs.planner.prediction.traffic import SHARE_OF_FRONTIER
from dgs.planner.topology import by_kind
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import (
    ForkedState,
    Frame,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Message,
    Snapshot,
)
from dgs.workers.protocol.worker import Worker
from dgs.workers.transport.frames import encoded
from dgs.workers.virtual.drawn import NANOSECONDS
from dgs.workers.virtual.stand_in import Meter, StandIn

BUFFER_BYTES = 2**28
"""The bytes that a host may hold, as by default in a run."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A plan on hosts. `home`: the host of each worker; `cores`: shared by all hosts; `counted`: kinds by worker (see `StandIn`)."""

    plan: Plan
    program: Program
    costs: Costs
    home: Mapping[str, int]
    cores: int
    counted: Mapping[str, Sequence[str]]


class _Observed:
    """A worker that also spends the costs of synchronising, when its children answer."""

    def __init__(self, worker: Worker, node: PlanNode, stand_in: StandIn, meter: Meter, above: int) -> None:
        self._worker, self._stand_in, self._meter = worker, stand_in, meter
        kinds, costs = stand_in.accumulating, meter.costs
        keeps = all(is_accumulating(child, kinds) for child in node.children)
        pieces = costs.piece / max(1, len(node.children))
        self._each = costs.merge if keeps else costs.synchronisation + pieces
        self._answer = costs.synchronisation if keeps else 0.0
        self._is_cut = not is_accumulating(node, kinds)
        self._request = SHARE_OF_FRONTIER * costs.piece if self._is_cut and above > 1 else 0.0
        if not self._is_cut:
            lanes = [kind for _, tags in node.tags.streams for _, kind in by_kind(tags)]
            is_compiled = any(costs.compiled(str(kind)) is not None for kind in lanes)
            at_once = is_compiled or any(one.update_windows for one in stand_in.states())
            self._request = len(lanes) * (AT_ONCE * costs.merge if at_once else costs.window)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def offer(self, message: Message) -> None:
        """Take a message."""
        if isinstance(message, JoinAnswer):
            self._meter.spend(len(message.states) * self._each + self._answer)
        elif isinstance(message, JoinRequest):
            self._meter.spend(len(message) * self._request)
            if self._is_cut:
                self._stand_in.hand_over()
        self._worker.offer(message)


@dataclass(slots=True)
class _Running:
    """One host that is running. `batches`: the events of each of its streams, of which `read` rows have been read."""

    host: Host
    meter: Meter
    batches: Mapping[str, EventBatch]
    read: dict[str, int]
    inbox: deque[tuple[float, Frame, int]] = field(default_factory=deque)
    wakes: float = 0.0


class VirtualRun:
    """Runs a plan over events. `batch_rows`: the events of one reading; `is_paced`: each comes at its ts, in nanoseconds."""

    def __init__(
        self, setting: Setting, batches: Mapping[str, EventBatch], *, batch_rows: int, is_paced: bool
    ) -> None:
        self._setting, self._rows, self._is_paced = setting, batch_rows, is_paced
        self._lanes = Lanes(setting.plan, setting.program.dependence)
        self._times = np.sort(np.concatenate([batch.ts for batch in batches.values()]))
        count = max(setting.home.values()) + 1
        readers = {name: self._reader(name) for name in batches}
        self._hosts = [
            self._make(index, count, {n: b for n, b in batches.items() if readers[n] == index})
            for index in range(count)
        ]
        self._cores = [0.0] * setting.cores
        self._agenda = [(0.0, index) for index in range(count)]
        self.bytes_between = 0

    def _reader(self, stream: str) -> int:
        """Return the host that owns most workers of a stream: it reads it."""
        owners = [self._setting.home[n.id] for n in self._setting.plan.nodes() if n.tags.stream(stream)]
        return max(owners, key=owners.count)

    def _make(self, index: int, hosts: int, batches: Mapping[str, EventBatch]) -> _Running:
        setting, meter = self._setting, Meter(self._setting.costs)
        workers = [
            self._worker(node, meter) for node in setting.plan.nodes() if setting.home[node.id] == index
        ]
        sources = {name: (name,) for name in batches}
        host = Host(
            index, workers, self._lanes, setting.home, hosts=hosts, sources=sources, buffer_bytes=BUFFER_BYTES
        )
        root = self._setting.plan.root.id
        if root in host.workers:
            host.workers[root].start(bytes(int(setting.costs.state_bytes)))
            host.wake(root)
        return _Running(host, meter, batches, dict.fromkeys(batches, 0))

    def _worker(self, node: PlanNode, meter: Meter) -> Worker:
        program, plan = self._setting.program, self._setting.plan
        is_asked = plan.parent(node.id) is not None
        stand_in = StandIn(
            program,
            meter,
            counted=self._setting.counted[node.id] if self._is_paced else (),
            is_accumulating=is_asked and is_accumulating(node, program.accumulating),
            is_leaf=not node.children,
        )
        worker = make_worker(node.id, stand_in, self._lanes, clock=meter.clock)
        return cast("Worker", _Observed(worker, node, stand_in, meter, len(self._lanes.above(node.id))))

    def run(self) -> None:
        """Run to the end. Raises InternalError if the hosts stop before it."""
        while self._agenda:
            at, index = heapq.heappop(self._agenda)
            one = self._hosts[index]
            if at != one.wakes:
                continue
            at = max(at, heapq.heappop(self._cores))
            is_over = self._step(one, at)
            heapq.heappush(self._cores, one.meter.now)
            if is_over:
                return
        raise InternalError(problem="a run in virtual time has stopped before its end")

    @property
    def seconds(self) -> float:
        """The virtual time of the last event."""
        return max(one.meter.latest for one in self._hosts)

    @property
    def done(self) -> list[tuple[int, float]]:
        """The ts of each counted event, and the seconds when it was done."""
        return [pair for one in self._hosts for pair in one.meter.done]

    def _step(self, one: _Running, at: float) -> bool:
        """Let a host do one step. Return whether the run is over."""
        host, one.meter.now = one.host, at
        is_busy = is_behind = host.is_behind
        while one.inbox and one.inbox[0][0] <= at:
            _, frame, size = one.inbox.popleft()
            one.meter.spend(self._share(frame, size))
            host.receive(frame)
            is_busy = True
        is_busy |= not is_behind and self._read(one, at)
        for _, effect in host.pump(until_awaited=True):
            if isinstance(effect, Snapshot) and effect.is_final:
                return True
        frames = [(target, frame, len(encoded(frame))) for target, frame in host.frames()]
        one.meter.spend(sum(self._share(frame, size) for _, frame, size in frames))
        for target, frame, size in frames:
            self.bytes_between += size
            arrives = one.meter.now + self._setting.costs.hop
            self._hosts[target].inbox.append((arrives, frame, size))
            self._wake(target, arrives)
        self._sleep(one, at, is_busy=is_busy or bool(frames) or host.is_behind)
        return False

    def _share(self, frame: Frame, size: int) -> float:
        """Return the seconds that a frame takes at each end. Frames with frontiers alone are free, since there are more here than in a real run."""
        if all(isinstance(message, Frontiers) for _, message in frame.messages):
            return 0.0
        costs = self._setting.costs
        states = sum(isinstance(message, (ForkedState, JoinAnswer)) for _, message in frame.messages)
        return (costs.message + size * costs.byte + states * costs.encoding) / 2

    def _read(self, one: _Running, at: float) -> bool:
        """Read from one source, or if events are paced from all that have new events. Return whether anything was read."""
        host, until = one.host, OrderKey(round(at * NANOSECONDS), 0, 0)
        if not self._is_paced:
            name = host.next_source()
            if name is not None:
                self._ingest(one, name, min(len(one.batches[name]), one.read[name] + self._rows), None)
            return name is not None
        found = False
        for name, batch in one.batches.items():
            if host.frontiers[name] < min(until, END):
                stop = batch.position_of(until)
                found |= stop > one.read[name]
                self._ingest(one, name, stop, until)
        return found

    def _ingest(self, one: _Running, name: str, stop: int, frontier: OrderKey | None) -> None:
        batch, start = one.batches[name], one.read[name]
        one.read[name] = stop
        if stop == len(batch):
            frontier = END
        one.meter.spend((stop - start) * self._setting.costs.read)
        parts = [batch.cut(start, stop)] if stop > start else []
        one.host.ingest(name, parts, frontier or batch.key(stop))

    def _sleep(self, one: _Running, at: float, *, is_busy: bool) -> None:
        """Schedule the next step of a host: at once, with the next frame, or with the next event of any stream."""
        now = one.meter.now
        times = [now] if is_busy else []
        times += [max(now, one.inbox[0][0])] if one.inbox else []
        if self._is_paced:
            place = int(np.searchsorted(self._times, round(at * NANOSECONDS), side="right"))
            if place < len(self._times):
                times.append(max(now, (int(self._times[place]) + 1) / NANOSECONDS))
        one.wakes = -1.0
        if times:
            one.wakes = min(times)
            heapq.heappush(self._agenda, (one.wakes, one.host.index))

    def _wake(self, index: int, at: float) -> None:
        """Wake a host at a time, unless it wakes earlier."""
        one = self._hosts[index]
        at = max(at, one.meter.now)
        if one.wakes < 0 or at < one.wakes:
            one.wakes = at
            heapq.heappush(self._agenda, (at, index))
