"""Drawing scenarios: events, forks with independent sides, and histories made of them. Short ones come first.

Every choice that makes a scenario longer is a draw that shrinks to "no", so a counterexample has only the parts that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from dgs.check.drawing.sample_tags import unseen_keys
from dgs.check.scenarios.scenario import Forked, Rejoined, Scenario, Side, SideEvent, Sides, Step
from dgs.check.scenarios.world import World
from dgs.model.events import Event
from dgs.model.key_sets import KeySet
from dgs.model.program import ForkJoin
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag

MOST_STEPS = 4
MOST_APART = 3

OFTEN = st.sampled_from([False, True, True])
SELDOM = st.sampled_from([False, False, False, False, True])
ALMOST_ALWAYS = st.sampled_from([False, True, True, True, True])
STEP_KINDS = st.sampled_from([*["event"] * 6, "rejoined", "forked"])
STEP_KINDS_OF_TYPES = st.sampled_from(["event", "event", "rejoined", "forked", "forked"])
"""The kinds of steps with several state types: most states are then only reached by forks."""
UNSEEN = st.sampled_from(["neither", "left", "right", "by hash"])


PLACES: tuple[tuple[Side, ...], ...] = ((), ("left",), ("right",), ("left", "right"), ("right", "left"))
MOST_FILLED = 10
"""Up to this many tags after a fork, one draw chooses the sides of all of them, which is faster than one draw each."""


@lru_cache(maxsize=64)
def _index(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@dataclass(frozen=True)
class Wire:
    """The current point of a scenario: the type of the state, and the tags that it may still see (a sample, and all)."""

    of: str
    tags: tuple[Tag, ...]
    allowed: TagSet


Partners = dict[Tag, list[Tag]]
"""Tags that may be on the left of a fork, each with the tags that may then be on the right."""


class Options:
    """The choices that a world allows, computed once: for each fork on a wire, its pairs of independent tags."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._known: dict[tuple[str, tuple[Tag, ...]], list[tuple[ForkJoin, Partners]]] = {}

    @cached_property
    def start(self) -> Wire:
        """The wire that everything begins on."""
        return Wire(self.world.root.name, self.world.tags, TagSet.everything())

    @cached_property
    def unseen(self) -> TagSet:
        """The tags of unbounded kinds that are not in the sample."""
        return unseen_keys(self.world.program, self.world.tags)

    def forks(self, wire: Wire) -> list[tuple[ForkJoin, Partners]]:
        """Return the forks that are possible on a wire."""
        if (wire.of, wire.tags) not in self._known:
            every = [
                (pair, self._partners(pair, wire))
                for pair in self.world.forks.values()
                if pair.parent == wire.of
            ]
            self._known[wire.of, wire.tags] = [(pair, partners) for pair, partners in every if partners]
        return self._known[wire.of, wire.tags]

    def _partners(self, pair: ForkJoin, wire: Wire) -> Partners:
        types = self.world.types
        left = [tag for tag in wire.tags if tag in types[pair.left].handles]
        right = [tag for tag in wire.tags if tag in types[pair.right].handles]
        partners = {a: [b for b in right if self.may_be_apart(a, b)] for a in left}
        return {a: found for a, found in partners.items() if found}

    @cached_property
    def near(self) -> dict[Tag, frozenset[Tag]]:
        """For each tag, the related tags: those with the same key, and those that depend on it."""
        tags, depends = self.world.tags, self.world.dependence
        return {a: frozenset(b for b in tags if a.key == b.key or depends(a, b)) for a in tags}

    def may_be_apart(self, a: Tag, b: Tag) -> bool:
        """Return whether two tags may be on two sides of a fork."""
        if (a, b) not in self.world.independent:
            return False
        program = self.world.program
        return (
            not program.has_derived_fork or a.kind in program.accumulating or b.kind in program.accumulating
        )


