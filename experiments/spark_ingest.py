"""The speed of Spark ingestion: Parquet files -> Spark -> event log -> windows of `event_window`, checked against NumPy.

    python -m experiments.spark_ingest --events 10000000

The time runs from the start of the query to the last output; the start of the session is measured separately. Memory is the
peak of this process, which runs the workers.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from dgs.api.preparing import Launch, Options, Prepared, from_file, prepare
from dgs.api.running import run_job
from dgs.job.run_directory import RunDirectory
from dgs.spark_bridge.ingest.ingest import feeding
from dgs.spark_bridge.session.session import session
from dgs.workers.runtime.job import JobResult

HERE = Path(__file__).parent
WINDOW = 10_000

PLAN = """
version: 1
name: spark-ingest
program: {{ref: "{program}:EventWindow"}}
streams:
  - id: barriers
    tags: {{kind: barrier}}
    source: {{parquet: {{path: barriers.parquet}}}}
    payload: payload
  - id: values
    tags: {{kind: value}}
    source: {{spark: {{format: parquet, path: values, options: {options}}}}}
    payload: payload
runtime: {{kind: local}}
"""


def main(
    events: Annotated[int, typer.Option(min=10_000, help="Events in all.")] = 10_000_000,
    files: Annotated[int, typer.Option(min=1, help="Parquet files.")] = 10,
    at_once: Annotated[int, typer.Option(min=0, help="Files per micro-batch; 0 for all.")] = 0,
    shuffled: Annotated[bool, typer.Option(help="Put the rows of each file in random order.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs.")] = 3,
) -> None:
    """Measure, and print one JSON object per run."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        expected = _written(directory, events, files, shuffled=shuffled)
        options = f"{{maxFilesPerTrigger: {at_once}}}" if at_once else "{}"
        plan = directory / "plan.yaml"
        plan.write_text(PLAN.format(program=HERE / "event_window" / "program.py", options=options))
        prepared = prepare(from_file(plan, {}))
        began = time.perf_counter()
        with session(prepared.config.spark, directory / "spark") as spark:
            spark.range(1).count()
            started = time.perf_counter() - began
            for _ in range(repeat):
                print(
                    json.dumps({"events": events, "session_s": round(started, 2), **_run(prepared, expected)})
                )


def _run(prepared: Prepared, expected: list[int]) -> dict[str, Any]:
    job = Launch(prepared, RunDirectory.beside(prepared.request.base_dir), Options(collect=True)).job
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak before the run
    began, cpu = time.perf_counter(), _cpu_seconds()
    with feeding(job, prepared.config.spark):
        result = run_job(job)
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2),
        "events_per_s": round(result.figures.events_in / seconds),
        "cpu_s": round(_cpu_seconds() - cpu, 2),
        "load": round(os.getloadavg()[0], 1),
        "equal": _outputs(result) == expected,
        "driver_peak_mib": _peak_mib(),
    }


def _outputs(result: JobResult) -> list[int]:
    return [value for batch in result.outputs for value in batch.to_list()]


def _written(directory: Path, events: int, files: int, *, shuffled: bool) -> list[int]:
    """Write the input and return the sums of its windows."""
    random = np.random.default_rng(1)
    values = random.integers(0, 1000, events)
    ts = np.arange(events, dtype=np.int64)
    ends = np.arange(WINDOW, events + WINDOW, WINDOW, dtype=np.int64)
    pq.write_table(pa.table({"ts": ends, "payload": np.arange(len(ends))}), directory / "barriers.parquet")
    (directory / "values").mkdir()
    for number, part in enumerate(np.array_split(np.arange(events), files)):
        rows = random.permutation(part) if shuffled else part
        path = directory / "values" / f"{number:04d}.parquet"
        pq.write_table(pa.table({"ts": ts[rows], "payload": values[rows]}), path)
        os.utime(path, (1_000_000 + number,) * 2)
    windows = np.add.reduceat(values, np.arange(0, events, WINDOW))
    return [int(value) for value in windows]


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process, its living descendants, and their children that have ended."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _peak_mib() -> int:
    """Return the largest memory of this process since the peak was cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    typer.run(main)
