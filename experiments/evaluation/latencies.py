"""The latency of synchronising outputs over workers, synchronisation rate and heartbeat rate (Figure 10).

As in the paper every worker reads 10,000 values a second, and a barrier closes the window of all of them 1, 10 or 100 times a second: every
10,000, 1,000 or 100 values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgs.planner.drawing.chart import Line
from experiments.bench import latency
from experiments.bench.latency import SECOND, Shape
from experiments.evaluation.finding import Finding
from experiments.evaluation.scaling import hosts_of_ray

VALUES_A_SECOND = 10_000
PERCENTILES = (10, 50, 90)


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep. `workers`, `barriers` (a second), `heartbeats`: the values of each axis; `engine`: the runtime.

    `seconds`: the length of the run of a point, at least until two barriers after the start.
    """

    workers: Sequence[int] = (2, 5, 10, 20, 30)
    barriers: Sequence[int] = (1, 10, 100)
    heartbeats: Sequence[str] = ("1ms", "10ms", "100ms", "1s")
    seconds: float = 3.0
    engine: str = "ray"


QUICK = Sweep(workers=(2, 4), barriers=(100,), heartbeats=("10ms", "100ms"), seconds=1.0, engine="local")
OF_HEARTBEATS = (5, 10)
"""Workers, and barriers a second, in the sweep over heartbeats."""


def figure10(sweep: Sweep) -> Finding:
    """Measure the latency from when a barrier is due to its output, point by point."""
    with hosts_of_ray(latency.HOSTS if sweep.engine == "ray" else 0):
        rows = list(_points(sweep))
    columns = [
        "sweep",
        "workers",
        "barriers",
        "heartbeat",
        "outputs",
        "p10_ms",
        "p50_ms",
        "p90_ms",
        "problem",
    ]
    axes = {"x": "workers", "y": "median latency (ms)", "is_logarithmic": True}
    return Finding(
        "figure10",
        "Latency of synchronising (Figure 10)",
        columns,
        rows,
        list(_notes(rows)),
        list(_lines(rows)),
        axes,
    )


def _points(sweep: Sweep) -> Iterator[dict[str, Any]]:
    for barriers in sweep.barriers:
        for workers in sweep.workers:
            yield _point("workers", Shape(workers, "10ms", sweep.engine), barriers, sweep.seconds)
    workers, barriers = OF_HEARTBEATS
    for heartbeat in sweep.heartbeats:
        yield _point("heartbeats", Shape(workers, heartbeat, sweep.engine), barriers, sweep.seconds)


def _point(sweep: str, shape: Shape, barriers: int, seconds: float) -> dict[str, Any]:
    step = SECOND // VALUES_A_SECOND
    events = int((seconds + 1 / barriers) * VALUES_A_SECOND)
    done = latency.run(events, step, SECOND // barriers, linger="0", shape=shape)
    late = np.percentile(done["samples_ms"], PERCENTILES).tolist()
    return {
        "sweep": sweep,
        "workers": shape.streams,
        "barriers": barriers,
        "heartbeat": shape.heartbeat,
        "engine": done["engine"],
        "hosts": done["hosts"],
        "is_measured": True,
        "outputs": done["outputs"],
        **{f"p{percent}_ms": value for percent, value in zip(PERCENTILES, late, strict=True)},
        "problem": done["problem"],
    }


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    over_workers = [row for row in rows if row["sweep"] == "workers"]
    for barriers in dict.fromkeys(row["barriers"] for row in over_workers):
        points = [(row["workers"], row["p50_ms"]) for row in over_workers if row["barriers"] == barriers]
        yield Line(f"{barriers} barriers a second", points)
    for row in rows:
        if row["sweep"] == "heartbeats":
            yield Line(
                f"heartbeats every {row['heartbeat']}, {row['barriers']}/s", [(row["workers"], row["p50_ms"])]
            )


def _notes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for barriers in dict.fromkeys(row["barriers"] for row in rows):
        some = [row for row in rows if row["barriers"] == barriers and row["sweep"] == "workers"]
        if some:
            few, many = some[0], some[-1]
            yield (
                f"{barriers} barriers a second: median {few['p50_ms']:.2f} ms with {few['workers']} workers, "
                f"{many['p50_ms']:.2f} ms with {many['workers']}"
            )
    beats = [row for row in rows if row["sweep"] == "heartbeats"]
    said = ", ".join(f"{row['heartbeat']} {row['p50_ms']:.2f} ms" for row in beats)
    yield f"Median by the time between heartbeats: {said}"
    yield "In the paper latency grows with the number of workers, and beyond 22 workers the system cannot keep up with 100 barriers a second"
