"""Leaving out of a counterexample what it does not need.

Hypothesis shrinks choices; where one choice decides what later ones mean (a fork, which events may follow), it cannot take it
away alone. Here a step is left out as a whole, and the scenario is kept if the same law is still broken in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dgs.check.scenario import Forked, Rejoined, Scenario
from dgs.check.world import World


def pruned(
    world: World, scenario: Scenario, is_broken: Callable[[Scenario], bool], *, fewest: int | None = None
) -> Scenario:
    """Return a scenario with fewer steps in which the law is broken as well; the same one if there is none.

    `fewest`: how many of the events that the law is about are needed; None: all.
    """
    smaller = next((one for one in _smaller(world, scenario, fewest) if is_broken(one)), None)
    return scenario if smaller is None else pruned(world, smaller, is_broken, fewest=fewest)


def _smaller(world: World, scenario: Scenario, fewest: int | None) -> Iterator[Scenario]:
    """Yield the scenarios with one thing less. What remains is still allowed: a wire without a fork may see more."""
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
