"""Predictions beside measurements: the throughput of many plans, by the model and in a run.

The seconds are CPU time, so other load does not count; on two hosts they are those of the longest path of work. All jobs run in rounds, and
the median run of a plan counts: a core that is slow for some minutes is slow in one round only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import median
from typing import Any

import numpy as np

from dgs.api.predicting import costs_of, predicted
from dgs.api.preparing import Prepared
from dgs.api.running import run_job
from dgs.bench.contestants import measured_job
from dgs.bench.fingerprint import Fingerprint
from dgs.bench.measuring import Contestant, Expected, Measured, measured
from dgs.planner.drawing.chart import Line
from dgs.workers.protocol.folding.to_compile import load_compiler
from experiments.evaluation.choices import (
    HOPELESS,
    JOBS,
    MADE,
    ONE,
    Trials,
    contestant,
    distinct,
    plans_at,
)
from experiments.evaluation.finding import Finding
from experiments.evaluation.scaling import hosts_of_ray

CLEAR = 1.5
"""Plans that differ by more than this factor must be ranked as they are measured."""

PLANS = {"local": ("greedy", "random 0", "random 1"), "ray": ("auto", "greedy", "greedy 8")}
"""The plans that are measured beside one worker."""


@dataclass(frozen=True)
class Pair:
    """One plan of one job at one place, with its events per second as measured and as predicted."""

    job: str
    place: str
    plan: str
    workers: int
    measured: float
    predicted: float
    problem: str | None

    @property
    def error(self) -> float:
        """The difference over the measurement."""
        return abs(self.predicted - self.measured) / self.measured

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of a finding."""
        more = {"error": self.error, "ratio": self.predicted / self.measured, "is_measured": True}
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, **more}


FULL = Trials(scalar=2_000_000, vectorised=2_000_000, dear=60_000, randoms=2)
"""As many events as fit into Ray's shared memory. Ray writes more events to the disk, which no prediction includes."""

QUICK = Trials(("event-window", "dear keys"), ("local",), 5000, 5000, 300, repetitions=1, randoms=2)


def predictions(trials: Trials) -> Finding:
    """Measure plans of each job, and predict their throughput."""
    found: dict[tuple[str, ...], list[Pair]] = {}
    load_compiler()  # all runs in this process are warm, and their predictions know it
    with hosts_of_ray(2 if "ray" in trials.places else 0):
        for _, job in product(range(trials.repetitions), trials.jobs or MADE):
            for key, pair in _pairs(job, trials):
                found.setdefault(key, []).append(pair)
    pairs = sorted(map(_in_the_middle, found.values()), key=lambda pair: list(JOBS).index(pair.job))
    return Finding(
        "predictions",
        "Throughput as predicted and as measured",
        ["job", "place", "plan", "workers", "measured", "predicted", "ratio"],
        [pair.row() for pair in pairs],
        notes=list(_notes(pairs)),
        lines=[
            Line(
                place,
                [(i, pair.predicted / pair.measured) for i, pair in enumerate(pairs) if pair.place == place],
            )
            for place in trials.places
        ],
        axes={"x": "pair of a job and a plan", "y": "predicted / measured"},
    )


def _in_the_middle(rounds: Sequence[Pair]) -> Pair:
    """Return the pair of the last round, whose prediction has most trials, with the median throughput of all rounds and their first problem."""
    problem = next((one.problem for one in rounds if one.problem is not None), None)
    return replace(rounds[-1], measured=median(one.measured for one in rounds), problem=problem)


def _pairs(job: str, trials: Trials) -> Iterator[tuple[tuple[str, ...], Pair]]:
    """Measure each plan of a job once; yield the pairs by job, place and plan."""
    program, streams = JOBS[job](trials)
    for place in trials.places:
        plans = dict(plans_at(place, program, streams, trials.randoms))
        plans = {name: plans[name] for name in distinct(plans, [ONE, *PLANS[place]]).values()}
        costs = costs_of(plans[ONE]).costs
        guessed = {name: predicted(plan, costs).throughput for name, plan in plans.items()}
        fast = {
            name: plan for name, plan in plans.items() if guessed[name] * HOPELESS**2 >= max(guessed.values())
        }
        found, problem = _measured(fast, place)
        for name, eps in found.items():
            key = job, place, json.dumps(plans[name].plan_data, default=str)
            yield key, Pair(job, place, name, len(plans[name].plan), eps, guessed[name], problem)


def _measured(plans: Mapping[str, Prepared], place: str) -> tuple[dict[str, float], str | None]:
    """Return the events per second of each plan in one run, and the first problem."""
    expects = _counted(plans[ONE])
    group = [_uncompared(contestant(one, name, place, expects)) for name, one in plans.items()]
    samples = list(measured(group, repetitions=1))
    problem = next((one.problem for one in samples if one.problem is not None), None)
    return {one.app: one.eps for one in samples}, problem


def _uncompared(made: Contestant) -> Contestant:
    """Return a contestant whose outputs are only counted, with a first run that compiles its loops and is not timed."""

    def run() -> Measured:
        return replace(made.run(), outputs=None)

    return replace(made, run=run, check=run)


def _counted(one: Prepared) -> Expected:
    """Return the number of outputs of one worker here, since a loop over single events would take minutes."""
    done = run_job(measured_job(one, engine="local", hosts=1, mode="vectorised")).figures
    return Expected(Fingerprint(done.outputs), done.events)


def _notes(pairs: Sequence[Pair]) -> Iterator[str]:
    errors = [pair.error for pair in pairs]
    middle, most = np.percentile(errors, [50, 90]).tolist()
    yield f"{len(pairs)} pairs: median error {middle:.0%}, 90 % of them within {most:.0%}"
    clear = [
        (a, b)
        for a, b in combinations(pairs, 2)
        if (a.job, a.place) == (b.job, b.place)
        and max(a.measured, b.measured) > CLEAR * min(a.measured, b.measured)
    ]
    right = sum((a.measured > b.measured) == (a.predicted > b.predicted) for a, b in clear)
    yield f"{right} of {len(clear)} pairs of plans that differ by more than {CLEAR} x are ranked as measured"
