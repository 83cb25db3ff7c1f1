"""Lanes: sets of tags that no other worker needs to tell apart.

The protocol is stated for implementation tags. Ten thousand keys at one worker would mean ten thousand buffers, although
no other worker distinguishes these keys. A *lane* is a set of tags of one stream with one owner that every other worker on
the path to the root and below treats alike. The runtime applies the protocol to lanes: two lanes depend on each other when
some tag of one depends on some tag of the other. This relation must be the same in all mailboxes (R6), or children wait for
events that their parent does not order.

>>> from dgs.model.dependence import SAME_KEY, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import Plan, PlanNode
>>> VIEW, UPDATE = kind("view", key=str), kind("update", key=str)
>>> depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))
>>> views = [PlanNode(f"v{k}", ImplTagSet.of({f"views/{k}": TagSet.of(VIEW(k))})) for k in "ab"]
>>> plan = Plan(PlanNode("root", ImplTagSet.of(updates=TagSet.of(UPDATE)), children=tuple(views)))
>>> [lane.tags for lane in Lanes(plan, depends).of("root")]             # keys a, b, and all others
[{update('a')}, {update('b')}, {update(all - {'a', 'b'})}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dgs.errors import UnownedTagError
from dgs.model.dependence import Dependence, Rule, When
from dgs.model.events import Codes, EventBatch
from dgs.model.key_sets import KeySet
from dgs.model.tag_sets import TagSet, owned_instead, union
from dgs.model.tags import Key, Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.bounds import BOUNDS, Bounds


@dataclass(frozen=True, slots=True)
class Lane:
    """Tags of one stream, owned by one worker, that the protocol does not distinguish."""

    id: int
    owner: str
    stream: str
    tags: TagSet


class Lanes:
    """All lanes of a plan, and their dependences. The same plan gives the same numbers on every host."""

    def __init__(self, plan: Plan, dependence: Dependence, bounds: Bounds = BOUNDS) -> None:
        self.plan = plan
        self.dependence = dependence
        self._most_told_apart = bounds.most_told_apart
        self.all = self._merged(self._pieces())
        self._own = _by_owner(plan, self.all)
        self._neighbours = self._adjacency(self.all)

    def of(self, node_id: str) -> tuple[Lane, ...]:
        """Return the lanes a worker owns."""
        return tuple(self._own[node_id])

    def above(self, node_id: str) -> tuple[Lane, ...]:
        """Return the lanes of the ancestors of a worker, the nearest first."""
        return tuple(lane for node in self.plan.ancestors(node_id) for lane in self._own[node.id])

    def below(self, node_id: str) -> tuple[Lane, ...]:
        """Return the lanes of a worker and of its whole subtree."""
        return tuple(lane for node in self.plan.node(node_id).walk() for lane in self._own[node.id])

    def ordered(self, node_id: str) -> dict[int, tuple[int, ...]]:
        """Return, for each lane of a worker's mailbox, the other lanes that it is ordered with there.

        At a leaf, a lane is ordered with those it depends on. At a worker with children, it is ordered with those it is
        connected to in the dependence graph of the mailbox and the whole subtree (R6). With fewer, parent and child can deadlock.
        """
        mailbox = [lane.id for lane in (*self.of(node_id), *self.above(node_id))]
        if self.plan.node(node_id).is_leaf:
            near = {i: frozenset(self._neighbours[i]) for i in mailbox}
            return {i: tuple(j for j in mailbox if j != i and j in near[i]) for i in mailbox}
        group = self._components([*mailbox, *(lane.id for lane in self.below(node_id))])
        return {i: tuple(j for j in mailbox if j != i and group[j] == group[i]) for i in mailbox}

    def _components(self, lanes: Iterable[int]) -> dict[int, int]:
        """Return a representative of each lane's connected component within `lanes`."""
        inside = dict.fromkeys(lanes)
        found: dict[int, int] = {}
        for start in inside:
            if start in found:
                continue
            found[start], stack = start, [start]
            while stack:
                near = [j for j in self._neighbours[stack.pop()] if j in inside and j not in found]
                found.update(dict.fromkeys(near, start))
                stack.extend(near)
        return found

    def _path(self, node: PlanNode) -> list[PlanNode]:
        """Return the nodes whose workers exchange messages about this node's tags: its ancestors, itself and its subtree."""
        return [*self.plan.ancestors(node.id), *node.walk()]

    def _pieces(self) -> list[Lane]:
        """Return the tags of every owner and stream, cut where a rule tells them apart for another worker."""
        tags_of = {node.id: node.tags.tags() for node in self.plan.nodes()}
        pieces: list[Lane] = []
        for node in self.plan.nodes():
            others = [tags_of[other.id] for other in self._path(node) if other.id != node.id]
            for stream, tags in node.tags:
                for part in (part for kind in _by_kind(tags) for part in self._refined(kind, others)):
                    pieces.append(Lane(len(pieces), node.id, stream, part))
        return pieces

    def _refined(self, tags: TagSet, others: list[TagSet]) -> list[TagSet]:
        """Cut the tags of one kind where a rule tells them apart for another worker on its path."""
        if tags.others:
            return [tags]
        ((name, keys),) = tags.kinds
        parts = [keys]
        for rule in self.dependence.rules:
            for partner in _partners(rule, name):
                for theirs in dict.fromkeys(other.keys(partner) for other in others):
                    parts = [
                        piece for part in parts for piece in self._cut(name, part, rule, partner, theirs)
                    ]
        return [TagSet.from_kinds({name: part}) for part in parts]

    def _cut(self, name: str, part: KeySet, rule: Rule, partner: str, theirs: KeySet) -> list[KeySet]:
        """Cut keys of the kind `name` where a rule tells them apart for the owner of keys of the kind `partner`."""
        if rule.when is When.SAME_KEY:
            return [some for some in (part & theirs, part - theirs) if some]
        most = self._most_told_apart
        if rule.when is When.ALWAYS or len(part.extra) > most or not (part.is_finite and theirs.is_finite):
            return [part]
        tags = [Tag(partner, key) for key in sorted(theirs.extra, key=repr)]
        groups: dict[tuple[bool, ...], list[Key]] = {}
        for key in sorted(part.extra, key=repr):
            held = (rule.holds(Tag(name, key), tag) for tag in tags)
            groups.setdefault(tuple(held) if len(tags) <= most else (any(held),), []).append(key)
        return [KeySet.of(keys) for keys in groups.values()]

    def _merged(self, pieces: list[Lane]) -> tuple[Lane, ...]:
        """Merge pieces of one owner and stream that have the same neighbours elsewhere. Their events arrive in order anyway."""
        near = self._adjacency(pieces)
        groups: dict[tuple[str, str, tuple[int, ...]], list[TagSet]] = {}
        for piece in pieces:
            source = (piece.owner, piece.stream)
            elsewhere = tuple(j for j in near[piece.id] if (pieces[j].owner, pieces[j].stream) != source)
            groups.setdefault((*source, elsewhere), []).append(piece.tags)
        merged = ((owner, stream, union(parts)) for (owner, stream, _), parts in groups.items())
        return tuple(Lane(i, *lane) for i, lane in enumerate(merged))

    def _adjacency(self, lanes: Sequence[Lane]) -> dict[int, tuple[int, ...]]:
        """Return each lane's dependent lanes among those of its owner and of the owner's ancestors and subtree."""
        own = _by_owner(self.plan, lanes)
        near: dict[int, dict[int, None]] = {lane.id: {} for lane in lanes}
        numbers: dict[TagSet, int] = {}
        # many lanes have the same tags
        number = [numbers.setdefault(lane.tags, len(numbers)) for lane in lanes]
        known: dict[tuple[int, int], bool] = {}
        for node in self.plan.nodes():
            above = [lane for ancestor in self.plan.ancestors(node.id) for lane in own[ancestor.id]]
            for i, lane in enumerate(own[node.id]):
                for other in (*own[node.id][i + 1 :], *above):
                    pair = (number[lane.id], number[other.id])
                    if pair not in known:
                        known[pair] = known[pair[::-1]] = self.dependence.between(lane.tags, other.tags)
                    if known[pair]:
                        near[lane.id][other.id] = None
                        near[other.id][lane.id] = None
        return {i: tuple(sorted(js)) for i, js in near.items()}


