"""How much traffic each worker of a plan gets, and from which streams.

>>> from dgs.impl_tags import ImplTagSet
>>> from dgs.tags import kind
>>> from planner.plan import PlanNode
>>> VALUE, BARRIER = kind("value", key=("a", "b", "c")), kind("barrier")
>>> values = Stream("values", TagSet.of(VALUE), rates={VALUE("a"): 70.0}, other_rate=30.0)
>>> left = PlanNode("left", ImplTagSet.of(values=TagSet.of(VALUE("a"), VALUE("b"))))
>>> right = PlanNode("right", ImplTagSet.of(values=TagSet.of(VALUE("c"))))
>>> rates = node_rates(Plan(PlanNode("root", ImplTagSet(), children=(left, right))), [values])
>>> rates["left"], rates["right"], rates["root"]
({'values': 85.0}, {'values': 15.0}, {})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dgs.keyset import KeySet
from dgs.tags import Tag
from dgs.tagset import TagSet
from planner.plan import Plan
from planner.topology import Stream

NodeRates = dict[str, dict[str, float]]
"""Events per second by node id and stream; streams that bring nothing are left out."""


def node_rates(plan: Plan, streams: Iterable[Stream]) -> NodeRates:
    """Return what each node owns of the rate of each stream; `other_rate` is shared among the tags without known rate."""
    rates: NodeRates = {node.id: {} for node in plan.nodes()}
    for stream in streams:
        owners = [_Owner(node.id, node.tags.stream(stream.id)) for node in plan.nodes()]
        for node_id, rate in _shares(stream, [owner for owner in owners if owner.tags]):
            rates[node_id][stream.id] = rates[node_id].get(stream.id, 0.0) + rate
    return rates


def totals(rates: NodeRates) -> dict[str, float]:
    """Return the rate of each node over all streams."""
    return {node_id: sum(streams.values()) for node_id, streams in rates.items()}


def subtree_totals(plan: Plan, own: Mapping[str, float]) -> dict[str, float]:
    """Return for each node its own rate and that of all below it."""
    whole = {node.id: own.get(node.id, 0.0) for node in plan.nodes()}
    for node in reversed(list(plan.nodes())):
        whole[node.id] += sum(whole[child.id] for child in node.children)
    return whole


@dataclass(frozen=True, slots=True)
class _Owner:
    node_id: str
    tags: TagSet


def _shares(stream: Stream, owners: Sequence[_Owner]) -> Iterable[tuple[str, float]]:
    listed = {tag: owner.node_id for owner in owners for tag in owner.tags.tags()}
    for tag, rate in stream.rates.items():
        owner = listed.get(tag) or next((o.node_id for o in owners if tag in o.tags), None)
        if owner is not None and rate:
            yield owner, rate
    weights = {owner.node_id: _unlisted(owner.tags, stream) for owner in owners}
    total = sum(weights.values())
    if stream.other_rate and total:
        yield from (
            (node_id, stream.other_rate * weight / total) for node_id, weight in weights.items() if weight
        )


def _unlisted(tags: TagSet, stream: Stream) -> float:
    """Return how much of the stream's tags without known rate is in `tags`, in parts of a kind."""
    if tags.others:
        return 1.0
    return sum(_part(kind, keys, stream) for kind, keys in tags.kinds)


def _part(kind: str, keys: KeySet, stream: Stream) -> float:
    whole = stream.tags.keys(kind)
    if whole.is_finite:
        unlisted = sum(Tag(kind, key) not in stream.rates for key in whole.extra)
        return sum(Tag(kind, key) not in stream.rates for key in keys.extra) / unlisted if unlisted else 0.0
    return (len(keys.classes) / keys.modulus) / (len(whole.classes) / whole.modulus) if whole.classes else 0.0
