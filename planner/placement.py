"""Placement of workers on machines near their inputs, and on host processes of about equal load.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.topology import Machine, Stream
>>> VALUE = kind("value")
>>> streams = [Stream(f"v{i}", TagSet.of(VALUE), other_rate=10.0, location=f"node-{i}") for i in range(2)]
>>> leaves = [PlanNode(f"w{i + 1}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE)})) for i in range(2)]
>>> plan = Plan(PlanNode("w0", ImplTagSet(), children=tuple(leaves)))
>>> [node.node for node in placed(plan, Topology(streams, [Machine("node-0"), Machine("node-1")])).nodes()]
['node-0', 'node-0', 'node-1']
>>> assign_hosts(plan, 2, {"w1": {"v0": 5.0}, "w2": {"v1": 9.0}})
{'w0': 1, 'w1': 0, 'w2': 1}
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dgs.planner.plan import Plan, PlanNode, rebuilt
from dgs.planner.topology import Topology, node_rates, subtree_totals, totals

SPREAD = 1.1
"""The largest peak load of a placement that is considered, as a multiple of the least peak load found."""

LEAST_SHARE = 1e-6
"""The least share of a leaf, so that leaves that wait for events are not all with those that have them."""

NEARLY = 0.7
"""The least part of what the host with most of a stream owns, for another host to read the stream."""

SYNCHRONISATION = 2000.0
"""The number of events that take as long to send, in a batch, as the messages of one synchronisation: 0.1 ms."""


def placed(plan: Plan, topology: Topology) -> Plan:
    """Return the plan with a machine for every worker.

    A leaf goes to the machine where most of its events arrive, as long as that has CPUs left in proportion; a node with
    children goes with the heaviest of them. With a single machine the plan stays unchanged.
    """
    machines = topology.machines
    if len(machines) < 2:  # noqa: PLR2004 - nothing to choose
        return plan
    rates = node_rates(plan, topology.streams)
    location = {stream.id: stream.location for stream in topology.streams}
    leaves = sorted(plan.leaves, key=lambda leaf: -sum(rates[leaf.id].values()))
    room = {m.id: -(-len(leaves) * m.cpus // topology.cpus) for m in machines}
    chosen: dict[str, str] = {}
    for leaf in leaves:
        arriving = {machine.id: 0.0 for machine in machines}
        for stream, rate in rates[leaf.id].items():
            if location.get(stream) in arriving:
                arriving[str(location[stream])] += rate
        best = max(machines, key=lambda m: (room[m.id] > 0, arriving[m.id], room[m.id])).id
        room[best] -= 1
        chosen[leaf.id] = best
    _follow_heaviest(plan, subtree_totals(plan, totals(rates)), chosen)

    def visit(node: PlanNode, below: tuple[PlanNode, ...]) -> PlanNode:
        return replace(node, node=chosen[node.id], children=below)

    return replace(plan, root=rebuilt(plan.root, visit))


def assign_hosts(
    plan: Plan, hosts: int, rates: Mapping[str, Mapping[str, float]] | None = None
) -> dict[str, int]:
    """Return the host process (0 to hosts - 1) of every node: leaves balanced by `rates`, by node id and stream.

    Of several balanced placements it is the one with the least traffic between hosts: neighbours in the tree stay together, or leaves that
    share streams do. A node with children goes with the heaviest of them. Without rates, all leaves count the same. The first hosts are
    used: one worker is on host 0.
    """
    known = rates or {}
    own = {node: sum(streams.values()) for node, streams in known.items()}
    leaves = [leaf.id for leaf in plan.leaves]
    least_weight = LEAST_SHARE * sum(own.get(leaf, 0.0) for leaf in leaves) or 1.0
    weights = {leaf: max(own.get(leaf, 0.0), least_weight) for leaf in leaves}
    by_stream = sorted(leaves, key=lambda leaf: sorted(known.get(leaf, ())))
    ways = [_in_order(leaves, weights, hosts), _in_order(by_stream, weights, hosts)]
    ways.append(_heaviest_first(leaves, weights, hosts))
    least = min(_peak(way, weights) for way in ways)
    whole = subtree_totals(plan, {**own, **weights})
    balanced: list[dict[str, int]] = []
    for way in ways:
        _follow_heaviest(plan, whole, way)
        if way not in balanced and _peak({leaf: way[leaf] for leaf in leaves}, weights) <= SPREAD * least:
            balanced.append(way)
    chosen = balanced[0]
    if len(balanced) > 1:
        chosen = min(balanced, key=lambda way: crossing(plan, way, known))
    number = {host: i for i, host in enumerate(sorted(set(chosen.values())))}
    return {node.id: number[chosen[node.id]] for node in plan.nodes()}


def _follow_heaviest(plan: Plan, whole: Mapping[str, float], chosen: dict[str, str] | dict[str, int]) -> None:
    """Put every node with children on the place of its heaviest child."""
    for node in reversed(list(plan.nodes())):
        if node.children:
            heaviest = max(node.children, key=lambda child: whole[child.id])
            chosen[node.id] = chosen[heaviest.id]  # type: ignore[assignment]  # of the one kind that `chosen` has


def _in_order(leaves: Sequence[str], weights: Mapping[str, float], hosts: int) -> dict[str, int]:
    """Cut the leaves, in tree order, into runs of about equal weight."""
    total, before, chosen = sum(weights.values()), 0.0, {}
    for leaf in leaves:
        middle = before + weights[leaf] / 2
        chosen[leaf] = min(hosts - 1, int(middle * hosts / total))
        before += weights[leaf]
    return chosen


def _heaviest_first(leaves: Sequence[str], weights: Mapping[str, float], hosts: int) -> dict[str, int]:
    loads = [(0.0, 0, host) for host in range(hosts)]
    chosen = {}
    for leaf in sorted(leaves, key=lambda leaf: -weights[leaf]):
        load, count, host = heapq.heappop(loads)
        chosen[leaf] = host
        heapq.heappush(loads, (load + weights[leaf], count + 1, host))
    return chosen


def _peak(chosen: Mapping[str, int], weights: Mapping[str, float]) -> float:
    loads: dict[int, float] = {}
    for leaf, host in chosen.items():
        loads[host] = loads.get(host, 0.0) + weights[leaf]
    return max(loads.values())


def crossing(plan: Plan, home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    """Return the cost of a placement: events per second that cross hosts, synchronisations included. `rates`: by node id and stream.

    A stream is read by a host that owns most of it, which sends the rest to the others; and a synchronisation crosses every edge
    between two hosts in the subtree of its worker.

    >>> from dgs.model.impl_tags import ImplTagSet
    >>> leaves = tuple(PlanNode(name, ImplTagSet()) for name in ("left", "right"))
    >>> plan = Plan(PlanNode("root", ImplTagSet(), children=leaves))
    >>> rates = {"root": {"updates": 0.01}, "left": {"views": 60.0}, "right": {"views": 40.0}}
    >>> crossing(plan, {"root": 0, "left": 0, "right": 1}, rates), crossing(plan, dict.fromkeys(rates, 0), rates)
    (60.0, 0.0)
    """
    return events_between(home, rates) + SYNCHRONISATION * _synchronisations(plan, home, rates)


def events_between(home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    """Return the events per second that are read on another host than their owner's. `rates`: by node id and stream."""
    owned: dict[str, dict[int, float]] = {}
    for node, streams in rates.items():
        for stream, rate in streams.items():
            by_host = owned.setdefault(stream, {})
            by_host[home[node]] = by_host.get(home[node], 0.0) + rate
    reading = readers(owned)
    return sum(sum(by_host.values()) - by_host[reading[stream]] for stream, by_host in owned.items())


