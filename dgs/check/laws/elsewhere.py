"""The law of place and time: another process gives the same results, with another hash seed and at another time."""

from __future__ import annotations

from typing import Any

from dgs import codec
from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import Finding, Law, compared
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import NotThere, UserRaised, World

HINT = (
    "update, fork and join must do the same in every process and at every time. Look in them for a clock or a date (take `event.ts`), "
    "the time zone of the host (`fromtimestamp`, `astimezone`: give them one), `hash` of texts or `id` (they differ between processes), "
    "a loop over a set (sort it), a global that other code has set"
)


class RunsTheSameElsewhere(Law):
    """The same history gives the same state and outputs in a fresh interpreter, more than a year later."""

    name = "elsewhere"
    words = "another process does the same: at another time, in another time zone, with another hash seed"
    after = ("codec", "ownership", "determinism", "resume", "C3", "identity", "accumulation", "C2", "C1")

    def missing(self, world: World) -> str | None:
        try:
            world.elsewhere.start()
        except NotThere as reason:
            return str(reason)
        return None

    def draw(self, draws: Draws) -> Scenario:
        return Scenario(draws.history()[0])

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the history there and here, both with values that the codec has carried."""
        raised = None
        state_there, there = None, list[list[Any]]()
        try:
            state_there, there = world.elsewhere.reached(scenario)
        except NotThere:
            return None
        except UserRaised as error:
            raised = error
        carried = Scenario.from_data(codec.decode(codec.encode(scenario.to_data(), keeps_order=True)))
        here: list[list[Any]] = []
        _, state = reached(world.elsewhere.here, carried.steps, here)
        if raised is not None:
            return Finding(f"{raised.function} raised {raised.args[1]} in another process only", hint=HINT)
        hints: dict[Symptom, str] = {"other": HINT}
        for place, pair in enumerate(zip(here, there, strict=True), 1):
            if len(pair[0]) != len(pair[1]) or not all(map(world.outputs_equal, *pair)):
                what = f"the outputs of event {place} differ in another process"
                return compared(lambda *_: False, what, ("here", pair[0]), ("there", pair[1]), hints)
        what = "the state differs in another process"
        return compared(world.states_equal, what, ("here", state), ("there", state_there), hints)
