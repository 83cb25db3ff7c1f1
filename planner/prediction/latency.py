"""The model of latency: from an event's arrival to its outputs, while a job runs at a part of its greatest throughput.

An event that needs the states of other workers waits for messages in transit and for the work of every level below its worker; any
other event waits for its own `update`. The workers do that work in turn with other work, so at the utilisation u it takes 1 / (1 - u)
times as long on average, and as with random arrivals the times are distributed exponentially. Messages in transit do not queue.
What sources and sinks take is not in it, nor the time for which a stream is silent: an event waits until streams that it depends on
have come as far.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.program import Program
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> from dgs.planner.prediction.traffic import traffic
>>> from dgs.planner.topology import Stream
>>> VALUE = kind("value")
>>> class Sums(Program):
...     depends = Dependence((VALUE, VALUE, ALWAYS))
>>> one = Plan(PlanNode("w0", ImplTagSet.of(v=TagSet.of(VALUE))))
>>> of = traffic(one, Sums(), [Stream("v", TagSet.of(VALUE), {VALUE(): 9.0})])
>>> found = latency(one, of, Costs(kinds={"value": 0.003}), {"w0": 0})
>>> round(found.p50, 4), round(found.p99, 3)
(0.0069, 0.046)
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


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds within which half of the events, and 99 of 100, have their outputs. `utilisation`: see the module."""

    p50: float
    p99: float
    utilisation: float = UTILISATION


@dataclass(frozen=True, slots=True)
class _Way:
    """The way of some events to their outputs: seconds of work, seconds in transit, events per second."""

    work: float
    transit: float
    rate: float


def latency(plan: Plan, of: Mapping[str, Traffic], costs: Costs, home: Mapping[str, int]) -> Latency:
    """Return the latency of events that need other workers, or of all if none does. `of`: the traffic, `home`: the host of each worker."""
    below = _below(plan, of, costs, home)
    ways, alone = [], []
    for node in plan.nodes():
        for lane in of[node.id].lanes:
            own = costs.event(str(lane.kind)) + costs.stretch + costs.read
            if lane.synchronises:
                work, transit = below[node.id]
                ways.append(_Way(own + work, transit, lane.rate))
            else:
                alone.append(_Way(own, 0.0, lane.rate))
    found = [way for way in ways if way.rate] or [way for way in alone if way.rate]
    if not found:
        return Latency(0.0, 0.0)
    return Latency(_quantile(found, 0.5), _quantile(found, 0.99))


def _below(
    plan: Plan, of: Mapping[str, Traffic], costs: Costs, home: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """Return for each worker the seconds of work, and of messages in transit, until it has the states of its children."""
    found: dict[str, tuple[float, float]] = {}
    for node in reversed(list(plan.nodes())):
        if not node.children:
            found[node.id] = 0.0, 0.0
            continue
        each = costs.window if _all_accumulate(node, of) else costs.synchronisation
        own = (each + costs.join) * len(node.children)
        ways = []
        for child in node.children:
            work, transit = found[child.id]
            if home[child.id] != home[node.id]:
                work += 2 * costs.message + costs.state_bytes * costs.byte
                transit += 2 * costs.hop
            ways.append((work, transit))
        work, transit = max(ways, key=sum)
        found[node.id] = own + work, transit
    return found


def _all_accumulate(node: PlanNode, of: Mapping[str, Traffic]) -> bool:
    return all(of[child.id].accumulates for child in node.children)


def _quantile(ways: Sequence[_Way], share: float) -> float:
    """Return the seconds within which a share of the events has come: by bisection, since ways differ."""
    total = sum(way.rate for way in ways)
    low, high = (
        0.0,
        max(way.transit + way.work * 2 * math.log(1 / (1 - share)) / (1 - UTILISATION) for way in ways),
    )
    for _ in range(50):
        middle = (low + high) / 2
        arrived = sum(way.rate * _arrived(way, middle) for way in ways)
        low, high = (middle, high) if arrived < share * total else (low, middle)
    return high


def _arrived(way: _Way, seconds: float) -> float:
    """Return the share of the events of one way that have come after some seconds."""
    left = seconds - way.transit
    return 0.0 if left <= 0 else 1 - math.exp(-left * (1 - UTILISATION) / way.work) if way.work else 1.0