class Draws:
    """One scenario in the making. Timestamps count up in the order of drawing."""

    def __init__(self, draw: Callable[[Any], Any], options: Options) -> None:
        self.draw = draw
        self.options = options
        self.world = options.world
        self._ts = 0
        self._passes = st.sampled_from(self.world.passes)
        self._near: frozenset[Tag] | None = None

    def one(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices, the first one if it does not matter. Give the scenario up if there are none."""
        if not choices:
            reject()
        return choices[0] if len(choices) == 1 else choices[self.draw(_index(len(choices)))]

    def near_one(self, choices: Sequence[Any], tags_of: Callable[[Any], Iterable[Tag]]) -> Any:
        """Return one of the choices: any of them, or one whose tags (some or all) are related to the first tag of the scenario.

        Mistakes show when events are related, which is rare among many keys.
        """
        if self._near is None or len(choices) <= 1:
            found = self.one(choices)
        else:
            some = [one for one in choices if not self._near.isdisjoint(tags_of(one))]
            only = [one for one in some if self._near.issuperset(tags_of(one))]
            groups = [group for group in (choices, some, only) if group]
            weight = max(map(len, groups))
            found = self.one([one for group in groups for one in list(group) * (weight // len(group))])
        if self._near is None:
            self._near = frozenset().union(*(self.options.near[tag] for tag in tags_of(found)))
        return found

    def event(self, tags: Sequence[Tag], stream: str | None = None) -> Event:
        """Return an event with one of the tags."""
        tag = self.near_one(tags, lambda one: (one,))
        self._ts += self.draw(self._passes) if self.world.looks_at_time else 1
        source = stream or self.one(self.world.streams.get(tag.kind, (tag.kind,)))
        return Event(tag, source, self._ts, self.draw(self.world.payloads[tag.kind]))

    def events(
        self, tags: Sequence[Tag], most: int, *, least: int = 0, stream: str | None = None
    ) -> tuple[Event, ...]:
        """Return a few events with the tags."""
        found = [self.event(tags, stream) for _ in range(least)]
        while tags and len(found) < most and self.draw(OFTEN):
            found.append(self.event(tags, stream))
        return tuple(found)

    def history(self, most: int = MOST_STEPS) -> tuple[tuple[Step, ...], Wire]:
        """Return steps from the initial state, and the wire they end on."""
        wire, steps = self.options.start, list[Step]()
        while wire.tags and len(steps) < most and self.draw(OFTEN if steps else ALMOST_ALWAYS):
            kinds = STEP_KINDS_OF_TYPES if len(self.world.types) > 1 else STEP_KINDS
            what = self.draw(kinds) if self.options.forks(wire) else "event"
            if what == "event":
                steps.append(self.event(wire.tags))
                continue
            sides, wires = self.sides(wire)
            if what == "rejoined":
                steps.append(Rejoined(sides, self.apart(wires)))
            else:
                keeps: Side = self.one(_with_tags(wires))
                steps.append(Forked(sides, keeps))
                wire = wires[keeps]
        return tuple(steps), wire

    def apart(self, wires: dict[Side, Wire]) -> tuple[SideEvent, ...]:
        """Return a few events on the sides of a fork, in the order of their timestamps."""
        found: list[SideEvent] = []
        while len(found) < MOST_APART and self.draw(OFTEN):
            side: Side = self.one(_with_tags(wires))
            found.append((side, self.event(wires[side].tags)))
        return tuple(found)

    def sides(self, wire: Wire) -> tuple[Sides, dict[Side, Wire]]:
        """Return a fork with independent sides, and the wires behind it. Rarely, one side gets no events."""
        pair, partners = self.one(self.options.forks(wire))
        if self.options.unseen and self.draw(SELDOM):
            one_sided = self._one_sided(wire, pair)
            if one_sided is not None:
                return one_sided
        left_tag, right_tag = self.near_one(
            [(a, b) for a, some in partners.items() for b in some], lambda pair: pair
        )
        chosen: dict[Side, list[Tag]] = {"left": [left_tag], "right": [right_tag]}
        if self.draw(OFTEN):
            self._fill(chosen, wire, pair)
        left, right = TagSet.of(*chosen["left"]), TagSet.of(*chosen["right"])
        if self.options.unseen and self.draw(SELDOM):
            left, right = self._with_unseen(left, right, wire, pair)
        wires: dict[Side, Wire] = {
            "left": Wire(pair.left, tuple(chosen["left"]), left),
            "right": Wire(pair.right, tuple(chosen["right"]), right),
        }
        return Sides(pair.name, left, right), wires

    def _one_sided(self, wire: Wire, pair: ForkJoin) -> tuple[Sides, dict[Side, Wire]] | None:
        """Return a fork in which one side sees only keys without events, None if there is none."""
        busy: Side = self.one(["left", "right"])
        types = self.world.types
        of, other = (pair.left, pair.right) if busy == "left" else (pair.right, pair.left)
        tags = tuple(tag for tag in wire.tags if tag in types[of].handles)
        sees, idle = TagSet.of(*tags), self.options.unseen & wire.allowed & types[other].handles
        if not idle or self.world.program.has_derived_fork or self.world.dependence.between(sees, idle):
            return None
        here, there = Wire(of, tags, sees), Wire(other, (), idle)
        if busy == "left":
            return Sides(pair.name, sees, idle), {"left": here, "right": there}
        return Sides(pair.name, idle, sees), {"left": there, "right": here}

    def _fill(self, chosen: dict[Side, list[Tag]], wire: Wire, pair: ForkJoin) -> None:
        """Give the other tags of a wire to sides that may see them."""
        types = self.world.types
        drawn = self.draw(_index(len(PLACES) ** min(len(wire.tags), MOST_FILLED)))
        for tag in wire.tags[:MOST_FILLED]:
            drawn, which = divmod(drawn, len(PLACES))
            for side in PLACES[which]:
                here, there = (
                    (chosen["left"], chosen["right"]) if side == "left" else (chosen["right"], chosen["left"])
                )
                handles = types[pair.left if side == "left" else pair.right].handles
                if (
                    tag not in here
                    and tag in handles
                    and all(self.options.may_be_apart(tag, one) for one in there)
                ):
                    here.append(tag)

    def _with_unseen(self, left: TagSet, right: TagSet, wire: Wire, pair: ForkJoin) -> tuple[TagSet, TagSet]:
        """Add keys that are not in the sample, all to one side or to both by their hashes."""
        where = self.draw(UNSEEN)
        types, depends = self.world.types, self.world.dependence.between
        for number, side in enumerate(("left", "right")):
            if where not in (side, "by hash"):
                continue
            here, there, of = (left, right, pair.left) if side == "left" else (right, left, pair.right)
            more = self.options.unseen & wire.allowed & types[of].handles & _kinds_of(here)
            if where == "by hash":
                more = TagSet.from_kinds(
                    {kind: keys & KeySet.hashed(2, [number]) for kind, keys in more.kinds}
                )
            if not depends(here | more, there):
                left, right = (left | more, right) if side == "left" else (left, right | more)
        return left, right


def _with_tags(wires: dict[Side, Wire]) -> list[Side]:
    """Return the sides of a fork on which events may happen."""
    return [side for side, wire in wires.items() if wire.tags]


def _kinds_of(tags: TagSet) -> TagSet:
    return TagSet.of(*(kind for kind, _ in tags.kinds))


def scenarios(drawn: Callable[[Draws], Scenario], world: World) -> st.SearchStrategy[Scenario]:
    """Return the strategy of the scenarios that a law draws."""
    options = Options(world)

    @st.composite
    def strategy(draw: Callable[[Any], Any]) -> Scenario:
        return drawn(Draws(draw, options))

    return strategy()
