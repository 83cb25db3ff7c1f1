"""Pruning: removes parts that a counterexample does not need.

Hypothesis shrinks choices. It cannot remove a choice that later ones depend on, such as a fork. Here a whole step is removed, and
the scenario is kept if it still breaks the same law. Fewer events may break it only with other payloads (three roundings
instead of four), so payloads that were seen are tried in their place.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, takewhile
from typing import Any

from dgs.check.scenarios.scenario import Forked, Rejoined, Scenario
from dgs.check.scenarios.world import World
from dgs.model.events import Event

MOST_PAYLOADS = 12
"""At most this many payloads of each kind are tried again, the shortest ones."""
REDRAWS = 60
"""The number of times that payloads of a smaller scenario are drawn again."""
PRUNING = 1.0
"""The most seconds for removing parts and trying payloads."""

IsBroken = Callable[[Scenario], bool]


class Payloads:
    """The payloads that were seen, by kind, to be tried again."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, Any]] = {}

    def see(self, scenario: Scenario) -> None:
        """Remember the payloads of a scenario."""
        for event in scenario.every_event():
            self._seen.setdefault(event.tag.kind, {})[repr(event.payload)] = event.payload

    def of(self, event: Event) -> list[Any]:
        """Return short payloads of the kind of an event, the shortest first."""
        seen = self._seen.get(event.tag.kind, {})
        return [seen[text] for text in sorted(seen, key=lambda text: (len(text), text))[:MOST_PAYLOADS]]

    def redrawn(self, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario with other payloads, always the same ones."""
        choices = {event.tag.kind: self.of(event) for event in scenario.every_event()}
        choose = random.Random(0)  # noqa: S311 - nobody must not guess it
        if not any(choices.values()):
            return
        for _ in range(REDRAWS):
            yield scenario.changed(
                lambda event: event._replace(
                    payload=choose.choice(choices[event.tag.kind] or [event.payload])
                )
            )

    def simpler(self, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario with one payload replaced by a shorter one, or by an earlier one."""
        for place, event in enumerate(scenario.every_event()):
            text = repr(event.payload)
            for payload in self.of(event):
                if (len(repr(payload)), repr(payload)) < (len(text), text):
                    yield _with_payload(scenario, place, payload)


def pruned(
    world: World, scenario: Scenario, is_broken: IsBroken, payloads: Payloads, *, fewest: int | None = None
) -> Scenario:
    """Return a scenario with fewer steps that also breaks the law, or the same one if there is none.

    `fewest`: the least number of events that the law is about; None: all are needed.
    """
    until = time.monotonic() + PRUNING

    def less(one: Scenario) -> list[Scenario]:
        return list(_smaller(world, one, fewest))

    while (found := _broken_with_less(scenario, less, is_broken, payloads, until)) is not None:
        scenario = found
    if world.looks_at_time:
        scenario = _at_simple_times(scenario, is_broken)
    while (simpler := next(filter(is_broken, payloads.simpler(scenario)), None)) is not None:
        scenario = simpler
        if time.monotonic() > until:
            break
    return scenario


def _broken_with_less(
    scenario: Scenario,
    less: Callable[[Scenario], list[Scenario]],
    is_broken: IsBroken,
    payloads: Payloads,
    until: float,
) -> Scenario | None:
    """Return a failing scenario without one part, without two (a `put` and its `get`), or without one and with other payloads."""
    smaller = less(scenario)
    candidates = chain(
        smaller,
        (two for one in smaller for two in less(one)),
        (redrawn for one in smaller for redrawn in payloads.redrawn(one)),
    )
    in_time = takewhile(lambda _: time.monotonic() < until, candidates)
    return next(filter(is_broken, in_time), None)


def _at_simple_times(scenario: Scenario, is_broken: IsBroken) -> Scenario:
    """Return the scenario with one tick between two events wherever it still fails."""
    for place in range(scenario.event_count):
        times = [0, *(event.ts for event in scenario.every_event())]
        later = 1 - (times[place + 1] - times[place])
        moved = iter([ts + later * (index >= place) for index, ts in enumerate(times[1:])])
        simpler = scenario.changed(lambda event, moved=moved: event._replace(ts=next(moved)))  # type: ignore[misc]
        if later and is_broken(simpler):
            scenario = simpler
    return scenario


def _with_payload(scenario: Scenario, place: int, payload: Any) -> Scenario:
    places = iter(range(scenario.event_count))
    return scenario.changed(lambda event: event._replace(payload=payload) if next(places) == place else event)


def _smaller(world: World, scenario: Scenario, fewest: int | None) -> Iterator[Scenario]:
    """Yield the scenarios without one part. They stay valid, since without a fork a wire may see more tags."""
    steps = scenario.steps
    for index, step in enumerate(steps):
        if isinstance(step, Forked):
            pair = world.forks[step.sides.fork]
            if world.type_of(pair.name, step.keeps) != pair.parent:
                continue
        elif isinstance(step, Rejoined):
            for place in range(len(step.events)):
                fewer = replace(step, events=step.events[:place] + step.events[place + 1 :])
                yield replace(scenario, steps=(*steps[:index], fewer, *steps[index + 1 :]))
        yield replace(scenario, steps=steps[:index] + steps[index + 1 :])
    for place in range(len(scenario.apart)):
        yield replace(scenario, apart=scenario.apart[:place] + scenario.apart[place + 1 :])
    events = scenario.events
    if fewest is not None and len(events) > fewest:
        cuts = tuple(min(cut, len(events) - 1) for cut in scenario.cuts)
        for place in range(len(events)):
            yield replace(scenario, events=events[:place] + events[place + 1 :], cuts=cuts)
