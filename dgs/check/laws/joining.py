"""C1, on both sides: an event before a join has the same effect as after it (Section 2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgs.check.drawing.scenarios import MOST_APART, Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared, compared_outputs
from dgs.check.laws.forking import nothing_to_fork
from dgs.check.scenarios.equality import Symptom, same
from dgs.check.scenarios.reachable import Apart, apart, reached
from dgs.check.scenarios.scenario import Scenario, Side, Sides
from dgs.check.scenarios.world import World
from dgs.errors import InternalError
from dgs.model.events import Event
from dgs.model.program import State

OUTPUTS = (
    "the side that sees the event was not given all that `update` reads for it: fork must give each side what the tags in its "
    "TagSet need"
)


class UpdatesMayJoinLater(Law):
    """`join(update(l, e), r) = update(join(l, r), e)` for e on the left, its mirror image on the right, outputs included."""

    name = "C1"
    words = "C1: an event on one side of a fork does the same before the join as after it: join(update(l, e), r) = update(join(l, r), e)"
    after = ("codec", "ownership", "determinism", "C3", "identity", "accumulation", "C2")

    def missing(self, world: World) -> str | None:
        return nothing_to_fork(world)

    def draw(self, draws: Draws) -> Scenario:
        steps, wire = draws.history(MOST_APART)
        sides, wires = draws.sides(wire)
        before = draws.apart(wires)
        handles = draws.world.types[wire.of].handles
        choices = [(side, tag) for side in wires for tag in wires[side].tags if tag in handles]
        side, tag = draws.near_one(choices, lambda one: one[1:])
        return Scenario(steps, sides, before, (draws.event([tag]),), side)

    def variants(self, world: World, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario and its mirror image, and variants of each with events of the same kind and other keys."""
        yield from _with_other_keys(world, scenario)
        mirrored = _mirrored(world, scenario)
        if mirrored is not None:
            yield from _with_other_keys(world, mirrored)

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Update then join, and join then update."""
        sides, (event,) = scenario.sides, scenario.events
        side: Side = "left" if scenario.on == "left" else "right"
        if sides is None:
            raise InternalError(problem="a scenario of C1 without a fork")
        early = self._forked(world, scenario)
        of = world.type_of(sides.fork, side)
        early.states[side], on_side = world.update(of, early.states[side], event)
        got = world.join(sides.fork, early.states["left"], early.states["right"])
        late = self._joined(world, scenario)
        expected, after_join = world.update(world.forks[sides.fork].parent, late, event)
        inside = "update(l, e), r" if side == "left" else "l, update(r, e)"
        names = ("update(join(l, r), e)", f"join({inside})")
        found = compared_outputs(world, [event], (names[0], [after_join]), (names[1], [on_side]), OUTPUTS)
        hints = _hints(side, event, is_lost=same(got, self._joined(world, scenario)))
        return found or compared(
            world.states_equal, "the states differ", (names[0], expected), (names[1], got), hints
        )

    def _forked(self, world: World, scenario: Scenario) -> Apart:
        if scenario.sides is None:
            raise InternalError(problem="a scenario of C1 without a fork")
        _, state = reached(world, scenario.steps)
        return apart(world, state, scenario.sides, scenario.apart)

    def _joined(self, world: World, scenario: Scenario) -> State:
        both = self._forked(world, scenario)
        return world.join(both.sides.fork, both.states["left"], both.states["right"])


OTHER: dict[str, Side] = {"left": "right", "right": "left"}


def _with_other_keys(world: World, scenario: Scenario) -> Iterator[Scenario]:
    yield scenario
    sides, (event,) = scenario.sides, scenario.events
    if sides is None:
        return
    handles = world.types[world.forks[sides.fork].parent].handles
    for tag in world.tags:
        if tag.kind != event.tag.kind or tag not in handles:
            continue
        for side, allowed in (("left", sides.left), ("right", sides.right)):
            if tag in allowed and (side, tag) != (scenario.on, event.tag):
                yield replace(scenario, events=(event._replace(tag=tag),), on=side)


def _mirrored(world: World, scenario: Scenario) -> Scenario | None:
    """Return the scenario with left and right exchanged, None if they have different types."""
    sides = scenario.sides
    if sides is None or world.forks[sides.fork].left != world.forks[sides.fork].right:
        return None
    return replace(
        scenario,
        sides=Sides(sides.fork, left=sides.right, right=sides.left),
        apart=tuple((OTHER[side], event) for side, event in scenario.apart),
        on=OTHER[scenario.on],
    )


def _hints(side: Side, event: Event, *, is_lost: bool) -> dict[Symptom, str]:
    other = OTHER[side]
    if is_lost:
        lost = f"what {event.tag!r} did on the {side} is gone after the join: join keeps only the {other} side's part of it"
        return {"other": lost}
    return {
        "rounding": ROUNDING,
        "lost": f"join keeps only one side's keys or part: it must take in what happened on the {side}, too. Or fork did not give the "
        f"{side} what {event.tag!r} changes",
        "more": "join counts something twice: fork copied to both sides what join adds up",
        "order": "join shows which events came on which side: keep a state in which independent events have no order",
        "other": f"join does not put in place what happened on the {side}: if only one side may have changed a part, join must "
        "take that one",
    }
