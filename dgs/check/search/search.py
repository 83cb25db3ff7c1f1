"""The search for a counterexample to a law with Hypothesis, and making it small.

Every failing scenario is remembered at once. The one with the fewest events counts, also if user code behaves differently each
time.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException, HypothesisWarning

from dgs.check.drawing.scenarios import scenarios
from dgs.check.laws import Finding, Law
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import UserRaised, World
from dgs.check.search.pruning import Payloads, pruned
from dgs.errors.raised import Interruption

SHRINKING = 3.0
"""The most seconds after the first failure for finding a smaller one."""

READABLE = 3
"""A counterexample with at most this many events is small enough."""

SEARCHES = 3
"""The number of searches for a smaller one, from other seeds."""

ERRORS = "errors"
"""The law that user code raises no exceptions. Every scenario of every law checks it."""


@dataclass(frozen=True)
class Counterexample:
    """A scenario in which a law does not hold, with the finding."""

    scenario: Scenario
    finding: Finding

    @property
    def size(self) -> tuple[int, int, int]:
        """Its size: events, forks, characters."""
        return self.scenario.event_count, self.scenario.fork_count, len(repr(self.scenario))


class _DoesNotHold(Exception):  # noqa: N818 - Hypothesis's sign of failure
    """A scenario failed."""


class _Enough(Interruption):
    """The time for shrinking is over."""


def examined(law: Law, world: World, scenario: Scenario) -> Finding | None:
    """Return the finding in a scenario. An exception of user code is a finding, too."""
    try:
        return law.check(world, scenario)
    except UserRaised as raised:
        hint = f"every function must accept every state and event that it can meet\n{raised.trace}"
        return Finding(f"{raised.function} raised {raised.error}", hint=hint, law=ERRORS)


def search(law: Law, world: World, *, max_examples: int, seed: int) -> tuple[int, Counterexample | None]:
    """Return the number of scenarios checked, and the smallest in which the law does not hold.

    If it is large, the search starts again: if user code keeps state, a later search may find a smaller one.
    """
    first = _Search(law, world)
    found = first.run(max_examples, seed)
    for again in range(1, SEARCHES):
        if found is None or found.scenario.event_count <= READABLE:
            break
        other = _Search(law, world).run(max_examples, seed + again)
        found = min((one for one in (found, other) if one is not None), key=lambda one: one.size)
    return first.examples, found


class _Search:
    """One search of Hypothesis. It notes every counterexample at once, since Hypothesis drops those that it cannot repeat.

    `examples`: the number of scenarios checked until the first failure.
    """

    def __init__(self, law: Law, world: World) -> None:
        self.examples = 0
        self._law, self._world = law, world
        self._payloads = Payloads()
        self._failing: list[Counterexample] = []
        self._until = float("inf")

    def run(self, max_examples: int, seed: int) -> Counterexample | None:
        """Let Hypothesis draw scenarios; return the smallest in which the law does not hold."""

        @seeded(seed)
        @settings(
            max_examples=max_examples,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(scenarios(self._law.draw, self._world))
        def attempt(scenario: Scenario) -> None:
            self._attempt(scenario)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)
            try:
                attempt()
            except (_DoesNotHold, _Enough):
                pass
            except HypothesisException:
                if not self._failing:  # otherwise user code behaves differently each time
                    raise
        return _smallest(self._law, self._world, self._failing, self._payloads) if self._failing else None

    def _attempt(self, scenario: Scenario) -> None:
        """Check a scenario, and others like it. Raises _DoesNotHold for a failure, _Enough when the time is over."""
        self.examples += not self._failing
        self._payloads.see(scenario)
        if time.monotonic() > self._until:
            raise _Enough
        found = self._failure(scenario)
        if found is not None:
            self._until = min(self._until, time.monotonic() + SHRINKING)
            self._failing.append(found)
            raise _DoesNotHold

    def _failure(self, scenario: Scenario) -> Counterexample | None:
        """Return the first counterexample among a scenario, others like it, and the variants of each."""
        law, world = self._law, self._world
        for base in (scenario, *alike(world, scenario), *later(world, scenario)):
            for one in law.variants(world, base):
                finding = examined(law, world, one)
                if finding is not None:
                    return Counterexample(one, finding)
        return None


def _smallest(law: Law, world: World, failing: list[Counterexample], payloads: Payloads) -> Counterexample:
    """Return the smallest counterexample that fails every time, without steps that it does not need."""
    ordered = sorted(failing, key=lambda one: one.size)
    found = next((one for one in ordered if examined(law, world, one.scenario) is not None), ordered[0])

    def is_broken(scenario: Scenario) -> bool:
        finding = examined(law, world, scenario)
        return finding is not None and finding.law == found.finding.law

    scenario = pruned(world, found.scenario, is_broken, payloads, fewest=law.fewest)
    finding = examined(law, world, scenario)
    return found if finding is None else Counterexample(scenario, finding)


def alike(world: World, scenario: Scenario) -> list[Scenario]:
    """Return the scenario with equal payloads. Ties, and values that are removed again, are rare among drawn payloads."""
    first: dict[int, Any] = {}
    changed = scenario.changed(
        lambda event: event._replace(
            payload=first.setdefault(id(world.payloads.get(event.tag.kind)), event.payload)
        )
    )
    payloads = zip(scenario.every_event(), changed.every_event(), strict=True)
    return [] if all(one.payload is other.payload for one, other in payloads) else [changed]


def later(world: World, scenario: Scenario) -> list[Scenario]:
    """Return the scenario with its last events, or the last one, so late that everything has expired: that is rarely drawn."""
    if not world.looks_at_time:
        return []
    jump, total = max(world.passes), scenario.event_count
    found = []
    for last in sorted({1, len(scenario.events)} - {0, total}):
        places = count()
        found.append(
            scenario.changed(
                lambda event, places=places, last=last: (  # type: ignore[misc]
                    event if next(places) < total - last else event._replace(ts=event.ts + jump)
                )
            )
        )
    return found if total else []


def named(counterexample: Counterexample, law: Law) -> Counterexample:
    """Return a counterexample whose finding names the law that is broken."""
    finding = counterexample.finding
    return replace(counterexample, finding=replace(finding, law=finding.law or law.name))
