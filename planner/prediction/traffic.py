"""The traffic of each worker: its lanes with their rates, and how often other lanes cut them into stretches.

Here a lane is the part of one kind of one stream that one worker owns.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> from dgs.planner.topology import kind_rates
>>> from dgs.planner.topology import Stream
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Sums(Program):
...     depends = Dependence((BARRIER, VALUE, ALWAYS))
>>> streams = [Stream("v", TagSet.of(VALUE), {VALUE(): 30.0}), Stream("b", TagSet.of(BARRIER), {BARRIER(): 10.0})]
>>> one = Plan(PlanNode("w0", ImplTagSet.of(v=TagSet.of(VALUE), b=TagSet.of(BARRIER))))
>>> [(lane.kind, lane.rate, lane.stretches) for lane in traffic(one, Sums(), kind_rates(one, streams))["w0"].lanes]
[('barrier', 10.0, 7.5), ('value', 30.0, 7.5)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Key
from dgs.planner.plan import Plan, PlanNode, is_accumulating
from dgs.planner.topology import KindRates, by_kind

SHARE_OF_FRONTIER = 0.5
"""The cost, per request, of following several lanes above a worker, as a part of `piece`."""

FEW_EVENTS = 32.0
"""Shorter stretches are folded with `update` even if there is an `update_batch` (`workers/protocol/folding`)."""

BATCH_EVENTS = 65_536.0
"""The events of one reading of a source. No stretch is longer."""


@dataclass(frozen=True, slots=True)
class LaneTraffic:
    """Events per second of one kind of one stream at one worker. `stretches`: their number per second.

    `synchronises`: each event needs the states of the worker's children. `accumulates`: it only adds to the state.
    """

    stream: str
    kind: str | None
    rate: float
    stretches: float
    synchronises: bool
    accumulates: bool = False

    @property
    def share_of_long(self) -> float:
        """The share of the events that are in stretches of more than FEW_EVENTS, if stretches end at random times."""
        few = FEW_EVENTS * self.stretches / self.rate if self.rate else math.inf
        return (1 + few) * math.exp(-few) if few < math.inf else 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of one worker. `accumulates`: its whole subtree does, so it answers requests without waiting for a fork.

    `asked`: requests from above for its state, per second. `asks`: requests to each of its children, per second, including those
    that it passes on. `asked_rounds`, `rounds`: how often per second such requests come and go, since successive events are announced
    together unless an own event comes between. `above`: the lanes of the workers above it, which it also follows. `windows`: how many of
    its lanes `update_windows` folds in whole windows, which its other lane ends. `folds_windows`: the program has that method.
    `window_calls`: calls of a compiled `update` per second if each window has one of its own, since partial states are dicts.
    """

    lanes: tuple[LaneTraffic, ...]
    accumulates: bool
    asked: float
    asks: float
    asked_rounds: float = 0.0
    rounds: float = 0.0
    above: int = 0
    windows: int = 0
    folds_windows: bool = False
    window_calls: float = 0.0

    @property
    def rate(self) -> float:
        """Own events per second."""
        return sum(lane.rate for lane in self.lanes)


@dataclass(frozen=True, slots=True, eq=False)
class _Owned:
    """The part of one kind of one stream that one worker owns."""

    stream: str
    kind: str | None
    tags: TagSet
    rate: float


class Between:
    """A cache of whether tags of two sets depend on each other, since many plans of a program need the same answers."""

    def __init__(self, program: Program) -> None:
        self.dependence = program.dependence
        self._known: dict[tuple[TagSet, TagSet], bool] = {}

    def __call__(self, left: TagSet, right: TagSet) -> bool:
        """Return whether some tag of `left` depends on some tag of `right`."""
        pair = left, right
        if pair not in self._known:
            self._known[pair] = self._known[right, left] = self.dependence.between(left, right)
        return self._known[pair]


def traffic(
    plan: Plan, program: Program, rates: KindRates, between: Between | None = None
) -> dict[str, Traffic]:
    """Return the traffic of every worker, by id. `between`: the cache of earlier calls for the same program."""
    between = between or Between(program)
    own = {
        node.id: [
            _Owned(stream, name, part, rates.get((node.id, stream, name), 0.0))
            for stream, tags in node.tags.streams
            for part, name in by_kind(tags)
        ]
        for node in plan.nodes()
    }
    found: dict[str, Traffic] = {}
    folds_windows = any(one.update_windows is not None for one in program.states())
    has_dicts = bool(program.accumulating) and type(program.identity()) is dict
    for node in plan.nodes():
        parent = plan.parent(node.id)
        asked, asked_rounds = (found[parent.id].asks, found[parent.id].rounds) if parent else (0.0, 0.0)
        accumulates = is_accumulating(node, program.accumulating)
        others = [*own[node.id], *(lane for above in plan.ancestors(node.id) for lane in own[above.id])]
        windows = _windows(node, own[node.id], program) if folds_windows else 0
        cuts = _Cuts(others, between)
        turns = sum(lane.rate for lane in own[node.id]) if node.children else 0.0
        lanes = tuple(
            LaneTraffic(
                lane.stream,
                lane.kind,
                lane.rate,
                _batches(lane, asked_rounds if accumulates else 0.0)
                if windows or (accumulates and folds_windows)
                else _stretches(lane, cuts, least=max(asked, _taking_turns(lane, turns))),
                _synchronises(lane, node, program),
                lane.kind in program.accumulating,
            )
            for lane in own[node.id]
        )
        announced = [lane for lane in lanes if lane.synchronises]
        asks = asked + sum(lane.rate for lane in announced) if node.children else 0.0
        rounds = asked_rounds + sum(lane.stretches for lane in announced)
        above = len(others) - len(lanes)
        mine = Traffic(lanes, accumulates, asked, asks, asked_rounds, rounds, above, windows, folds_windows)
        found[node.id] = replace(mine, window_calls=partial_states(mine)) if has_dicts else mine
    return found


