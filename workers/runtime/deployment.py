"""The deployment of workers and sources on host processes. Every host computes the same deployment from the same job."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dgs.job.schema import StreamConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.planner.placement import assign_hosts, readers
from dgs.planner.plan import Plan
from dgs.workers.observing.figures import NO_METER, Meter
from dgs.workers.protocol.edges import TickReader
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes, Router
from dgs.workers.recovery.checkpoint import BEGINNING, ResumePoint
from dgs.workers.recovery.outbox import dealt_otherwise, dealt_outputs, owners
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime.job import Job
from dgs.workers.sources.ticks import period


@dataclass(frozen=True)
class Deployment:
    """A job spread over `hosts` host processes, numbered from 0. `point`: the start of its generation."""

    job: Job
    hosts: int
    point: ResumePoint = BEGINNING

    @property
    def plan(self) -> Plan:
        """The plan that is deployed."""
        return self.job.plan

    @cached_property
    def home(self) -> Mapping[str, int]:
        """The host of every worker."""
        rates = {node.id: self._rates(node.tags) for node in self.plan.nodes()}
        return assign_hosts(self.plan, self.hosts, rates)

    def _rates(self, tags: ImplTagSet) -> dict[str, float]:
        """Return the known events per second of a set of implementation tags, by stream."""
        rates = {stream: self._rate(ImplTagSet.of({stream: some})) for stream, some in tags}
        return {stream: rate for stream, rate in rates.items() if rate}

    def _rate(self, tags: ImplTagSet) -> float:
        """Return the known events per second of a set of implementation tags."""
        known = self.job.rates
        return sum(
            rate for stream, some in tags for tag, rate in known.get(stream, {}).items() if tag in some
        )

    def _expected(self, tags: ImplTagSet) -> float:
        """Return about how many events of a set of implementation tags will come, infinite if that is not known."""
        is_known = self._total_rate and not self.point.epoch
        return self.job.events * self._rate(tags) / self._total_rate if is_known else math.inf

    @cached_property
    def _total_rate(self) -> float:
        """The known events per second of all streams."""
        return sum(rate for rates in self.job.rates.values() for rate in rates.values())

    @cached_property
    def lanes(self) -> Lanes:
        """The lanes of the plan."""
        return Lanes(self.plan, self.job.program.dependence)

    @property
    def root_host(self) -> int:
        """The host of the root worker."""
        return self.home[self.plan.root.id]

    @cached_property
    def readers(self) -> Mapping[str, int]:
        """The host that reads each implementation stream, see `dgs.planner.placement.readers`."""
        owned: dict[str, dict[int, float]] = {}
        for stream in (s for config in self.job.streams for s in config.impl_streams):
            share = owned.setdefault(stream, {})
            for node in self.plan.nodes():
                if mine := node.tags.stream(stream):
                    host = self.home[node.id]
                    share[host] = share.get(host, 0.0) + max(self._rate(ImplTagSet.of({stream: mine})), 1e-9)
            share.setdefault(self.root_host, 0.0)
        found = readers(owned)
        for config in (c for c in self.job.streams if c.source.kind == "ticks"):
            found[config.id] = self._busiest({s: host for s, host in found.items() if s != config.id})
        return found

    def _busiest(self, readers: Mapping[str, int]) -> int:
        """Return the host that reads the most events."""
        read: dict[int, float] = {}
        for stream, host in readers.items():
            read[host] = read.get(host, 0.0) + sum(self.job.rates.get(stream, {}).values())
        return max(read, key=lambda host: (read[host], -host), default=self.root_host)

    @property
    def _ticks(self) -> TickReader | None:
        """The host that reads the ticks, None without ticks."""
        config = next((c for c in self.job.streams if c.source.kind == "ticks"), None)
        return None if config is None else TickReader(self.readers[config.id], period(config, self.job.unit))

    def local_streams(self, host: int) -> list[tuple[StreamConfig, tuple[str, ...]]]:
        """Return the streams that a host reads, with the implementation streams it keeps of each."""
        mine = [(c, tuple(s for s in c.impl_streams if self.readers[s] == host)) for c in self.job.streams]
        return [(config, streams) for config, streams in mine if streams]

    def fed_hosts(self, host: int, streams: Iterable[str]) -> tuple[int, ...]:
        """Return the other hosts whose workers own tags of implementation streams that `host` reads."""
        names = tuple(streams)
        owners = (node.id for node in self.plan.nodes() if any(node.tags.stream(name) for name in names))
        return tuple(sorted({self.home[owner] for owner in owners} - {host}))

    @property
    def credit_bytes(self) -> int:
        """The bytes that may be on their way from one host to another. All credits together are a quarter of what a host may buffer."""
        return self.job.runtime.buffer_bytes // (4 * self.hosts)

    def rank(self, stream: str) -> int:
        """Return the rank of a declared stream: its position in the plan file."""
        return next(i for i, config in enumerate(self.job.streams) if config.id == stream)

    @cached_property
    def starts(self) -> Mapping[int, OrderKey]:
        """The position of every lane at the point. No event below it will come."""
        splits = self.job.splits
        return {
            lane.id: self.point.positions.start(lane.stream, lane.tags, splits[declared(lane.stream)[0]])
            for lane in self.lanes.all
        }

    def outbox(self, index: int) -> Iterator[OutputBatch]:
        """Yield the outputs from the checkpoint's outbox whose tags are owned by a worker of one host (R7)."""
        impl = {config.id: config.impl_streams for config in self.job.streams}
        router = Router(self.lanes)
        for batch in self.point.outbox:
            if dealt_otherwise(batch, self.point.committed, self.job.splits) is not None:
                continue  # delivered before the generation began
            for part in dealt_outputs(batch, impl.__getitem__):
                for lane, some in owners(part, router):
                    if self.home[self.lanes.all[lane].owner] == index:
                        yield some

    def make_host(self, index: int) -> Host:
        """Return the state machine of one host with its workers, positioned at the point."""
        mine = (node.id for node in self.plan.nodes() if self.home[node.id] == index)
        skips, compiles = self.job.on_error == "skip", self.job.runtime.compile
        meter = NO_METER if self.job.observe is None else Meter(time.monotonic)
        host = Host(
            index,
            [
                make_worker(
                    node_id,
                    self.job.program,
                    self.lanes,
                    skips=skips,
                    compiles=compiles,
                    expected=self._expected(self.plan.node(node_id).tags),
                    clock=time.monotonic,
                    meter=meter,
                )
                for node_id in mine
            ],
            self.lanes,
            self.home,
            hosts=self.hosts,
            sources={config.id: streams for config, streams in self.local_streams(index)},
            buffer_bytes=self.job.runtime.buffer_bytes,
            generation=self.point.generation,
            ticks=self._ticks,
            meter=meter,
        )
        if self.point.epoch:
            for worker in host.workers.values():
                worker.resume(self.starts)
        return host
