"""The default plan against other plans: whether any plan is faster than the default.

The plans of a job are measured in turns, here and on two hosts; equal plans are measured once. The fastest of some repetitions counts,
since other load only makes runs slower. The seconds are CPU time: of this process, or of the busier of two hosts with the inner workers on
the other host, since it waits for them.
`gain`: over one worker; `of_loop`: the time of the default plan over that of a plain loop that reads the same streams, merges them and
calls `update`; `load`: of the machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dgs
from dgs.api import overrides
from dgs.api.predicting import predicted
from dgs.api.preparing import Prepared, from_program, prepare
from dgs.api.running import run_job
from dgs.bench.contestants import expected, measured_job, runtime, sequential_loop
from dgs.bench.measuring import Contestant, Expected, Measured, measured
from dgs.keyed import KeyedState
from dgs.planner.drawing.chart import Line
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import TYPICAL
from dgs.semantics.sequential import without_batches
from dgs.workers.runtime.job import Job
from experiments.bench.applications import application
from experiments.evaluation.finding import Finding
from experiments.evaluation.real_jobs import DATA, REAL
from experiments.evaluation.scaling import hosts_of_ray

DEFAULT, ONE, LOOP = "auto", "sequential", "loop"
READING = dgs.kind("reading", key=int)
RESET = dgs.kind("reset")
DEAR_LOOP = 600
"""Iterations of a Python loop that take over 5 us."""

HOPELESS = 4.0
"""Plans with a prediction this many times slower than the default are not measured: they may take minutes."""

PATIENCE = 2.0
"""Seconds after which a run is not repeated, since it cannot be the fastest."""

Data = tuple[dgs.Program, Mapping[str, Sequence[dgs.EventBatch]]]


class DearReadings(KeyedState):
    """Readings of independent keys; each takes over 5 us."""

    changes = (READING,)

    def update(self, state: dict[int, int], event: dgs.Event, emit: Any) -> dict[int, int]:  # noqa: ARG002
        """Mix a reading into the entry of its key."""
        key = event.tag.key
        state[key] = (state.get(key, 0) + sum(range(event.payload % 2 + DEAR_LOOP))) % 1_000_003
        return state


class ResetReadings(DearReadings):
    """The same, with rare events of another kind that emit all entries and reset them."""

    kinds = (READING, RESET)
    depends = dgs.Dependence(
        (READING, READING, dgs.SAME_KEY), (RESET, READING, dgs.ALWAYS), (RESET, RESET, dgs.ALWAYS)
    )

    def update(self, state: dict[int, int], event: dgs.Event, emit: Any) -> dict[int, int]:
        """Mix a reading into the entry of its key, or start again."""
        if event.tag.kind == RESET:
            emit(sorted(state.items()))
            return {}
        return super().update(state, event, emit)


@dataclass(frozen=True)
class Trials:
    """The extent of a comparison. `jobs`, `places`: by name, all jobs by default; `repetitions`: runs of each plan; `randoms`: random plans.

    `scalar`, `vectorised`, `dear`: the events of one stream for scalar programs, vectorised ones, and those with a dear update.
    """

    jobs: Sequence[str] = ()
    places: Sequence[str] = ("local", "ray")
    scalar: int = 40_000
    vectorised: int = 500_000
    dear: int = 30_000
    repetitions: int = 3
    randoms: int = 20


QUICK = Trials(("event-window", "dear keys"), ("local",), 5000, 5000, 300, repetitions=1, randoms=1)


def _application(name: str, *, is_vectorised: bool) -> Callable[[Trials], Data]:
    def data(trials: Trials) -> Data:
        app = application(name, events=trials.vectorised if is_vectorised else trials.scalar)
        return app.program if is_vectorised else without_batches(app.program), app.streams

    return data


def _readings(program: dgs.Program, *, resets: int) -> Callable[[Trials], Data]:
    """Return a job of four streams, each with two keys of its own, and of `resets` resets among them."""

    def data(trials: Trials) -> Data:
        ts, streams = np.arange(trials.dear), {}
        if resets:
            every = np.linspace(1, trials.dear, resets + 1, dtype=np.int64)[:-1]
            streams["resets"] = [dgs.EventBatch.of("resets", rank=0, tags=[RESET()], ts=every, payload=every)]
        for i in range(4):
            name, tags = f"readings-{i}", [READING(2 * i), READING(2 * i + 1)]
            batch = dgs.EventBatch.of(name, rank=len(streams), tags=tags, ts=ts, codes=ts % 2, payload=ts)
            streams[name] = [batch]
        return program, streams

    return data


MADE: Mapping[str, Callable[[Trials], Data]] = {
    "event-window": _application("event-window", is_vectorised=False),
    "event-window vectorised": _application("event-window", is_vectorised=True),
    "page-view": _application("page-view", is_vectorised=False),
    "page-view vectorised": _application("page-view", is_vectorised=True),
    "fraud": _application("fraud", is_vectorised=False),
    "fraud vectorised": _application("fraud", is_vectorised=True),
    "dear keys": _readings(DearReadings(), resets=0),
    "dear, rare resets": _readings(ResetReadings(), resets=10),
    "dear, frequent resets": _readings(ResetReadings(), resets=1000),
}
"""Jobs over made-up data."""


def _recorded(make: Callable[[], Data]) -> Callable[[Trials], Data]:
    return lambda _: make()


JOBS = {**MADE, **{name: _recorded(make) for name, make in REAL.items() if DATA.is_dir()}}


def choices(trials: Trials) -> Finding:
    """Measure the default plan of each job against sequential, greedy and random ones."""
    rows = []
    with hosts_of_ray(2 if "ray" in trials.places else 0):
        for job in trials.jobs or JOBS:
            program, streams = JOBS[job](trials)
            rows += [_row(job, place, program, streams, trials) for place in trials.places]
    return Finding(
        "choices",
        "The default plan beside the fastest of others",
        ["job", "place", "workers", "eps", "gain", "predicted_gain", "fastest", "slower", "of_loop", "load"],
        rows,
        notes=list(_notes(rows)),
        lines=[
            Line(
                place,
                [(i, row["slower"]) for i, row in enumerate(rows) if row["place"] == place and row["slower"]],
            )
            for place in trials.places
        ],
        axes={"x": "job", "y": "throughput of the fastest plan / of the default plan"},
    )


def _row(
    job: str, place: str, program: dgs.Program, streams: Mapping[str, Any], trials: Trials
) -> dict[str, Any]:
    """Return the throughput of the default plan, of one worker and of the fastest plan."""
    plans = dict(plans_at(place, program, streams, trials.randoms))
    default, known = plans[DEFAULT].plan, plans[DEFAULT].costs
    costs = TYPICAL if known is None else known.costs
    guessed = {name: predicted(one, costs).throughput for name, one in plans.items()}
    rivals = {
        name: one
        for name, one in plans.items()
        if guessed[name] * HOPELESS >= guessed[DEFAULT] or name == ONE
    }
    found, problem = _measured(rivals, place, trials)
    fastest = max(set(plans) & set(found), key=lambda name: (found[name], name == DEFAULT))
    return {
        "job": job,
        "place": place,
        "workers": len(default),
        "eps": found[DEFAULT],
        "gain": _ratio(found[DEFAULT], found[ONE]),
        "predicted_gain": guessed[DEFAULT] / guessed[ONE],
        "fastest": fastest,
        "slower": _ratio(found[fastest], found[DEFAULT]),
        "of_loop": _ratio(found[LOOP], found[DEFAULT]) if LOOP in found else None,
        "plans": {name: found.get(name) for name in plans},
        "because": default.because,
        "load": os.getloadavg()[0],
        "is_measured": True,
        "problem": problem,
    }


def _ratio(one: float, other: float) -> float | None:
    """Return the ratio of two throughputs, None if one of them is 0: all runs had a problem."""
    return one / other if one and other else None


def _measured(
    plans: Mapping[str, Prepared], place: str, trials: Trials
) -> tuple[dict[str, float], str | None]:
    """Return the most events per second of each plan, and the first problem. Equal plans are measured once."""
    same = distinct(plans, plans)
    expects = expected(plans[ONE])
    group = [contestant(plans[name], name, place, expects) for name in dict.fromkeys(same.values())]
    if place == "local":
        group.append(Contestant(LOOP, "loop", "scalar", expected=expects, run=lambda: _loop(plans[ONE])))
        same[LOOP] = LOOP
    samples = list(measured(group, repetitions=trials.repetitions, patience=PATIENCE))
    most = {name: max(one.eps for one in samples if one.app == name) for name in same.values()}
    problem = next((one.problem for one in samples if one.problem is not None), None)
    return {name: most[first] for name, first in same.items()}, problem


def contestant(prepared: Prepared, name: str, place: str, expects: Expected) -> Contestant:
    """Return the contestant for a plan. A first run compares the outputs; timed runs only count them."""
    hosts = 2 if place == "ray" else 1
    made = runtime(
        prepared, name, engine=place, hosts=hosts, mode="vectorised", expects=expects, collects=False
    )
    if place == "ray":
        return replace(made, run=lambda: _by_hosts(made.run(), prepared.plan))
    job = replace(measured_job(prepared, engine=place, hosts=hosts, mode="vectorised"), collect=False)
    return replace(made, run=lambda: _by_processor(job))


def _by_hosts(done: Measured, plan: Plan) -> Measured:
    """Return a measurement on several hosts, with the CPU seconds on the longest path.

    Hosts of leaves wait for inner workers, unless nothing has to wait for a fork.
    """
    hosts, busy = done.figures["cpu_seconds"], done.figures["busy_seconds"]
    total = {host: sum(seconds for at, seconds in busy.values() if at == host) for host in hosts}
    share = {host: min(1.0, cpu / total[host]) if total[host] else 0.0 for host, cpu in hosts.items()}
    inner = dict.fromkeys(hosts, 0.0)
    for node in plan.nodes():
        if node.children:
            host, seconds = busy[node.id]
            inner[host] += seconds * share[host]
    path = max(cpu + sum(inner.values()) - inner[host] for host, cpu in hosts.items())
    return replace(done, seconds=min(done.seconds, path))


def _by_processor(job: Job) -> Measured:
    """Run a job. The seconds are CPU time, without the start."""
    wall, work = time.perf_counter(), time.process_time()
    done = run_job(job).figures
    share = (time.process_time() - work) / (time.perf_counter() - wall)
    return Measured(done.events, done.seconds * min(1.0, share), None, done.outputs)


def _loop(prepared: Prepared) -> Measured:
    """Run the plain loop, measured in CPU time."""
    work = time.process_time()
    done = sequential_loop(prepared)
    return replace(
        done, seconds=time.process_time() - work, outputs=None, count=len((done.outputs or [[]])[0])
    )


def distinct(plans: Mapping[str, Prepared], names: Iterable[str]) -> dict[str, str]:
    """Return for each name the first one with an equal plan."""
    first: dict[str, str] = {}
    return {name: first.setdefault(json.dumps(plans[name].plan_data, default=str), name) for name in names}


def plans_at(
    place: str, program: dgs.Program, streams: Mapping[str, Any], randoms: int
) -> Iterator[tuple[str, Prepared]]:
    """Yield the plans that are compared at a place, by name."""
    section = {"kind": place, "hosts": 2} if place == "ray" else {"kind": place}
    optimizers: dict[str, dict[str, Any]] = {name: {"name": name} for name in (DEFAULT, ONE, "greedy")}
    optimizers |= {f"greedy {count}": {"name": "greedy", "max_leaves": count} for count in (2, 4, 8)}
    optimizers |= {f"random {seed}": {"name": "random", "seed": seed} for seed in range(randoms)}
    for name, optimizer in optimizers.items():
        given = overrides(runtime=section, optimizer=optimizer, plan=None, settings={"sinks": ["none"]})
        yield name, prepare(from_program(program, {**streams}, given))


def _notes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        if row["problem"]:
            yield f"{row['job']}, {row['place']}: {row['problem']}"
    for place in dict.fromkeys(row["place"] for row in rows):
        some = [row for row in rows if row["place"] == place and row["slower"]]
        if not some:
            continue
        worst = max(some, key=lambda row: row["slower"])
        near = sum(row["slower"] <= 1.1 for row in some)  # noqa: PLR2004 - a tenth is within the noise
        yield (
            f"{place}: the default plan is within 1.1 x of the fastest for {near} of {len(some)} jobs; "
            f"at most {worst['slower']:.2f} x slower ({worst['job']}, {worst['fastest']})"
        )
    loops = [(row["of_loop"], row["job"]) for row in rows if row["of_loop"] is not None]
    if loops:
        near = sum(ratio <= 1.3 for ratio, _ in loops)  # noqa: PLR2004 - the bound of the project
        yield (
            f"the default plan takes at most 1.3 x the plain loop for {near} of {len(loops)} jobs, "
            f"at most {max(loops)[0]:.2f} x ({max(loops)[1]})"
        )
