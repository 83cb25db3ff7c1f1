"""The law of `accumulates`: folding events from the identity and joining equals updating."""

from __future__ import annotations

from dgs.check.drawing.scenarios import MOST_APART, Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared, compared_outputs
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World, called

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "lost": "join keeps only one side's part: the parts of both sides must add up, whichever side they are on",
    "other": "an event that accumulates must do the same whatever the state, as adding does: name only such kinds in `accumulates`",
}
OUTPUTS = (
    "the outputs of kinds that accumulate must not depend on the state: take the kind out of `accumulates`"
)


class AccumulatingKindsAccumulate(Law):
    """`update(s, e) = join(s, update(identity(), e))` with the same outputs, for several events and on both sides."""

    name = "accumulation"
    words = "what accumulates does: update(s, e) = join(s, update(identity(), e)), with the same outputs for every s"
    after = ("codec", "ownership", "determinism", "C3", "identity")
    fewest = 1

    def missing(self, world: World) -> str | None:
        return None if world.accumulating else "no kind accumulates"

    def draw(self, draws: Draws) -> Scenario:
        steps, wire = draws.history(MOST_APART)
        tags = [tag for tag in wire.tags if tag.kind in draws.world.accumulating]
        if not tags:
            steps, tags = (), [tag for tag in draws.world.tags if tag.kind in draws.world.accumulating]
        return Scenario(steps, events=draws.events(tags, MOST_APART, least=1))

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Fold the events from the state, and from the identity, and compare."""
        program, events = world.program, scenario.events
        if not (program.gives("identity") and program.gives("join")):
            return Finding(
                "there is no identity() or no join()", hint="a program with `accumulates` needs both"
            )
        listed = [tag for tag in world.tags if tag.kind in world.accumulating]
        for a, b in (
            (a, b) for i, a in enumerate(listed) for b in listed[i:] if (a, b) not in world.independent
        ):
            what = f"{a!r} and {b!r} accumulate and are declared dependent"
            return Finding(
                what,
                hint="kinds that accumulate must be independent of each other: drop the rule or the kind",
            )
        of, state = reached(world, scenario.steps)
        expected, wanted = folded(world, of, state, events)
        for side in ("right", "left"):
            partial, outputs = folded(world, of, world.identity(), events)
            _, state = reached(world, scenario.steps)
            got = called("join", program.join, *((state, partial) if side == "right" else (partial, state)))
            name = "join(s, p)" if side == "right" else "join(p, s)"
            names = ("updating s", f"{name}, p updated from identity()")
            found = compared_outputs(world, events, (names[0], wanted), (names[1], outputs), OUTPUTS)
            found = found or compared(
                world.states_equal, "the states differ", (names[0], expected), (names[1], got), HINTS
            )
            if found is not None:
                return found
        return None
