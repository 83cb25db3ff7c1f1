"""The law of ownership: user code keeps and changes only values that it owns. Values are encoded before and after to check it.

`update`, `fork` and `join` own only the states that they get. So initial states are new objects each time, payloads and emitted
outputs do not change, and the two sides of a fork share nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgs import codec
from dgs.check.drawing.scenarios import MOST_STEPS, Draws
from dgs.check.laws.contract import Finding, Law
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario, Side
from dgs.check.scenarios.world import World, called
from dgs.errors import CodecError
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import Event
from dgs.model.user_code import shown


class Watched:
    """A value that must not change, with its bytes and its text when it was last checked."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.before, self.text = _bytes(value), shown(value)

    def finding(self, what: str, hint: str) -> Finding | None:
        """Return a finding if the value has changed."""
        if _bytes(self.value) == self.before:
            return None
        return Finding(what, ("before", self.text), ("after", shown(self.value)), hint=hint)


def _bytes(value: Any) -> bytes:
    try:
        return codec.encode(value)
    except CodecError:  # payloads of a test may have any type
        return repr(value).encode()


class OwnsOnlyStates(Law):
    """A function changes only the state that it gets, while it runs and later."""

    name = "ownership"
    words = "user code neither keeps nor changes what it does not own"
    after = ("codec",)
    fewest = 0

    def draw(self, draws: Draws) -> Scenario:
        """Draw a history and events, or one that ends with events on both sides of a fork."""
        if draws.options.forks(draws.options.start) and draws.one([False, True]):
            steps, wire = draws.history(2)
            if draws.options.forks(wire):
                sides, wires = draws.sides(wire)
                return Scenario(steps, sides, draws.apart(wires))
        steps, wire = draws.history(1)
        return Scenario(steps, events=draws.events(wire.tags, MOST_STEPS))

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Run the scenario, and check after every step all values that must not change."""
        makers: list[tuple[str, Callable[[], Any]]] = [("init", world.init)]
        if world.program.gives("identity"):
            makers.append(("identity", world.identity))
        made = [(name, make, Watched(make())) for name, make in makers]
        found = _apart(world, scenario) if scenario.sides is not None else _folded(world, scenario)
        for name, make, watched in made:
            if found is None and _bytes(make()) != watched.before:
                found = Finding(
                    f"{name}() does not return what it did before",
                    ("before", watched.text),
                    ("after", shown(make())),
                    hint=f"{name}() hands out one shared object, which update, fork or join then change: make a new one each time",
                )
        return found


def _folded(world: World, scenario: Scenario) -> Finding | None:
    of, state = reached(world, scenario.steps)
    payloads: list[tuple[Event, Watched]] = []
    outputs: list[tuple[Event, Watched]] = []
    for event in scenario.events:
        payloads.append((event, Watched(event.payload)))
        emitted: list[Watched] = []
        state = _updated(world, of, state, event, emitted)
        outputs += [(event, one) for one in emitted]
        for source, one in payloads:
            hint = "copy a payload before changing it: other functions and later replays read it too"
            if found := one.finding(f"the payload of {source.tag!r} was changed", hint):
                return found
        for source, one in outputs:
            hint = "emit a copy: an output that is part of the state changes with it"
            if found := one.finding(f"an output of {source.tag!r} changed after it was emitted", hint):
                return found
    return None


def _updated(world: World, of: str, state: Any, event: Event, emitted: list[Watched]) -> Any:
    """Update with an `emit` that notes every output, and every column of them, when it is emitted."""
    emit: Any = (
        _WatchedColumns(emitted) if world.program.emits_columns else lambda one: emitted.append(Watched(one))
    )
    return called("update", world.types[of].update, state, event, emit)


class _WatchedColumns:
    """The same `emit` for a program that emits columns. A list is watched value by value, since the run copies it too."""

    def __init__(self, emitted: list[Watched]) -> None:
        self._emitted = emitted

    def __call__(self, value: Any) -> None:
        self._emitted.append(Watched(value))

    def column(self, values: Column) -> None:
        values = columns.from_user(values, "emit.column")
        self._emitted += map(Watched, values) if type(values) is list else [Watched(values)]


def _apart(world: World, scenario: Scenario) -> Finding | None:
    sides = scenario.sides
    if sides is None:
        return None
    _, state = reached(world, scenario.steps)
    states = world.fork(sides, state)
    other: dict[Side, Side] = {"left": "right", "right": "left"}
    for side, event in scenario.apart:
        watched = Watched(states[other[side]])
        states[side], _ = world.update(world.type_of(sides.fork, side), states[side], event)
        hint = "the two parts that fork returns share an object: copy what both of them need"
        if found := watched.finding(
            f"{event.tag!r} on the {side} changed the state on the {other[side]}", hint
        ):
            return found
    return None
