"""The seeded scheduler: the same hosts and workers under random delivery orders, reproducible from a seed.

One random number generator decides how workers are spread over hosts, how streams are cut into batches and heartbeats, and
which of all possible steps happens next: a host reads, acts on what has arrived, or receives the next frame of an edge.
Nothing depends on clocks, hash seeds or the process: a seed and a trace say everything.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgs import codec
from dgs.errors import StalledError
from dgs.events import EventBatch
from dgs.order import END, OrderKey, after_event, after_heartbeat
from dgs.outputs import OutputBatch
from dgs.program import Program
from planner.plan import Plan
from workers.build import make_worker
from workers.effects import Snapshot
from workers.host import Host
from workers.lanes import Lane, Lanes

MOST_HOSTS = 4
SNAPSHOT_CHANCE = 0.02


@dataclass
class Simulated:
    """What a simulated run gave: all outputs, the final state, every snapshot on the way, and a digest of the trace."""

    outputs: list[OutputBatch] = field(default_factory=list)
    snapshots: list[tuple[bytes, dict[int, OrderKey]]] = field(default_factory=list)
    state: Any = None
    positions: dict[int, OrderKey] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()
    steps: int = 0
    is_complete: bool = False
    trace: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """A hash of every step taken: equal for equal seeds, in any process."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def values(self) -> list[Any]:
        """Return the outputs as Python objects, in the order in which they came out."""
        return [value for batch in self.outputs for value in batch.to_list()]


class Simulation:
    """One run of a program under a plan. `streams`: the events of each stream in rank order.

    `buffer_bytes`: when given, hosts read by the rules of R11 with that bound; else any stream may be read at any time.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        streams: Mapping[str, Sequence[EventBatch]],
        *,
        seed: int,
        buffer_bytes: int | None = None,
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self._lanes = Lanes(plan, program.dependence)
        self._obeys_bounds = buffer_bytes is not None
        hosts = self._random.randint(1, MOST_HOSTS)
        home = {node.id: self._random.randrange(hosts) for node in plan.nodes()}
        reader = {stream: self._random.randrange(hosts) for stream in streams}
        self._readings = {stream: deque(self._cut(batches)) for stream, batches in streams.items()}
        self._hosts = [
            Host(
                index,
                [
                    make_worker(node.id, program, self._lanes)
                    for node in plan.nodes()
                    if home[node.id] == index
                ],
                self._lanes,
                home,
                hosts=hosts,
                sources={stream: (stream,) for stream in streams if reader[stream] == index},
                buffer_bytes=buffer_bytes or 0,
            )
            for index in range(hosts)
        ]
        self._edges: dict[tuple[int, int], deque[bytes]] = {}
        self._reader = reader
        self._stale = dict.fromkeys(range(hosts))
        self._root = plan.root.id
        self._root_host = self._hosts[home[plan.root.id]]
        self._root_host.workers[self._root].start(program.init())
        self._root_host.wake(self._root)
        self.result = Simulated(lanes=self._lanes.all)

    def _cut(self, batches: Sequence[EventBatch]) -> Iterator[tuple[list[EventBatch], OrderKey]]:
        """Yield the events of a stream in readings of random size, with random heartbeats in between, and its end."""
        for whole in batches:
            start = 0
            while start < len(whole):
                stop = min(len(whole), start + self._random.choice([1, 1, 2, 5, 1000]))
                yield [whole.cut(start, stop)], after_event(whole.key(stop - 1))
                start = stop
                later = int(whole.ts[stop]) if stop < len(whole) else None
                if later is not None and later > int(whole.ts[stop - 1]) and self._random.random() < 0.3:  # noqa: PLR2004
                    yield (
                        [],
                        after_heartbeat(self._random.randint(int(whole.ts[stop - 1]), later - 1), whole.rank),
                    )
        yield [], END

    def run(self, most_steps: int = 10**6) -> Simulated:
        """Run to the end. Raises StalledError if nothing can move, or not enough moves, before the program is done."""
        while not self.result.is_complete:
            choices = list(self._choices())
            if not choices or self.result.steps >= most_steps:
                raise StalledError(
                    reason=f"after {self.result.steps} steps {len(choices)} steps are possible"
                )
            self._do(*self._random.choice(choices))
            self.result.steps += 1
            if self._random.random() < SNAPSHOT_CHANCE:
                self._root_host.workers[self._root].snapshot()
                self._root_host.wake(self._root)
                self._stale[self._root_host.index] = None
        return self.result

    def _choices(self) -> Iterator[tuple[str, Any]]:
        for index in self._stale:
            yield "act", index
        for edge, frames in self._edges.items():
            if frames:
                yield "deliver", edge
        if self._obeys_bounds:
            for host in self._hosts:
                if (source := host.next_source()) is not None:
                    yield "read", source
            return
        for stream, readings in self._readings.items():
            if readings:
                yield "read", stream

    def _do(self, action: str, what: Any) -> None:
        self.result.trace.append(f"{action} {what}")
        if action == "act":
            del self._stale[what]
            self._act(self._hosts[what])
        elif action == "deliver":
            self._hosts[what[1]].receive(codec.decode(self._edges[what].popleft()))
            self._stale[what[1]] = None
        else:
            batches, frontier = self._readings[what].popleft()
            self._hosts[self._reader[what]].ingest(what, batches, frontier)
            self._stale[self._reader[what]] = None

    def _act(self, host: Host) -> None:
        for _, effect in host.pump():
            if isinstance(effect, OutputBatch):
                self.result.outputs.append(effect)
                self.result.trace.append(f"output {effect.stream} {effect.ts.tolist()} {effect.seq.tolist()}")
            elif isinstance(effect, Snapshot):
                self._keep(effect)
        for target, frame in host.frames():
            self._edges.setdefault((host.index, target), deque()).append(codec.encode(frame))

    def _keep(self, snapshot: Snapshot) -> None:
        if snapshot.is_final:
            self.result.state, self.result.positions = snapshot.state, snapshot.positions
            self.result.is_complete = True
        else:
            self.result.snapshots.append((codec.encode(snapshot.state), dict(snapshot.positions)))


def simulate(
    program: Program,
    plan: Plan,
    streams: Mapping[str, Sequence[EventBatch]],
    *,
    seed: int,
    buffer_bytes: int | None = None,
) -> Simulated:
    """Run a program under a plan with the delivery order of `seed`."""
    return Simulation(program, plan, streams, seed=seed, buffer_bytes=buffer_bytes).run()
