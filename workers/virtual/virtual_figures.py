"""Throughput, latency and bytes between hosts of a plan in virtual time, to compare the planner's model with.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> from dgs.planner.topology import Stream
>>> VALUE = kind("value")
>>> class Sums(Program):
...     depends = Dependence((VALUE, VALUE, ALWAYS))
...     def update(self, state, event, emit): return state
>>> one = Plan(PlanNode("w0", ImplTagSet.of(v=TagSet.of(VALUE))))
>>> topology = Topology([Stream("v", TagSet.of(VALUE), {VALUE(): 9.0})])
>>> found = in_virtual_time(one, Sums(), topology, Costs(kinds={"value": 1e-3}))
>>> round(found.throughput), found.bytes_between, 0.001 < found.latency.p50 < found.latency.p99
(1000, 0.0, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.planner.placement import assign_hosts
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.latency import UTILISATION, Latency
from dgs.planner.prediction.traffic import traffic
from dgs.planner.topology import Topology, kind_rates, of_nodes
from dgs.workers.virtual.drawn import NANOSECONDS, Drawn, drawn
from dgs.workers.virtual.virtual_run import Setting, VirtualRun

SYNCHRONISATIONS = 300
"""Events that synchronise in a run, as far as its events suffice."""

LEAST_EVENTS, MOST_EVENTS, MOST_IN_COLUMNS = 1_000, 30_000, 500_000
"""Bounds on the events of a run, without and with `update_batch`."""

PACED_EVENTS = 2_000
"""Events of the run for the latency, at most."""

SCALAR_ROWS, COLUMN_ROWS = 1024, 8192
"""Events of one reading, without and with `update_batch`: few, so that hosts begin to work together at once."""

WARMING = 0.2
"""The first part of the paced run, which is left out."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The figures of a run in virtual time: events per second (0 without events), the latency at `UTILISATION` of that rate, bytes per event."""

    throughput: float
    latency: Latency
    bytes_between: float


def in_virtual_time(
    plan: Plan,
    program: Program,
    topology: Topology,
    costs: Costs,
    *,
    home: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Simulated:
    """Run a plan over random events at the rates of the streams. `home`: the host of each worker (default: the choice of a run)."""
    rates = kind_rates(plan, topology.streams)
    home = home or assign_hosts(plan, topology.hosts, of_nodes(plan, rates))
    of = traffic(plan, program, rates)
    counted = {
        node: [str(lane.kind) for lane in one.lanes if lane.synchronises and lane.rate]
        for node, one in of.items()
    }
    if not any(counted.values()):
        counted = {node: [str(lane.kind) for lane in one.lanes] for node, one in of.items()}
    rate = sum(one.rate for one in of.values())
    if not rate:
        return Simulated(0.0, Latency(0.0, 0.0), 0.0)
    waits = sum(lane.rate for one in of.values() for lane in one.lanes if lane.synchronises)
    events = _enough(waits / rate, has_columns=program.is_vectorised)
    setting = Setting(plan, program, costs, home, topology.cpus, counted)
    rows = COLUMN_ROWS if program.is_vectorised else SCALAR_ROWS
    all_at_once = _batches(drawn(topology.streams, events=events, seed=seed))
    full = VirtualRun(setting, all_at_once, batch_rows=rows, is_paced=False)
    full.run()
    count = sum(map(len, all_at_once.values()))
    throughput = count / full.seconds if full.seconds else 0.0
    some = drawn(topology.streams, events=min(events, PACED_EVENTS), seed=seed)
    paced = VirtualRun(
        setting, _batches(some, pace=UTILISATION * throughput / rate), batch_rows=rows, is_paced=True
    )
    paced.run()
    return Simulated(throughput, _latency(paced.done), full.bytes_between / count)


def _batches(streams: Mapping[str, Drawn], *, pace: float = 1.0) -> dict[str, EventBatch]:
    return {name: one.batch(name, rank, pace=pace) for rank, (name, one) in enumerate(streams.items())}


def _enough(synchronised: float, *, has_columns: bool) -> int:
    """Return the number of events that have enough synchronisations among them."""
    most = MOST_IN_COLUMNS if has_columns else MOST_EVENTS
    return int(min(most, max(LEAST_EVENTS, SYNCHRONISATIONS / synchronised))) if synchronised else most


def _latency(done: Sequence[tuple[int, float]]) -> Latency:
    """Return the latency of events by ts and the time at which each was done, zero without events."""
    if not done:
        return Latency(0.0, 0.0)
    arrived, ready = np.array(done).T
    arrived /= NANOSECONDS
    is_warm = arrived >= WARMING * arrived.max()
    p50, p99 = np.percentile((ready - arrived)[is_warm], [50, 99]).tolist()
    return Latency(p50, p99)
