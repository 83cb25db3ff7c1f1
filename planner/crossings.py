"""What goes between host processes, in events per second: the cost of spreading the workers of a plan in one way or another.

A stream is read by the host that owns most of it, and the rest of it goes to the others. And a synchronisation crosses every
edge between two hosts in the subtree of its worker.

>>> from dgs.impl_tags import ImplTagSet
>>> from planner.plan import PlanNode
>>> leaves = tuple(PlanNode(name, ImplTagSet()) for name in ("left", "right"))
>>> plan = Plan(PlanNode("root", ImplTagSet(), children=leaves))
>>> rates = {"root": {"updates": 0.01}, "left": {"views": 60.0}, "right": {"views": 40.0}}
>>> crossing(plan, {"root": 0, "left": 0, "right": 1}, rates), crossing(plan, dict.fromkeys(rates, 0), rates)
(60.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.plan import Plan

SYNCHRONISATION = 2000.0
"""So many events of a batch cost as much to send as the messages of a synchronisation: 0.1 ms."""


def crossing(plan: Plan, home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    """Return the events per second that cross hosts, synchronisations included. `rates`: by node id and stream."""
    return _events(home, rates) + SYNCHRONISATION * _synchronisations(plan, home, rates)


def _events(home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    owned: dict[str, dict[int, float]] = {}
    for node, streams in rates.items():
        for stream, rate in streams.items():
            by_host = owned.setdefault(stream, {})
            by_host[home[node]] = by_host.get(home[node], 0.0) + rate
    return sum(sum(by_host.values()) - max(by_host.values()) for by_host in owned.values())


def _synchronisations(plan: Plan, home: Mapping[str, int], rates: Mapping[str, Mapping[str, float]]) -> float:
    """Return how often an edge between two hosts is crossed: all the events of workers above count."""
    total, above = 0.0, dict.fromkeys(home, 0.0)
    for node in plan.nodes():
        events = above[node.id] + sum(rates.get(node.id, {}).values())
        for child in node.children:
            above[child.id] = events
            if home[child.id] != home[node.id]:
                total += events
    return total
