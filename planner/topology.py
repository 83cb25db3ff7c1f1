"""The planner's view of the world: input streams with their tags and rates, machines, and the traffic of each worker of a plan.

>>> from dgs.model.tags import kind
>>> VIEW = kind("view", key=("a", "b"))
>>> stream = Stream("clicks", TagSet.of(VIEW), rates={VIEW("a"): 90.0})
>>> stream.rate(VIEW("a")), stream.rate(VIEW("b"))
(90.0, 0.0)

The traffic of each worker, by stream:

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

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet, key_class
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Key, Tag
from dgs.planner.plan import Plan


@dataclass(frozen=True)
class Stream:
    """An input stream as the planner sees it.

    `tags`: the tags that may arrive on it. `rates`: events per second (any one unit) of single tags; `other_rate`: of all other
    tags together. `location`: the machine it arrives at, None for anywhere. `events`: their number, infinite if it is not known.
    Split streams appear as `flights/0`, ....
    """

    id: str
    tags: TagSet
    rates: Mapping[Tag, float] = field(default_factory=dict)
    other_rate: float = 0.0
    location: str | None = None
    events: float = math.inf

    def rate(self, tag: Tag) -> float:
        """Return the known rate of a tag, 0 if unknown."""
        return self.rates.get(tag, 0.0)


@dataclass(frozen=True)
class Machine:
    """A computer that can run workers."""

    id: str
    cpus: int = 1


@dataclass(frozen=True)
class Topology:
    """Streams in their declared order, and machines. `hosts`: the number of processes that share the workers."""

    streams: Sequence[Stream]
    machines: Sequence[Machine] = (Machine("local"),)
    hosts: int = 1

    def impl_tags(self) -> ImplTagSet:
        """Return the implementation tags of all streams; a plan must own each exactly once."""
        return ImplTagSet.of({stream.id: stream.tags for stream in self.streams})

    @property
    def events(self) -> float:
        """The number of events of all streams together, infinite if it is not known."""
        return sum(stream.events for stream in self.streams)

    @property
    def cpus(self) -> int:
        """CPUs of all machines together."""
        return sum(machine.cpus for machine in self.machines)


Owner = TypeVar("Owner", bound=Hashable)
NodeRates = dict[str, dict[str, float]]
"""Events per second by node id and stream, without streams of rate 0."""
KindRates = dict[tuple[str, str, str | None], float]
"""Events per second by node id, stream and kind, without kinds of rate 0; None is for unknown kinds."""


def node_rates(plan: Plan, streams: Iterable[Stream]) -> NodeRates:
    """Return each node's part of the rate of each stream; tags without a known rate share `other_rate`."""
    return of_nodes(plan, kind_rates(plan, streams))


def of_nodes(plan: Plan, kinds: KindRates) -> NodeRates:
    """Return each node's part of the rate of each stream, as the sum over its kinds."""
    rates: NodeRates = {node.id: {} for node in plan.nodes()}
    for (node_id, stream, _), rate in kinds.items():
        rates[node_id][stream] = rates[node_id].get(stream, 0.0) + rate
    return rates


def kind_rates(plan: Plan, streams: Iterable[Stream]) -> KindRates:
    """Return the rate of each node, stream and kind."""
    rates: KindRates = {}
    owners: dict[str, dict[tuple[str, str | None], TagSet]] = {}
    for node in plan.nodes():
        for stream_id, tags in node.tags:
            mine = owners.setdefault(stream_id, {})
            mine.update({(node.id, name): part for part, name in by_kind(tags)})
    for stream in streams:
        shared = shares(stream, owners.get(stream.id, {}))
        rates |= {(node_id, stream.id, name): rate for (node_id, name), rate in shared.items()}
    return rates


def by_kind(tags: TagSet) -> Iterator[tuple[TagSet, str | None]]:
    """Yield the parts of a tag set by kind; a set that holds unknown kinds is one part."""
    if tags.others:
        yield tags, None
        return
    for name, keys in tags.kinds:
        yield tags if len(tags.kinds) == 1 else TagSet.from_kinds({name: keys}), name


def totals(rates: NodeRates) -> dict[str, float]:
    """Return the rate of each node over all streams."""
    return {node_id: sum(streams.values()) for node_id, streams in rates.items()}


def subtree_totals(plan: Plan, own: Mapping[str, float]) -> dict[str, float]:
    """Return the rate of each node's subtree."""
    whole = {node.id: own.get(node.id, 0.0) for node in plan.nodes()}
    for node in reversed(list(plan.nodes())):
        whole[node.id] += sum(whole[child.id] for child in node.children)
    return whole


def shares(stream: Stream, owners: Mapping[Owner, TagSet]) -> dict[Owner, float]:
    """Return the rate of each owner of disjoint tag sets: known rates, and a part of `other_rate`. Owners without a rate are left out."""
    found: dict[Owner, float] = {}
    if len(owners) == 1 and next(iter(owners.values())) == stream.tags:
        total = sum(stream.rates.values()) + stream.other_rate
        return dict.fromkeys(owners, total) if total else found
    by_tag = _Owners(owners)
    for tag, rate in stream.rates.items():
        owner = by_tag.of(tag)
        if owner is not None and rate:
            found[owner] = found.get(owner, 0.0) + rate
    if not stream.other_rate:
        return found
    unlisted = {kind: _unlisted(kind, keys, stream) for kind, keys in stream.tags.kinds if keys.is_finite}
    weights = {owner: _weight(tags, stream, unlisted) for owner, tags in owners.items()}
    total = sum(weights.values())
    for owner, weight in weights.items():
        if weight:
            found[owner] = found.get(owner, 0.0) + stream.other_rate * weight / total
    return found


class _Owners(Generic[Owner]):
    """The owners of disjoint tag sets, by tag and by class of keys, so that twenty thousand keys are not sought in a hundred sets each."""

    def __init__(self, owners: Mapping[Owner, TagSet]) -> None:
        self._listed = {tag: owner for owner, tags in owners.items() for tag in tags.tags()}
        self._unnamed = [(owner, tags) for owner, tags in owners.items() if tags.others]
        self._classes: dict[str, dict[int, dict[int, tuple[Owner, frozenset[Key]]]]] = {}
        for owner, tags in owners.items():
            for kind, keys in tags.kinds:
                if not keys.is_finite:
                    of_modulus = self._classes.setdefault(kind, {}).setdefault(keys.modulus, {})
                    of_modulus.update(dict.fromkeys(keys.classes, (owner, keys.missing)))

    def of(self, tag: Tag) -> Owner | None:
        """Return the owner of a tag, None if there is none."""
        if tag in self._listed:
            return self._listed[tag]
        for modulus, owners in self._classes.get(tag.kind, {}).items():
            found = owners.get(key_class(tag.key) % modulus if modulus > 1 else 0)
            if found and tag.key not in found[1]:
                return found[0]
        return next((owner for owner, tags in self._unnamed if tag in tags), None)


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