def _partners(rule: Rule, kind: str) -> list[str]:
    """Return the kinds whose tags a rule compares with those of a kind."""
    left, right = str(rule.left), str(rule.right)
    return [right] if left == kind else [left] if right == kind else []


def _by_owner(plan: Plan, lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    own: dict[str, list[Lane]] = {node.id: [] for node in plan.nodes()}
    for lane in lanes:
        own[lane.owner].append(lane)
    return own


def _by_kind(tags: TagSet) -> list[TagSet]:
    """Return the set kind by kind. Kinds that it does not name stay together."""
    named = [TagSet.from_kinds({name: keys}) for name, keys in tags.kinds if keys]
    rest = tags - TagSet.from_kinds({name: KeySet.all() for name, _ in tags.kinds})
    return [*named, rest] if rest else named


class Router:
    """Finds the lane of every event. Answers are remembered: a key is hashed once."""

    def __init__(self, lanes: Lanes, bounds: Bounds = BOUNDS) -> None:
        self._bounds = bounds
        self._by_stream: dict[str, list[Lane]] = {}
        self._known: dict[tuple[str, Tag], int | None] = {}
        for lane in lanes.all:
            self._by_stream.setdefault(lane.stream, []).append(lane)

    def of_stream(self, stream: str) -> list[Lane]:
        """Return the lanes of a stream."""
        return self._by_stream.get(stream, [])

    def lane(self, stream: str, tag: Tag) -> int | None:
        """Return the number of the lane of a tag, None if no worker owns it."""
        where = (stream, tag)
        if where not in self._known:
            if len(self._known) >= self._bounds.most_remembered:
                self._known.clear()
            self._known[where] = next((lane.id for lane in self.of_stream(stream) if tag in lane.tags), None)
        return self._known[where]

    def split(self, batch: EventBatch) -> Iterator[tuple[int, EventBatch]]:
        """Cut a batch by lane, vectorised over its tag codes. Raises UnownedTagError for a tag that no worker owns."""
        if not len(batch):
            return
        lanes = [self.lane(batch.stream, tag) for tag in batch.tags]
        if batch.codes is None:
            yield self._owned(lanes[0], batch, 0), batch
            return
        if len(set(lanes)) == 1 and lanes[0] is not None:
            yield lanes[0], batch
            return
        for lane, rows in _rows_by_lane(lanes, batch.codes, self._bounds.few_lanes):
            mine = batch
            if lanes.count(lane) == 1:  # all events have one tag: no codes are needed
                mine = replace(batch, tags=(batch.tags[lanes.index(lane)],), codes=None)
            yield self._owned(lane, batch, int(rows[0])), mine.take(rows)

    def _owned(self, lane: int | None, batch: EventBatch, row: int) -> int:
        """Return the lane of a row. Raises UnownedTagError if there is none."""
        if lane is None:
            tag = batch.tags[0 if batch.codes is None else int(batch.codes[row])]
            raise self.unowned(batch.stream, tag, int(batch.seq[row]))
        return lane

    def unowned(self, stream: str, tag: Tag, row: int) -> UnownedTagError:
        """Return the error for a tag that no worker owns."""
        owned = owned_instead(tag, union(lane.tags for lane in self.of_stream(stream)))
        return UnownedTagError(stream=stream, row=row, tag=tag, owned=owned)


def _rows_by_lane(
    lanes: list[int | None], codes: Codes, few: int
) -> Iterator[tuple[int | None, npt.NDArray[np.intp]]]:
    """Yield each lane that has events in a batch, with their rows. `lanes`: the lane of each tag code; `few`: see `few_lanes`."""
    distinct = list(dict.fromkeys(lanes))
    which = np.array([distinct.index(lane) for lane in lanes], dtype=np.int32)
    group = codes if len(distinct) == len(lanes) else which[codes]
    if len(distinct) <= few:
        found = ((lane, (group == i).nonzero()[0]) for i, lane in enumerate(distinct))
    else:
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
        found = ((lane, order[bounds[i] : bounds[i + 1]]) for i, lane in enumerate(distinct))
    yield from ((lane, rows) for lane, rows in found if len(rows))
