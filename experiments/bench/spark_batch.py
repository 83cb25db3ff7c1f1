"""Batch on Spark alone beside the local runtime: windows over Parquet files, and a keyed join with one hot page.

    python -m experiments.bench.spark_batch --events 10000000

Each case runs on the local runtime and on Spark with one core and with two, each in a process of its own, after a short run that
starts the session and its Python processes. The table shows seconds of the best run, the ratio to the local runtime, and the peak
memory of the driver's Python process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from dgs.api.preparing import Launch, from_file, prepare
from dgs.api.running import run_job
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session

EXPERIMENTS = Path(__file__).parents[1]
LOCAL = "local"
ENGINES = (LOCAL, "local[1]", "local[2]")
GROUP = 500_000
"""Rows in a row group of the input."""
PAGES = 2
HOT = 0.9
"""The share of the views that are of one page."""


def main(
    events: Annotated[int, typer.Option(min=100_000, help="Events of the windows.")] = 10_000_000,
    views: Annotated[int, typer.Option(min=10_000, help="Views of the join.")] = 2_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each case; the best counts.")] = 3,
    case: Annotated[list[str] | None, typer.Option(help="1000, 70000 or join. Repeatable.")] = None,
) -> None:
    """Measure, and print a line for each case and engine."""
    cases = case or ["1000", "70000", "join"]
    print(
        f"{'case':>8} {'engine':>9} {'seconds':>8} {'x local':>8} {'x local[1]':>10} {'peak MiB':>9} correct"
    )
    with tempfile.TemporaryDirectory() as place:
        for name in cases:
            directory = Path(place) / name
            directory.mkdir()
            expected = joined(directory, views) if name == "join" else windows(directory, events, int(name))
            took: dict[str, float] = {}
            for engine in ENGINES:
                row = _apart(directory, engine, repeat)
                took[engine] = row["seconds"]
                ratios = [took["local"] / row["seconds"], took.get("local[1]", float("nan")) / row["seconds"]]
                print(
                    f"{name:>8} {engine:>9} {row['seconds']:8.2f} {ratios[0]:8.2f} {ratios[1]:10.2f} "
                    f"{row['peak_mib']:9,} {[row['outputs'], row['sum']] == expected}",
                    flush=True,
                )


def windows(directory: Path, events: int, count: int) -> list[int]:
    """Write values in `count` windows, and their plan; return the number of outputs and their sum."""
    payload = np.random.default_rng(1).integers(0, 1000, events)
    _write(directory / "values.parquet", ts=np.arange(events), payload=payload)
    ends = np.linspace(0, events, count + 1).astype(np.int64)[1:]
    _write(directory / "barriers.parquet", ts=ends, payload=np.arange(count))
    _plan(directory, "event_window", "EventWindow", barriers={"kind": "barrier"}, values={"kind": "value"})
    return [count, int(payload.sum())]


def joined(directory: Path, views: int) -> list[int]:
    """Write views of which most are of one page, and updates of the pages; return the number of outputs and the sum of visitors."""
    random = np.random.default_rng(1)
    page, visitor = (random.random(views) >= HOT).astype(np.int64), random.integers(0, 1_000_000, views)
    _write(directory / "views.parquet", ts=np.arange(views), page=page, payload=visitor)
    ts = np.repeat(np.arange(0, views, 10_000), PAGES)
    _write(
        directory / "updates.parquet",
        ts=ts,
        page=np.tile(np.arange(PAGES), len(ts) // PAGES),
        payload=np.arange(len(ts)),
    )
    tags = {kind: {"kind": kind, "key": {"column": "page"}} for kind in ("update", "view")}
    _plan(directory, "page_view_join", "PageViewJoin", updates=tags["update"], views=tags["view"])
    return [views + len(ts), int(visitor.sum())]


def measure(directory: Path, engine: str, repeat: int) -> dict[str, Any]:
    """Run the plan of a directory in this process; return the best seconds, the driver's peak memory and what came out."""
    prepared = prepare(from_file(directory / "plan.yaml", {}))
    spark = None if engine == LOCAL else SparkConfig(master=engine)
    best = float("inf")
    with nullcontext() if spark is None else session(spark, directory / "spark"):
        for run in range(repeat + 1):  # the first one starts what is to be started
            job = Launch(prepared, RunDirectory(directory / f"run-{engine}-{run}")).job
            if spark is not None:
                job = replace(job, spark=spark)
            kind = "local" if spark is None else "spark"
            job = replace(job, runtime=job.runtime.model_copy(update={"kind": kind}))
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak
            began = time.perf_counter()
            run_job(job)
            if run:
                best = min(best, time.perf_counter() - began)
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    tables = [pq.read_table(path) for path in sorted((directory / "out").glob("*.parquet"))]
    return {"seconds": best, "peak_mib": int(peak) // 1024, **_of(pa.concat_tables(tables))}


def show(directory: str, engine: str, repeat: int) -> None:
    """Print what is measured as JSON."""
    print(json.dumps(measure(Path(directory), engine, repeat)))


def _of(table: pa.Table) -> dict[str, int]:
    """Return the number of outputs, and the sum of what they are about."""
    name = "visitor" if "visitor" in table.column_names else table.column_names[-1]
    return {"outputs": table.num_rows, "sum": int(np.nansum(table.column(name).to_numpy()))}


def _apart(directory: Path, engine: str, repeat: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    code = f"from experiments.bench.spark_batch import show; show({str(directory)!r}, {engine!r}, {repeat})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _plan(directory: Path, folder: str, program: str, **streams: dict[str, Any]) -> None:
    declared = [
        {"id": name, "tags": tags, "source": {"parquet": {"path": f"{name}.parquet"}}, "payload": "payload"}
        for name, tags in streams.items()
    ]
    plan = {
        "version": 1,
        "name": "spark-batch",
        "program": {"ref": f"{EXPERIMENTS / folder / 'program.py'}:{program}"},
        "streams": declared,
        "sinks": [{"parquet": {"path": "out"}}],
    }
    (directory / "plan.yaml").write_text(json.dumps(plan))


def _write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)


if __name__ == "__main__":
    typer.run(main)
