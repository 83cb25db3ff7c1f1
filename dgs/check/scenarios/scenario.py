"""Scenarios: the history of a state, and the events after it. A scenario is generated, shrunk, shown, saved and run again.

A scenario stores no state, but the events, forks and joins that lead to it. So every use makes the state again, and only states
that a wire diagram can produce are checked.

>>> from dgs.model.tags import Tag
>>> one = Scenario(steps=(Event(Tag("inc", 0), "inc", 0, 5),), events=(Event(Tag("read", 0), "read", 1, None),))
>>> one.event_count, Scenario.from_data(one.to_data()) == one
(2, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from dgs.model.events import Event
from dgs.model.tag_sets import TagSet

Side = Literal["left", "right"]
SideEvent = tuple[Side, Event]


@dataclass(frozen=True, slots=True)
class Sides:
    """A fork, by its name, and the tags that its two sides may see."""

    fork: str
    left: TagSet
    right: TagSet

    def __str__(self) -> str:
        return f"{self.fork}(left sees {self.left!r}, right sees {self.right!r})"


@dataclass(frozen=True, slots=True)
class Forked:
    """A step: the state is forked, and the history goes on with one side of it."""

    sides: Sides
    keeps: Side


@dataclass(frozen=True, slots=True)
class Rejoined:
    """A step: the state is forked, events happen on the sides, and they join again."""

    sides: Sides
    events: tuple[SideEvent, ...]


Step = Event | Forked | Rejoined


@dataclass(frozen=True, slots=True)
class Scenario:
    """The steps from the initial state, then perhaps a fork and events on its sides, then the events that a law is about.

    `on`: the side of the fork, or the form of the batch, that the law is about. `cuts`: the ends of windows.
    """

    steps: tuple[Step, ...] = ()
    sides: Sides | None = None
    apart: tuple[SideEvent, ...] = ()
    events: tuple[Event, ...] = ()
    on: str = ""
    cuts: tuple[int, ...] = ()

    @property
    def event_count(self) -> int:
        """The number of its events."""
        return sum(1 for _ in self.every_event())

    @property
    def fork_count(self) -> int:
        """The number of its forks."""
        return sum(not isinstance(step, Event) for step in self.steps) + (self.sides is not None)

    def every_event(self) -> Iterator[Event]:
        """Yield all events of the scenario, with those of its forks."""
        for step in self.steps:
            if isinstance(step, Event):
                yield step
            elif isinstance(step, Rejoined):
                yield from (event for _, event in step.events)
        yield from (event for _, event in self.apart)
        yield from self.events

    def changed(self, change: Callable[[Event], Event]) -> Scenario:
        """Return the scenario with every event changed, in the order of `every_event`."""

        def step_changed(step: Step) -> Step:
            if isinstance(step, Rejoined):
                return replace(step, events=tuple((side, change(event)) for side, event in step.events))
            return change(step) if isinstance(step, Event) else step

        return replace(
            self,
            steps=tuple(map(step_changed, self.steps)),
            apart=tuple((side, change(event)) for side, event in self.apart),
            events=tuple(map(change, self.events)),
        )

    def to_data(self) -> list[Any]:
        """Return the scenario as a value that the codec carries."""
        return [
            [_step_data(step) for step in self.steps],
            None if self.sides is None else _sides_data(self.sides),
            [list(one) for one in self.apart],
            list(self.events),
            self.on,
            list(self.cuts),
        ]

    @classmethod
    def from_data(cls, data: list[Any]) -> Scenario:
        """Return the scenario from the result of `to_data`. Raises ValueError or TypeError for other data."""
        steps, sides, apart, events, on, cuts = data
        return cls(
            tuple(_step(*step) for step in steps),
            None if sides is None else Sides(*sides),
            tuple((side, event) for side, event in apart),
            tuple(events),
            on,
            tuple(cuts),
        )


def _sides_data(sides: Sides) -> list[Any]:
    return [sides.fork, sides.left, sides.right]


def _step_data(step: Step) -> list[Any]:
    if isinstance(step, Forked):
        return ["forked", _sides_data(step.sides), step.keeps]
    if isinstance(step, Rejoined):
        return ["rejoined", _sides_data(step.sides), [list(one) for one in step.events]]
    return ["event", step]


def _step(what: str, *content: Any) -> Step:
    if what == "forked":
        return Forked(Sides(*content[0]), content[1])
    if what == "rejoined":
        return Rejoined(Sides(*content[0]), tuple((side, event) for side, event in content[1]))
    (event,) = content
    if not isinstance(event, Event):
        raise TypeError(what)
    return event
