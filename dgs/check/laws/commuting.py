"""C3: independent events commute (Section 2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from dgs.check.drawing.scenarios import Draws, Wire
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared, compared_outputs
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Forked, Scenario
from dgs.check.scenarios.world import World
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag

STATE: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "order": "the state keeps the order in which independent events came: keep something that has none (a count, a set, a map by key)",
    "other": "the two events write the same part of the state, or one reads what the other writes",
}
OUTPUTS = "one of the events outputs what the other one writes, so the output shows which of them came first"


MOST_PAIRS = 12
"""At most this many pairs of keys are tried for the two events that were drawn."""


class IndependentEventsCommute(Law):
    """`update(update(s, e1), e2) = update(update(s, e2), e1)` for independent e1, e2, with the same outputs of each."""

    name = "C3"
    words = "C3: independent events commute, and the outputs of each do not show which came first"

    def missing(self, world: World) -> str | None:
        return None if world.independent else "no two tags are independent"

    def draw(self, draws: Draws) -> Scenario:
        steps, wire = draws.history()
        handles = draws.world.types[wire.of].handles
        pairs = _pairs(draws, Wire(wire.of, tuple(tag for tag in wire.tags if tag in handles), wire.allowed))
        first, second = draws.one(pairs)
        return Scenario(steps, events=(draws.event([first]), draws.event([second])))

    def variants(self, world: World, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario, and variants with other keys of the two events, equal keys first."""
        yield scenario
        one, two = scenario.events
        seen = _seen_at_the_end(world, scenario)
        pairs = sorted(
            (
                (a, b)
                for a, b in world.independent
                if (a.kind, b.kind) == (one.tag.kind, two.tag.kind) and a in seen and b in seen
            ),
            key=lambda pair: (
                pair[0].key != pair[1].key,
                world.tags.index(pair[0]),
                world.tags.index(pair[1]),
            ),
        )
        for a, b in islice(pairs, MOST_PAIRS):
            if (a, b) != (one.tag, two.tag):
                yield replace(scenario, events=(one._replace(tag=a), two._replace(tag=b)))

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the two events in both orders."""
        one, two = scenario.events
        of, state = reached(world, scenario.steps)
        there, outputs = folded(world, of, state, [one, two])
        _, state = reached(world, scenario.steps)
        back, reverse = folded(world, of, state, [two, one])
        names = ("e1 then e2", "e2 then e1")
        found = compared_outputs(world, [one, two], (names[0], outputs), (names[1], reverse[::-1]), OUTPUTS)
        found = found or compared(
            world.states_equal, "the states differ", (names[0], there), (names[1], back), STATE
        )
        if found is None or found.hint == ROUNDING:
            return found
        return replace(
            found, dependent=(repr(one.tag), repr(two.tag)), hint=f"{found.hint}. {_advice(one.tag, two.tag)}"
        )


def _pairs(draws: Draws, wire: Wire) -> list[tuple[Tag, Tag]]:
    independent = draws.world.independent
    return [(a, b) for i, a in enumerate(wire.tags) for b in wire.tags[i:] if (a, b) in independent]


def _seen_at_the_end(world: World, scenario: Scenario) -> TagSet:
    """Return the tags that the last wire of the steps may see."""
    of, seen = world.root, TagSet.everything()
    for step in scenario.steps:
        if isinstance(step, Forked):
            of = world.types[world.type_of(step.sides.fork, step.keeps)]
            seen = step.sides.left if step.keeps == "left" else step.sides.right
    return seen & of.handles


def _advice(one: Tag, two: Tag) -> str:
    when = "SAME_KEY" if one.key == two.key and one.key is not None else "ALWAYS"
    return f"Probably {one!r} and {two!r} should be dependent: ({one.kind!r}, {two.kind!r}, dgs.{when})"
