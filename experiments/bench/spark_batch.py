"""Batch on Spark alone beside the local runtime: windows over Parquet files, and a keyed join with one hot page.

    python -m experiments.bench.spark_batch --events 10000000 --events 100000000

Each case runs on the local runtime and on Spark with one core and with two, each in a process of its own, after a short run that
starts the session and its Python processes. The table shows seconds of the best run, the ratio to the local runtime and to Spark on one
core, and the peak memory of the driver's Python process. `plain` is what a second core can bring here at most: the values summed by
`mapInArrow` in a query of Spark, without dgs. In the case `scalar`, `update` is called for every event.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
from dgs.job.settings import Given
from dgs.spark_bridge.session.session import session

EXPERIMENTS = Path(__file__).parents[1]
LOCAL, PLAIN = "local", "plain"
MASTERS = ("local[1]", "local[2]")
GROUP = 500_000
"""Rows in a row group of the input."""
PAGES = 2
HOT = 0.9
"""The share of the views that are of one page."""
SCALAR = """
import dgs
from experiments.event_window.program import EventWindow

class Scalar(EventWindow):
    update_batch, update_windows = dgs.Program.update_batch, dgs.Program.update_windows
"""


def main(
    events: Annotated[
        list[int] | None, typer.Option(min=100_000, help="Events of the windows. Repeatable.")
    ] = None,
    views: Annotated[int, typer.Option(min=10_000, help="Views of the join.")] = 2_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each case; the best counts.")] = 3,
    case: Annotated[list[str] | None, typer.Option(help="1000, 70000, scalar or join. Repeatable.")] = None,
) -> None:
    """Measure, and print a line for each case and engine."""
    print(
        f"{'case':>18} {'engine':>14} {'seconds':>8} {'x local':>8} {'x local[1]':>10} {'peak MiB':>9} correct"
    )
    for name in case or ["1000", "70000", "scalar", "join"]:
        for size in [views] if name == "join" else events or [10_000_000]:
            with tempfile.TemporaryDirectory() as place:
                _measure_all(Path(place), name, size, repeat)


def _measure_all(directory: Path, case: str, size: int, repeat: int) -> None:
    """Write the input of a case and run it on all engines."""
    expected = _inputs(directory, case, size)
    plain = [f"{PLAIN} {master}" for master in MASTERS if case.isdigit()]
    took: dict[str, float] = {}
    for engine in (LOCAL, *MASTERS, *plain):
        row = _apart(directory, engine, repeat)
        took[engine] = row["seconds"]
        kind = engine.removesuffix(MASTERS[0]).removesuffix(MASTERS[1])
        one = took.get(f"{kind}{MASTERS[0]}", float("nan"))
        print(
            f"{f'{case} {size:,}':>18} {engine:>14} {row['seconds']:8.2f} {took[LOCAL] / row['seconds']:8.2f} "
            f"{one / row['seconds']:10.2f} {row['peak_mib']:9,} {[row['outputs'], row['sum']] == expected}",
            flush=True,
        )


def _inputs(directory: Path, case: str, size: int) -> list[int]:
    if case == "join":
        return joined(directory, size)
    if case == "scalar":
        (directory / "program.py").write_text(SCALAR)
        return windows(directory, size, 1000, program="program.py:Scalar", compile="off")
    return windows(directory, size, int(case))


def windows(directory: Path, events: int, count: int, *, program: str = "", **runtime: str) -> list[int]:
    """Write values in `count` windows, and their plan; return the number of outputs and their sum."""
    random, total = np.random.default_rng(1), 0
    schema = pa.schema({"ts": pa.int64(), "payload": pa.int64()})
    with pq.ParquetWriter(directory / "values.parquet", schema) as writer:
        for start in range(0, events, GROUP):
            ts = np.arange(start, min(start + GROUP, events))
            payload = random.integers(0, 1000, len(ts))
            total += int(payload.sum())
            writer.write_table(pa.table({"ts": ts, "payload": payload}, schema))
    ends = np.linspace(0, events, count + 1).astype(np.int64)[1:]
    _write(directory / "barriers.parquet", ts=ends, payload=np.arange(count))
    program = program or f"{EXPERIMENTS / 'event_window' / 'program.py'}:EventWindow"
    _plan(directory, program, {"barriers": {"kind": "barrier"}, "values": {"kind": "value"}}, **runtime)
    return [count, total]


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
    program = f"{EXPERIMENTS / 'page_view_join' / 'program.py'}:PageViewJoin"
    _plan(directory, program, {"updates": tags["update"], "views": tags["view"]})
    return [views + len(ts), int(visitor.sum())]


def measure(directory: Path, engine: str, repeat: int) -> dict[str, Any]:
    """Run the plan of a directory in this process; return the best seconds, the driver's peak memory and the result."""
    if engine.startswith(PLAIN):
        return _plain(directory, engine.split()[1], repeat)
    spark = None if engine == LOCAL else SparkConfig(master=engine)
    kind = LOCAL if spark is None else "spark"
    prepared = prepare(from_file(directory / "plan.yaml", {"runtime.kind": Given(kind, "the bench")}))
    best = float("inf")
    with nullcontext() if spark is None else session(spark, directory / "spark"):
        for run in range(repeat + 1):  # the first run starts the session and its processes
            job = Launch(prepared, RunDirectory(directory / f"run-{engine}-{run}")).job
            if spark is not None:
                job = replace(job, spark=spark)
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak
            began = time.perf_counter()
            run_job(job)
            if run:
                best = min(best, time.perf_counter() - began)
    tables = [pq.read_table(path) for path in sorted((directory / "out").glob("*.parquet"))]
    return {"seconds": best, "peak_mib": _peak_mib(), **_of(pa.concat_tables(tables))}


def _plain(directory: Path, master: str, repeat: int) -> dict[str, Any]:
    """Let a query of Spark sum the values in `mapInArrow`."""
    best, total = float("inf"), 0
    with session(SparkConfig(master=master), directory / "spark") as spark:
        for run in range(repeat + 1):
            began = time.perf_counter()
            rows = spark.read.parquet(str(directory / "values.parquet")).mapInArrow(_sums, "sum bigint")
            total = sum(row[0] for row in rows.collect())
            if run:
                best = min(best, time.perf_counter() - began)
    windows = pq.read_metadata(directory / "barriers.parquet").num_rows
    return {"seconds": best, "peak_mib": _peak_mib(), "outputs": windows, "sum": total}


def _sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"sum": [int(batch.column("payload").to_numpy().sum())]})


def _peak_mib() -> int:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024


def show(directory: str, engine: str, repeat: int) -> None:
    """Print the measurement as JSON."""
    print(json.dumps(measure(Path(directory), engine, repeat)))


def _of(table: pa.Table) -> dict[str, int]:
    """Return the number of outputs, and the sum of their values."""
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


def _plan(directory: Path, program: str, streams: dict[str, dict[str, Any]], **runtime: str) -> None:
    declared = [
        {"id": name, "tags": tags, "source": {"parquet": {"path": f"{name}.parquet"}}, "payload": "payload"}
        for name, tags in streams.items()
    ]
    plan = {
        "version": 1,
        "name": "spark-batch",
        "program": {"ref": program},
        "streams": declared,
        "sinks": [{"parquet": {"path": "out"}}],
        "runtime": runtime,
    }
    (directory / "plan.yaml").write_text(json.dumps(plan))


def _write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)


if __name__ == "__main__":
    typer.run(main)
