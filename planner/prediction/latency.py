"""The model of latency: from an event's arrival to its outputs, while a job runs at a part of its greatest throughput.

An event that needs the states of other workers waits for messages in transit and for the work of every level below its worker; any other
event waits for its own `update`, and for a message in transit if another host reads its stream or a stream that it depends on. The workers
do that work in turn with other work, which arrives at random: so an event waits as in a queue with random arrivals and equal work (M/D/1),
whose tail is exponential. Messages in transit do not queue. The model leaves out the time of sources and sinks, and the time that an event
waits for a silent stream.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.program import Program
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> from dgs.planner.topology import kind_rates
>>> from dgs.planner.prediction.traffic import traffic
>>> from dgs.planner.topology import Stream
>>> VALUE = kind("value")
>>> class Sums(Program):
...     depends = Dependence((VALUE, VALUE, ALWAYS))
>>> one = Plan(PlanNode("w0", ImplTagSet.of(v=TagSet.of(VALUE))))
>>> of = traffic(one, Sums(), kind_rates(one, [Stream("v", TagSet.of(VALUE), {VALUE(): 9.0})]))
>>> found = latency(one, of, Costs(kinds={"value": 0.003}), {"w0": 0})
>>> round(found.p50, 4), round(found.p99, 3)
(0.0051, 0.022)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.traffic import Traffic

UTILISATION = 0.7
"""The part of the greatest throughput at which the job runs."""

WAITING, DECAY = 0.8, 0.675
"""At that utilisation a task of t seconds waits for over x with the probability WAITING * exp(-DECAY * x / t).

DECAY solves u * (exp(d) - 1) = d, and WAITING is (1 - u) / (u * exp(d) - 1).
"""


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds within which half of the events, and 99 of 100, have their outputs. `utilisation`: see the module."""

    p50: float
    p99: float
    utilisation: float = UTILISATION


@dataclass(frozen=True, slots=True)
class _Way:
    """The path of some events to their outputs: seconds of work, seconds in transit, events per second."""

    work: float
    transit: float
    rate: float


def latency(plan: Plan, of: Mapping[str, Traffic], costs: Costs, home: Mapping[str, int]) -> Latency:
    """Return the latency of events that need other workers, or of all if none does. `of`: the traffic, `home`: the host of each worker."""
    below, readers = _below(plan, of, costs, home), _readers(of, home)
    ways, alone = list[_Way](), list[_Way]()
    for node in plan.nodes():
        is_led = any(
            home[above.id] != home[node.id] and of[above.id].rate for above in plan.ancestors(node.id)
        )
        for lane in of[node.id].lanes:
            cutting = costs.stretch * lane.stretches / lane.rate if lane.rate else 0.0
            own = costs.event(str(lane.kind)) + min(cutting, costs.merge) + costs.read
            work, transit = below[node.id] if lane.synchronises else (0.0, 0.0)
            if is_led or readers.get(lane.stream) != home[node.id]:
                transit += costs.hop
            (ways if lane.synchronises else alone).append(_Way(own + work, transit, lane.rate))
    found = [way for way in ways if way.rate] or [way for way in alone if way.rate]
    if not found:
        return Latency(0.0, 0.0)
    return Latency(_quantile(found, 0.5), _quantile(found, 0.99))


def _readers(of: Mapping[str, Traffic], home: Mapping[str, int]) -> dict[str, int]:
    """Return the host that reads each stream: the one that owns most of it."""
    owned: dict[str, dict[int, float]] = {}
    for worker, mine in of.items():
        for lane in mine.lanes:
            rates = owned.setdefault(lane.stream, {})
            rates[home[worker]] = rates.get(home[worker], 0.0) + lane.rate
    return {stream: max(rates, key=lambda host: rates[host]) for stream, rates in owned.items()}


def _below(
    plan: Plan, of: Mapping[str, Traffic], costs: Costs, home: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """Return for each worker the seconds of work, and of messages in transit, until it has the states of its children."""
    found: dict[str, tuple[float, float]] = {}
    for node in reversed(list(plan.nodes())):
        if not node.children:
            found[node.id] = 0.0, 0.0
            continue
        keeps = _all_accumulate(node, of)
        each = costs.window if keeps else costs.synchronisation
        own = (each + costs.join) * len(node.children) + (0.0 if keeps else costs.piece)
        ways = []
        for child in node.children:
            work, transit = found[child.id]
            if home[child.id] != home[node.id]:
                work += 2 * costs.message + costs.state
                transit += 2 * costs.hop
            ways.append((work, transit))
        work, transit = max(ways, key=sum)
        found[node.id] = own + work, transit
    return found


def _all_accumulate(node: PlanNode, of: Mapping[str, Traffic]) -> bool:
    return all(of[child.id].accumulates for child in node.children)


def _quantile(ways: Sequence[_Way], share: float) -> float:
    """Return the seconds within which a share of the events has arrived: by bisection, since paths differ."""
    total = sum(way.rate for way in ways)
    longest = 1 + math.log(1 / (1 - share)) / DECAY
    low, high = 0.0, max(way.transit + way.work * longest for way in ways)
    for _ in range(50):
        middle = (low + high) / 2
        arrived = sum(way.rate * _arrived(way, middle) for way in ways)
        low, high = (middle, high) if arrived < share * total else (low, middle)
    return high


def _arrived(way: _Way, seconds: float) -> float:
    """Return the share of the events of one path that have arrived after some seconds."""
    waited = seconds - way.transit - way.work
    if waited < 0:
        return 0.0
    return 1 - WAITING * math.exp(-waited * DECAY / way.work) if way.work else 1.0
