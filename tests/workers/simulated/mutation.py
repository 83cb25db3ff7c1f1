"""A hunt for mutants: with one rule removed, some seed must fail, and soon.

A mutant is a function that patches the real classes; its docstring is the rule that it removes. It is killed by a wrong output or state, by
one of our invariants, a missing file (KeyError), or a run that cannot end. A mistake in a mutant, say an AttributeError, kills nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pytest

from dgs.errors import DgsError
from dgs.workers.protocol.host import Host
from dgs.workers.simulated import case
from dgs.workers.simulated.case import Case, WrongRunError, faults_of
from dgs.workers.simulated.simulation import Simulation
from tests.strategies import random_workload
from tests.workers.simulated import test_crashes, test_simulation

MOST_SEEDS = 20_000
MOST_STEPS = 40_000
"""The most steps of a run; normal runs take some hundreds. The limit is high, since a low one would kill for the wrong reason."""

CRASHES: Mapping[str, Any] = {"crashes": 4, "crash_chance": 0.03, "until": None}
"""Faults of a run that certainly crashes, for `Mutant.more`."""


@lru_cache(maxsize=4)
def case_of(number: int, subject: str | None) -> Case:
    """Return a random workload, of the program `subject` if given."""
    if subject is None:
        return test_crashes.case_of(number)
    work = random_workload(random.Random(number), subject)
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    return Case(work.program, streams, dict(zip(work.stream_ids, work.tags, strict=True)))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule to remove, and the runs in which this shows soonest.

    `kinds`: the faults that are drawn for each seed, None if none are needed; `more`: fields of Faults that all seeds have;
    `subject`: the program, see tests/strategies; `run`: another run for a seed; `first`: the first seed.
    """

    remove: Callable[[pytest.MonkeyPatch], None]
    kinds: tuple[str, ...] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    subject: str | None = None
    run: Callable[[int], object] | None = None
    first: int = 40_000

    def __str__(self) -> str:
        return self.remove.__name__

    def check(self, seed: int) -> None:
        """Run one seed, with the rule or without it."""
        if self.run is not None or self.kinds is None:
            (self.run or test_simulation.check_seed)(seed)
            return
        faults = replace(faults_of(seed, (*self.kinds, "bounds")), **self.more)
        case_of(seed // test_crashes.SEEDS_PER_WORKLOAD, self.subject).check_with(seed, faults)


@dataclass(frozen=True, slots=True)
class Kill:
    """The seed that failed, its number among the tried seeds, and its error."""

    seed: int
    tried: int
    said: str


@contextmanager
def _without_hurry() -> Iterator[pytest.MonkeyPatch]:
    case_of.cache_clear()
    test_crashes.case_of.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulation.run, "__defaults__", (MOST_STEPS,))
        patch.setattr(case, "CALM_STEPS", MOST_STEPS)
        patch.setattr(Host, "validate_state", lambda _: None)  # a run must show it, not the state
        yield patch


def hunt(mutant: Mutant, most: int = MOST_SEEDS) -> Kill | None:
    """Run seeds without the rule until one fails; return that one, or None."""
    with _without_hurry() as patch:
        mutant.remove(patch)
        for tried, seed in enumerate(range(mutant.first, mutant.first + most), 1):
            try:
                mutant.check(seed)
            except (AssertionError, DgsError, WrongRunError, KeyError) as error:
                return Kill(seed, tried, f"{type(error).__name__}: {error}")
    return None


def assert_killed(mutant: Mutant) -> None:
    """Fail if no seed notices that the rule is gone, or if one also fails with it. With `-s` the number of seeds is printed."""
    kill = hunt(mutant)
    assert kill is not None, f"no seed notices: {mutant.remove.__doc__}"
    with _without_hurry():
        for seed in {mutant.first, kill.seed}:
            mutant.check(seed)
    print(f"{mutant}: {kill.tried} seeds: {kill.said.splitlines()[0]}")  # noqa: T201 - shown with `-s`
