"""The law of plans: outputs after independent events do not depend on how a plan deals and orders these events.

C1 to C3 compare states by `==`, for which dictionaries have no order and 1 equals True. This law compares the outputs of later events.
"""

from __future__ import annotations

from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import Finding, Law, compared_outputs
from dgs.check.scenarios.equality import same
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Rejoined, Scenario, Step
from dgs.check.scenarios.world import World
from dgs.model.events import Event

HINT = (
    "the two states are equal, and the output shows what `==` does not: most often the order of a dict or a set, which differs from "
    "plan to plan. Sort it, such as `sorted(state.items())`, before it is emitted or decides something; else keep what decides as a value"
)


class EqualStatesGoOnAlike(Law):
    """After steps with forks, and after independent events in another order, outputs are those of the sequential program."""

    name = "plans"
    words = (
        "plans: later outputs do not show on which side of a fork, or in which order, independent events came"
    )
    after = ("codec", "ownership", "determinism", "C3", "identity", "accumulation", "C2", "C1")
    fewest = 1

    def missing(self, world: World) -> str | None:
        """Return a reason if no two tags are independent."""
        return None if world.independent else "no two tags are independent"

    def draw(self, draws: Draws) -> Scenario:
        """Draw a history, then two events that are exchanged if they are independent, then one of each kind."""
        steps, wire = draws.history()
        handles = draws.world.types[wire.of].handles
        tags = [tag for tag in wire.tags if tag in handles]
        kinds = list(dict.fromkeys(tag.kind for tag in tags))
        first = draws.one(kinds)
        ordered = kinds[kinds.index(first) :] + kinds[: kinds.index(first)]
        later = (draws.event([tag for tag in tags if tag.kind == kind]) for kind in ordered)
        return Scenario(steps, events=(*draws.events(tags, 2, least=2), *later))

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the steps as drawn and without forks, exchange independent events, and compare the later outputs."""
        events = list(scenario.events)
        of, expected = reached(world, _without_forks(world, scenario.steps))
        _, got = reached(world, scenario.steps)
        count = 2 if len(events) > 2 and (events[0].tag, events[1].tag) in world.independent else 0  # noqa: PLR2004
        expected, _ = folded(world, of, expected, events[:count])
        got, _ = folded(world, of, got, events[:count][::-1])
        if not same(expected, got):  # equal within a tolerance, or an earlier law is broken
            return None
        rest = events[count:]
        _, wanted = folded(world, of, expected, rest)
        _, found = folded(world, of, got, rest)
        how = ["with the fork"] * (scenario.fork_count > 0) + ["e2 before e1"] * (count > 0)
        names = "one after the other", " and ".join(how)
        return compared_outputs(world, rest, (names[0], wanted), (names[1], found), HINT)


def _without_forks(world: World, steps: tuple[Step, ...]) -> list[Step]:
    """Return the steps with forks that join again replaced by the events of both sides, one after the other."""
    of, found = world.root.name, list[Step]()
    for step in steps:
        if isinstance(step, Rejoined) and all(
            event.tag in world.types[of].handles for _, event in step.events
        ):
            found += [event for _, event in step.events]
            continue
        found.append(step)
        if not isinstance(step, Event | Rejoined):
            of = world.type_of(step.sides.fork, step.keeps)
    return found
