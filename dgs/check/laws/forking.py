"""C2: forking a state and joining it again gives the same state (Section 2.3)."""

from __future__ import annotations

from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import apart, reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.errors import InternalError

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "lost": "fork leaves something out, such as keys that neither side may see (keep those on the left), or join keeps only one "
    "side's keys",
    "extra": "fork or join makes up something that was not there, such as entries of keys that have none",
    "more": "fork gives both sides a part that join adds up: one side must get all of it, and the other something neutral (0, empty)",
    "order": "join puts the parts together in another order than fork took them apart: keep a state that has no order, or sort",
    "other": "whatever fork takes apart, join must put together again: check what each does with the part that differs",
}


class ForkingIsUndone(Law):
    """`join(fork(s, left, right)) = s` for independent tag sets left, right."""

    name = "C2"
    words = "C2: joining what was just forked gives the state back: join(fork(s, left, right)) = s"
    after = ("codec", "ownership", "determinism", "C3", "identity", "accumulation")

    def missing(self, world: World) -> str | None:
        return nothing_to_fork(world)

    def draw(self, draws: Draws) -> Scenario:
        steps, wire = draws.history()
        return Scenario(steps, draws.sides(wire)[0])

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Fork, join, and compare with the original state."""
        if scenario.sides is None:
            raise InternalError(problem="a scenario of C2 without a fork")
        _, before = reached(world, scenario.steps)
        _, state = reached(world, scenario.steps)
        states = apart(world, state, scenario.sides, ()).states
        after = world.join(scenario.sides.fork, states["left"], states["right"])
        return compared(
            world.states_equal,
            "the state is another",
            ("s", before),
            ("join(fork(s, left, right))", after),
            HINTS,
        )


def nothing_to_fork(world: World) -> str | None:
    """Return why no state of the program is ever forked, None if one may be."""
    if not world.forks:
        return "the program has no fork and join: it runs as one worker"
    return None if world.independent else "no two tags are independent"
