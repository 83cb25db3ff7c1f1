"""Throughput over nodes: measured on this machine, and predicted for others. A node is a host process with a core of its own.

All predictions come from `on_nodes`, which measures the costs of the program and asks the planner's model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dgs
from dgs.api import overrides
from dgs.api.predicting import costs_of, predictions
from dgs.api.preparing import Prepared, from_program, prepare
from dgs.bench.contestants import runtime
from dgs.bench.measuring import measured, medians
from dgs.planner.drawing.chart import Line
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import Costs
from dgs.semantics.sequential import without_batches
from experiments.bench.applications import Application, application
from experiments.evaluation.finding import Finding
from experiments.evaluation.published import NODES, PAPER

APPS = ("event-window", "page-view", "fraud")
NODES_TRIED = (1, 2, 4, 8, 12, 16, 20)
INTERPRETED = {"runtime.compile": "off"}
"""The setting of all runs here: the programs of the paper are interpreted, too. One worker folds these faster by machine code than many without."""


@dataclass(frozen=True)
class Size:
    """Dense streams of the predicted job, and the events of each.

    `here`: the dense streams of the measured job, since this machine has no use for more leaves; `repetitions`: its runs;
    `uses_ray`: measure host processes of Ray instead of this process.
    """

    streams: int = 20
    events: int = 30_000
    here: int = 4
    repetitions: int = 3
    uses_ray: bool = True


QUICK = Size(streams=4, repetitions=1, uses_ray=False)


@contextmanager
def hosts_of_ray(count: int) -> Iterator[None]:
    """Start Ray once for all runs, if there is a host to start."""
    if not count:
        yield
        return
    from dgs.workers.ray_runtime.cluster import cluster

    with cluster("local", count):
        yield


def scalar_job(app: Application, *, plan: Plan | None = None) -> Prepared:
    """Return the scalar program of an application with its data, under a plan if one is given."""
    return job(without_batches(app.program), app.streams, plan=plan)


def job(program: dgs.Program, streams: Mapping[str, Any], *, plan: Plan | None = None) -> Prepared:
    """Return a program with its data, under a plan, or without one to be planned for other machines."""
    given = overrides(runtime="ray", optimizer={"name": "sequential"}, plan=None, settings=INTERPRETED)
    return prepare(from_program(program, {**streams}, given), plan=plan)


def on_nodes(app: str, prepared: Prepared, nodes: Sequence[int], costs: Costs) -> list[dict[str, Any]]:
    """Return a row for each number of nodes, for a run without an end. The planner makes a plan for each, unless the job came with one."""
    endless = [replace(stream, events=math.inf) for stream in prepared.topology.streams]
    prepared = replace(prepared, topology=replace(prepared.topology, streams=endless))
    return [
        {
            "app": app,
            "nodes": one.hosts,
            "is_measured": False,
            "workers": one.workers,
            "eps": one.prediction.throughput,
            "bytes_between": one.prediction.bytes_between,
            "because": one.prediction.limit,
            "problem": None,
        }
        for one in predictions(prepared, nodes, costs)
    ]


def on_this_machine(name: str, size: Size) -> Iterator[dict[str, Any]]:
    """Yield the medians of the scalar program on one host process and, with Ray, on two."""
    app = application(name, events=size.events, streams=size.here)
    places = [("ray", 1), ("ray", 2)] if size.uses_ray else [("local", 1)]
    planned = {hosts: app.prepared(leaves=hosts, settings=INTERPRETED) for _, hosts in places}
    group = [
        runtime(planned[hosts], name, engine=engine, hosts=hosts, mode="scalar", expects=app.expected)
        for engine, hosts in places
    ]
    for row in medians(measured(group, repetitions=size.repetitions)):
        yield {
            "app": name,
            "nodes": row["hosts"],
            "is_measured": True,
            "workers": row["leaves"],
            "eps": row["eps"],
            "problem": row["problem"],
        }


def figure8(size: Size) -> Finding:
    """Measure and predict the maximum throughput of the three applications over 1 to 20 nodes (Figure 8)."""
    with hosts_of_ray(2 if size.uses_ray else 0):
        here = {name: list(on_this_machine(name, size)) for name in APPS}
    rows: list[dict[str, Any]] = []
    for name, known in here.items():
        prepared = scalar_job(application(name, events=size.events, streams=size.streams))
        guessed = on_nodes(name, prepared, NODES_TRIED, costs_of(prepared).costs)
        for group in (known, guessed):
            one = group[0]["eps"] or 1.0
            rows += [{**row, "scaling": row["eps"] / one} for row in group]
    return Finding(
        "figure8",
        "Maximum throughput over nodes (Figure 8)",
        ["app", "nodes", "is_measured", "workers", "eps", "scaling", "because"],
        rows,
        notes=list(_beside_the_paper(rows)),
        lines=list(_lines(rows)),
        axes={"x": "nodes", "y": "throughput / throughput on one node"},
    )


def _beside_the_paper(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name in APPS:
        ours = {(row["nodes"], row["is_measured"]): row for row in rows if row["app"] == name}
        theirs = next(one.scaling for one in PAPER if (one.app, one.system) == (name, "Flumina"))
        there = ours[NODES, False]
        said = f"{name}: {there['scaling']:.1f} x on {NODES} nodes by prediction, {theirs:g} x in the paper; {there['because']}"
        if (2, True) in ours:
            both = ours[2, True]["scaling"], ours[2, False]["scaling"]
            said += f". On two hosts {both[0]:.2f} x measured, {both[1]:.2f} x predicted"
        yield said


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for colour, name in enumerate(APPS):
        for is_measured in (True, False):
            points = [
                (row["nodes"], row["scaling"])
                for row in rows
                if row["app"] == name and row["is_measured"] == is_measured
            ]
            yield Line(f"{name}, {'measured' if is_measured else 'predicted'}", points, is_measured, colour)
    yield Line("as many times as nodes", [(1, 1), (max(NODES_TRIED), max(NODES_TRIED))], is_measured=False)