def readers(owned: Mapping[str, Mapping[int, float]]) -> dict[str, int]:
    """Return the host that reads each stream. `owned`: the events per second that each host owns of it.

    That is the host which owns most of it. Of hosts that own nearly as much, it is the one that reads the least so far, since reading a file
    costs more than sending a few more events.

    >>> readers({"a": {0: 50.0, 1: 51.0}, "b": {0: 40.0, 1: 41.0}, "c": {1: 30.0}})
    {'a': 1, 'b': 0, 'c': 1}
    """
    found: dict[str, int] = {}
    read: dict[int, float] = {}
    for stream, rates in sorted(owned.items(), key=lambda one: -sum(one[1].values())):
        most = max(rates.values())
        near = [host for host, rate in rates.items() if rate >= NEARLY * most]
        host = min(near, key=lambda host: (read.get(host, 0.0), -rates[host], host))
        found[stream] = host
        read[host] = read.get(host, 0.0) + sum(rates.values())
    return found


def _synchronisations(plan: Plan, home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    """Return the edge crossings between hosts per second: an edge is crossed by every event of the workers above it."""
    total, above = 0.0, dict.fromkeys(home, 0.0)
    for node in plan.nodes():
        events = above[node.id] + sum(rates.get(node.id, {}).values())
        for child in node.children:
            above[child.id] = events
            if home[child.id] != home[node.id]:
                total += events
    return total
