"""The cost of checkpoints: runs with and without them, alternating, and the time of the driver in commits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table as Lines

from dgs.api.preparing import Launch, from_file, prepare
from dgs.api.running import run_job
from dgs.workers.ray_runtime.cluster import cluster
from dgs.workers.runtime.job import Job
from experiments.crash.jobs import generated

SIZES = {"8 KB": 1_000, "10 MB": 1_250_000}
EVENTS = 8_000_000
WINDOW = 1_000_000


def report(console: Console, *, repeat: int, json_file: Path | None) -> None:
    """Measure, and print the medians."""
    with tempfile.TemporaryDirectory() as place, cluster("local", 2):
        samples = list(_samples(Path(place), repeat))
    lines = Lines(
        "state", "seconds without", "with", "more", "commits", "in commits", title="a checkpoint per second"
    )
    for size in SIZES:
        mine = [sample for sample in samples if sample["state"] == size]
        without, with_ = (median(s["seconds"] for s in mine if s["with"] is kind) for kind in (False, True))
        done = [sample for sample in mine if sample["with"]]
        share = median(sample["committing"] / sample["seconds"] for sample in done)
        count = median(sample["committed"] for sample in done)
        lines.add_row(
            size,
            f"{without:.2f}",
            f"{with_:.2f}",
            f"{with_ / without - 1:+.1%}",
            f"{count:g}",
            f"{share:.1%}",
        )
    console.print(lines)
    if json_file is not None:
        json_file.write_text(json.dumps(samples, indent=1), encoding="utf-8")


def _samples(place: Path, repeat: int) -> Iterator[dict[str, Any]]:
    jobs = {size: _job(place / str(rows), rows) for size, rows in SIZES.items()}
    for number in range(repeat):
        for size, job in jobs.items():
            for is_with in (number % 2 == 0, number % 2 == 1):
                where = place / f"run-{size}-{number}-{is_with}"
                chosen = replace(job, checkpoint_dir=where) if is_with else replace(job, checkpoint=None)
                figures = run_job(chosen).figures
                done = figures.checkpoints
                yield {
                    "state": size,
                    "with": is_with,
                    "seconds": figures.seconds,
                    "committing": done.seconds if is_with else 0.0,
                    "committed": done.committed,
                    "bytes": done.state_bytes,
                }


def _job(directory: Path, rows: int) -> Job:
    plan = generated(
        directory,
        events=EVENTS,
        window=WINDOW,
        program="Table",
        args={"size": rows, "rounds": 20 if rows < WINDOW else 8},
        runtime={"kind": "ray", "hosts": 2},
        optimizer={"name": "greedy", "max_leaves": 3},
        checkpoint={"every": "1s"},
        sinks=["none"],
    )
    return Launch(prepare(from_file(plan, {}))).job