class _Cuts:
    """The rates at which the lanes of a worker, and of the workers above it, cut each other. Lanes with the same tags are taken together."""

    def __init__(self, lanes: Iterable[_Owned], between: Between) -> None:
        self._between = between
        self._alike: dict[TagSet, list[_Owned]] = {}
        self._found: dict[TagSet, tuple[float, float]] = {}
        for lane in lanes:
            self._alike.setdefault(lane.tags, []).append(lane)
        self._near = _Near(self._alike, between.dependence)

    def of(self, lane: _Owned) -> float:
        """Return the events per second of other lanes that depend on those of a lane."""
        if lane.tags not in self._found:
            self._found[lane.tags] = self._rates(lane.tags)
        others, alike = self._found[lane.tags]
        return others + max(0.0, alike - lane.rate)

    def _rates(self, tags: TagSet) -> tuple[float, float]:
        """Return the rates of lanes that depend on some tags: of lanes with other tags, and of lanes with the same tags."""
        cutting = [
            self._alike[other]
            for other in self._near.to(tags)
            if other != tags and self._between(tags, other)
        ]
        alike = self._alike[tags]
        cuts_itself = len(alike) > 1 and self._between(tags, tags)
        others = sum(lane.rate for lanes in cutting for lane in lanes)
        return others, sum(lane.rate for lane in alike) if cuts_itself else 0.0


class _Near:
    """Tag sets by kind and by key, so that a thousand streams with keys of their own are not compared pair by pair."""

    def __init__(self, all_tags: Iterable[TagSet], dependence: Dependence) -> None:
        self._all = tuple(all_tags)
        self._rules = [
            pair for r in dependence.rules for pair in ((r.left, r.right, r.when), (r.right, r.left, r.when))
        ]
        self._is_indexed = not dependence.is_total and not any(tags.others for tags in self._all)
        self._of_kind: dict[str, list[TagSet]] = {}
        self._unlisted: dict[str, list[TagSet]] = {}
        self._of_key: dict[tuple[str, Key], list[TagSet]] = {}
        for tags, (name, keys) in ((each, kind) for each in self._all for kind in each.kinds):
            self._of_kind.setdefault(name, []).append(tags)
            if not keys.is_finite:
                self._unlisted.setdefault(name, []).append(tags)
            for key in keys.extra:
                self._of_key.setdefault((name, key), []).append(tags)

    def to(self, tags: TagSet) -> Iterable[TagSet]:
        """Return the sets that may depend on some tags, in a fixed order: all except those that share no key with them."""
        if not self._is_indexed:
            return self._all
        found: dict[TagSet, None] = {}
        for mine, other, when in self._rules:
            keys, name = tags.keys(str(mine)), str(other)
            if when is SAME_KEY and keys.is_finite:
                found |= dict.fromkeys(self._unlisted.get(name, ()) if keys else ())
                for key in keys.extra:
                    found |= dict.fromkeys(self._of_key.get((name, key), ()))
            elif keys:
                found |= dict.fromkeys(self._of_kind.get(name, ()))
        return found


def _stretches(lane: _Owned, cuts_of: _Cuts, *, least: float) -> float:
    """Return how many stretches a lane has per second. Dependent lanes cut it; requests that take the state cut it into at `least` so many."""
    cuts = max(cuts_of.of(lane), least)
    pieces = lane.rate * cuts / (lane.rate + cuts) if lane.rate and cuts else 0.0
    return max(pieces, lane.rate / BATCH_EVENTS)


def _taking_turns(lane: _Owned, total: float) -> float:
    """Return how often other lanes cut a lane of a worker with children, which takes all its events in order. `total`: the rate of all own lanes."""
    return max(0.0, total - lane.rate)


def _batches(lane: _Owned, rounds: float) -> float:
    """Return how many stretches a lane has per second if the windows of one reading, or of one round, are folded together."""
    return max(min(lane.rate, rounds), lane.rate / BATCH_EVENTS)


def _windows(node: PlanNode, lanes: Iterable[_Owned], program: Program) -> int:
    """Return how many lanes of a leaf accumulate if exactly one other does not, else 0."""
    adds_up = [lane.kind in program.accumulating for lane in lanes]
    return sum(adds_up) if not node.children and adds_up.count(False) == 1 else 0


def _synchronises(lane: _Owned, node: PlanNode, program: Program) -> bool:
    """Return whether each event of a lane needs the states of the children. None does if all of these accumulate."""
    kinds = program.accumulating
    adds_up = lane.kind in kinds and all(is_accumulating(child, kinds) for child in node.children)
    return bool(node.children) and not adds_up


def partial_states(mine: Traffic) -> float:
    """Return how many partial states an accumulating worker makes per second: one for each lane in each window with its events."""
    return sum(parted(lane.rate, mine.asked) for lane in mine.lanes) if mine.accumulates else 0.0


def parted(rate: float, by: float) -> float:
    """Return into how many parts per second other events cut events that come at random.

    >>> parted(30.0, 10.0), parted(30.0, 0.0)
    (7.5, 0.0)
    """
    return rate * by / (rate + by) if rate and by else 0.0


def pieces(mine: Traffic) -> float:
    """Return into how many pieces per second requests that take a worker's state, or a part of it, cut its lanes.

    All parts for one round are made at once. If several lanes above the worker take turns, it also has to follow these.
    """
    asked = mine.asked_rounds if mine.accumulates else mine.asked
    following = SHARE_OF_FRONTIER * asked if mine.above > 1 else 0.0
    return following + sum(parted(lane.rate, asked) for lane in mine.lanes)
