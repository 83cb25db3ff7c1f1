"""The traffic of each worker of a plan, by stream.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.planner.plan import PlanNode
>>> VALUE, BARRIER = kind("value", key=("a", "b", "c")), kind("barrier")
>>> values = Stream("values", TagSet.of(VALUE), rates={VALUE("a"): 70.0}, other_rate=30.0)
>>> left = PlanNode("left", ImplTagSet.of(values=TagSet.of(VALUE("a"), VALUE("b"))))
>>> right = PlanNode("right", ImplTagSet.of(values=TagSet.of(VALUE("c"))))
>>> rates = node_rates(Plan(PlanNode("root", ImplTagSet(), children=(left, right))), [values])
>>> rates["left"], rates["right"], rates["root"]
({'values': 85.0}, {'values': 15.0}, {})
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from dgs.model.key_sets import KeySet
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan
from dgs.planner.topology import Stream

Owner = TypeVar("Owner", bound=Hashable)
NodeRates = dict[str, dict[str, float]]
"""Events per second by node id and stream, without streams of rate 0."""


def node_rates(plan: Plan, streams: Iterable[Stream]) -> NodeRates:
    """Return each node's part of the rate of each stream; tags without a known rate share `other_rate`."""
    rates: NodeRates = {node.id: {} for node in plan.nodes()}
    for stream in streams:
        owned = {node.id: node.tags.stream(stream.id) for node in plan.nodes()}
        for node_id, rate in shares(stream, {owner: tags for owner, tags in owned.items() if tags}):
            rates[node_id][stream.id] = rates[node_id].get(stream.id, 0.0) + rate
    return rates


def kind_rates(plan: Plan, streams: Iterable[Stream]) -> dict[tuple[str, str, str | None], float]:
    """Return the rate of each node, stream and kind; kinds that are not known are None."""
    rates: dict[tuple[str, str, str | None], float] = {}
    for stream in streams:
        parts = {
            (node.id, name): part
            for node in plan.nodes()
            for part, name in by_kind(node.tags.stream(stream.id))
        }
        for (node_id, name), rate in shares(stream, parts):
            key = (node_id, stream.id, name)
            rates[key] = rates.get(key, 0.0) + rate
    return rates


def by_kind(tags: TagSet) -> Iterator[tuple[TagSet, str | None]]:
    """Yield the parts of a tag set by kind; a set that holds unknown kinds is one part."""
    if tags.others:
        yield tags, None
        return
    for name, keys in tags.kinds:
        yield TagSet.from_kinds({name: keys}), name


def totals(rates: NodeRates) -> dict[str, float]:
    """Return the rate of each node over all streams."""
    return {node_id: sum(streams.values()) for node_id, streams in rates.items()}


def subtree_totals(plan: Plan, own: Mapping[str, float]) -> dict[str, float]:
    """Return the rate of each node's subtree."""
    whole = {node.id: own.get(node.id, 0.0) for node in plan.nodes()}
    for node in reversed(list(plan.nodes())):
        whole[node.id] += sum(whole[child.id] for child in node.children)
    return whole


def shares(stream: Stream, owners: Mapping[Owner, TagSet]) -> Iterator[tuple[Owner, float]]:
    """Yield owners with rates of their disjoint tag sets: known rates and parts of `other_rate`."""
    listed = {tag: owner for owner, tags in owners.items() for tag in tags.tags()}
    infinite = [(owner, tags) for owner, tags in owners.items() if not tags.is_finite]
    for tag, rate in stream.rates.items():
        owner = listed[tag] if tag in listed else next((o for o, tags in infinite if tag in tags), None)
        if owner is not None and rate:
            yield owner, rate
    if not stream.other_rate:
        return
    unlisted = {kind: _unlisted(kind, keys, stream) for kind, keys in stream.tags.kinds if keys.is_finite}
    weights = {owner: _weight(tags, stream, unlisted) for owner, tags in owners.items()}
    total = sum(weights.values())
    if total:
        yield from (
            (owner, stream.other_rate * weight / total) for owner, weight in weights.items() if weight
        )


def _weight(tags: TagSet, stream: Stream, unlisted: Mapping[str, int]) -> float:
    """Return the part of the stream's tags without known rate that is in `tags`; a whole kind counts 1.

    `unlisted`: the number of such tags of each kind with finitely many keys.
    """
    if tags.others:
        return 1.0
    return sum(_part(kind, keys, stream, unlisted) for kind, keys in tags.kinds)


def _part(kind: str, keys: KeySet, stream: Stream, unlisted: Mapping[str, int]) -> float:
    whole = stream.tags.keys(kind)
    if whole.is_finite:
        count = unlisted.get(kind, 0)
        return _unlisted(kind, keys, stream) / count if count else 0.0
    return (len(keys.classes) / keys.modulus) / (len(whole.classes) / whole.modulus) if whole.classes else 0.0


def _unlisted(kind: str, keys: KeySet, stream: Stream) -> int:
    """Return how many of some keys have no known rate."""
    return sum(Tag(kind, key) not in stream.rates for key in keys.extra)
