"""The law of determinism: user code is a function of its arguments, and two runs give the same results."""

from __future__ import annotations

from typing import Any

from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import Finding, Law, compared
from dgs.check.scenarios.equality import same
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World

HINT = (
    "user code must be a function of its arguments: no clock, no randomness, nothing remembered outside of the state "
    "(on self, in a global, in a default argument). Take times and random numbers from the event"
)


class RunsTheSameTwice(Law):
    """The same history gives the same state and outputs each time."""

    name = "determinism"
    words = "update, fork and join are deterministic: run twice, they do the same"
    after = ("codec", "ownership")

    def draw(self, draws: Draws) -> Scenario:
        return Scenario(draws.history()[0])

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the history twice."""
        first: list[list[Any]] = []
        second: list[list[Any]] = []
        _, once = reached(world, scenario.steps, first)
        _, again = reached(world, scenario.steps, second)
        return compared(
            same,
            "the outputs of the second run differ",
            ("first run", first),
            ("second run", second),
            {"other": HINT},
        ) or compared(
            same,
            "the state after the second run differs",
            ("first run", once),
            ("second run", again),
            {"other": HINT},
        )
