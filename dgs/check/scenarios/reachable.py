"""Making the states that scenarios describe, by running the program with its forks.

>>> from dgs.model.tags import Tag
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return state + event.payload
>>> world = World(Total(), (Tag("n"),), payloads={})
>>> reached(world, (Event(Tag("n"), "n", 0, 4), Event(Tag("n"), "n", 1, 5)))
('state', 9)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgs.check.scenarios.scenario import Forked, Rejoined, Scenario, Side, SideEvent, Sides, Step
from dgs.check.scenarios.world import World
from dgs.errors.raised import RAISED, is_ours
from dgs.model.events import Event
from dgs.model.program import Program, State
from dgs.model.user_code import shown

__all__ = ["Apart", "Program", "apart", "folded", "narrated", "reached"]


@dataclass
class Apart:
    """The states of the two sides of a fork after some events, with the outputs of each event."""

    sides: Sides
    states: dict[Side, State]
    outputs: list[list[Any]] = field(default_factory=list)


def reached(world: World, steps: Iterable[Step], trace: list[Any] | None = None) -> tuple[str, State]:
    """Return the type and value of the state that the steps lead to. All outputs are appended to `trace`, event by event."""
    of, state = world.root.name, world.init()
    for step in steps:
        of, state = _stepped(world, of, state, step, [] if trace is None else trace)
    return of, state


def _stepped(world: World, of: str, state: State, step: Step, trace: list[Any]) -> tuple[str, State]:
    if isinstance(step, Forked):
        return world.type_of(step.sides.fork, step.keeps), world.fork(step.sides, state)[step.keeps]
    if isinstance(step, Rejoined):
        both = apart(world, state, step.sides, step.events)
        trace.extend(both.outputs)
        return of, world.join(step.sides.fork, both.states["left"], both.states["right"])
    state, outputs = world.update(of, state, step)
    trace.append(outputs)
    return of, state


def apart(world: World, state: State, sides: Sides, events: Iterable[SideEvent]) -> Apart:
    """Fork a state and let events happen on the sides."""
    found = Apart(sides, world.fork(sides, state))
    for side, event in events:
        of = world.type_of(sides.fork, side)
        found.states[side], outputs = world.update(of, found.states[side], event)
        found.outputs.append(outputs)
    return found


def folded(world: World, of: str, state: State, events: Sequence[Event]) -> tuple[State, list[list[Any]]]:
    """Return the state after some events, and the outputs of each."""
    every = []
    for event in events:
        state, outputs = world.update(of, state, event)
        every.append(outputs)
    return state, every


def narrated(world: World, scenario: Scenario) -> list[tuple[str, str]]:
    """Return the story of a scenario as pairs of a step and the state after it. It stops where user code raises."""
    lines: list[tuple[str, str]] = []
    timed = world.looks_at_time
    try:
        of, state = world.root.name, world.init()
        lines.append(("init", shown(state)))
        for step in scenario.steps:
            of, state = _stepped(world, of, state, step, [])
            lines.append((told(step, timed=timed), shown(state)))
        if scenario.sides is not None:
            lines += _narrated_apart(world, state, scenario)
    except RAISED as error:
        if is_ours(error):
            raise
        lines.append(("then", f"{type(error).__name__}"))
    where = f" on the {scenario.on}" if scenario.on in ("left", "right") else ""
    lines += [
        (f"event e{number}{where}", told(event, timed=timed))
        for number, event in enumerate(scenario.events, 1)
    ]
    return lines


def _narrated_apart(world: World, state: State, scenario: Scenario) -> list[tuple[str, str]]:
    sides = scenario.sides
    if sides is None:
        return []
    states = world.fork(sides, state)
    lines = [(str(sides), f"left {shown(states['left'])}, right {shown(states['right'])}")]
    for side, event in scenario.apart:
        states[side], _ = world.update(world.type_of(sides.fork, side), states[side], event)
        lines.append((f"on the {side}: {told(event, timed=world.looks_at_time)}", shown(states[side])))
    return lines


def told(step: Step, *, timed: bool = False) -> str:
    """Return a step in words; `timed`: with the timestamps of events."""
    if isinstance(step, Forked):
        return f"the {step.keeps} side of {step.sides}"
    if isinstance(step, Rejoined):
        inside = "; ".join(f"{told(event, timed=timed)} on the {side}" for side, event in step.events)
        return f"{step.sides}, {inside or 'nothing happens'}, join"
    at = f" at {step.ts}" if timed else ""
    return f"{step.tag!r}{at} with payload {shown(step.payload)}"
