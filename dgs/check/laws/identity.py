"""The identity is neutral in `join`, on both sides."""

from __future__ import annotations

from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World, called

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "other": "join(identity(), s) and join(s, identity()) must be s for every s: 0 for sums, empty for maps, None or infinity for "
    "the least",
}


class IdentityIsNeutral(Law):
    """`join(identity(), s) = s = join(s, identity())`."""

    name = "identity"
    words = "identity() is neutral: join(identity(), s) = s = join(s, identity())"

    def missing(self, world: World) -> str | None:
        if not world.program.gives("identity") or not world.has_one_type:
            return "the program has no identity"
        return None if world.program.gives("join") else "the program has no join"

    def draw(self, draws: Draws) -> Scenario:
        return Scenario(draws.history()[0])

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Join the identity on both sides."""
        _, expected = reached(world, scenario.steps)
        join = world.program.join
        right = called("join", join, reached(world, scenario.steps)[1], world.identity())
        left = called("join", join, world.identity(), reached(world, scenario.steps)[1])
        for name, got in (("join(s, identity())", right), ("join(identity(), s)", left)):
            found = compared(world.states_equal, "the state is another", ("s", expected), (name, got), HINTS)
            if found is not None:
                return found
        return None
