"""The law of resuming: a state from the codec, after a checkpoint or on another host, continues like the original one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgs import codec
from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared, compared_outputs
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import UserRaised, World
from dgs.model.events import Event
from dgs.model.tags import Tag

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "other": "what counts must be in the values: a set has no order, and a registered type gives back only what its `to` keeps. Where "
    "an order matters (the oldest, the least recently used), keep a list or a dict",
}


class GoesOnAfterTheCodec(Law):
    """`update(decode(encode(s)), e) = update(s, e)` for a few events e, with the same outputs."""

    name = "resume"
    words = "a state that comes back from a checkpoint goes on as it would have: update(decode(encode(s)), e) = update(s, e)"
    fewest = 1

    def draw(self, draws: Draws) -> Scenario:
        steps, wire = draws.history()
        return Scenario(steps, events=draws.events(wire.tags, 2, least=1))

    def variants(self, world: World, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario and its mirror image, and variants with the codec before each of the last events of the history."""
        yield from _cut_earlier(scenario)
        # otherwise a fork decides which keys may come
        if all(isinstance(step, Event) for step in scenario.steps):
            yield from _cut_earlier(_mirrored(world, scenario))

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the events on the state, and on its copy from the codec."""
        events = scenario.events
        of, state = reached(world, scenario.steps)
        back = codec.decode(codec.encode(state, keeps_order=True))
        expected, wanted = folded(world, of, state, events)
        try:
            got, outputs = folded(world, of, back, events)
        except UserRaised as raised:
            what = f"{raised.function} raised {raised.error}, but only on the state that came back"
            return Finding(what, hint=f"{HINTS['other']}\n{raised.trace}")
        names = ("going on", "going on from decode(encode(s))")
        found = compared_outputs(world, events, (names[0], wanted), (names[1], outputs), HINTS["other"])
        return found or compared(
            world.states_equal, "the states differ", (names[0], expected), (names[1], got), HINTS
        )


def _cut_earlier(scenario: Scenario) -> Iterator[Scenario]:
    yield scenario
    steps, events = scenario.steps, scenario.events
    while steps and isinstance(last := steps[-1], Event):
        steps, events = steps[:-1], (last, *events)
        yield replace(scenario, steps=steps, events=events)


def _mirrored(world: World, scenario: Scenario) -> Scenario:
    """Return the scenario with the keys of every kind reversed, so that events are no longer in the codec's order."""
    of_kind: dict[str, list[Tag]] = {}
    for tag in world.tags:
        of_kind.setdefault(tag.kind, []).append(tag)
    other = {tag: found[-1 - place] for found in of_kind.values() for place, tag in enumerate(found)}
    return scenario.changed(lambda event: event._replace(tag=other.get(event.tag, event.tag)))
