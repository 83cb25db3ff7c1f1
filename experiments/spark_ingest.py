"""The bridge to Spark in figures: the time of ingestion beside that of Spark alone, its memory, and, with `--all`, all other promises.

    python -m experiments.spark_ingest --events 10000000 --events 100000000 --all

Parquet files go through Spark and an event log into windows of `event_window`, which are checked against NumPy. The time runs from
the start of the query to the last output, without the start of the session. Spark alone reads the same stream and writes Parquet, or
nothing (`noop`). Both know the columns, and run in turn in one session. The first query has a session of its own.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
from experiments.page_view_join import write_input

HERE = Path(__file__).parent
MAIN_JOB = HERE / "page_view_join"
TESTS = HERE.parent / "tests" / "spark_bridge"
WINDOW = 10_000
FILES = 10
BATCHES, BATCH_ROWS = 60, 100
AT_MOST_PARQUET, AT_MOST_NOOP, AT_MOST_FIRST = 1.5, 1.4, 8.0

OF_FAULTS = (
    "test_faults.py",
    "test_task_faults.py",
    "test_kills.py",
    "ingest/test_left_out.py",
    "ingest/test_changed_queries.py",
)
OF_SQL = ("data_source/test_run_tables.py", "tables/test_lost_checkpoints.py")
OTHERS = {
    "faults, by their tests": ["pytest", "-q", "-m", "not ray", *(str(TESTS / name) for name in OF_FAULTS)],
    "runs in SQL, by their tests": ["pytest", "-q", *(str(TESTS / name) for name in OF_SQL)],
    "flights on a cluster, to be verified": ["experiments.spark_cluster"],
    "flights in tables of lakes after kills, no differences": ["experiments.spark_lakes"],
    "batch, at least 0.5 x local, 1.6 x local[1]": [
        "experiments.bench.spark_batch",
        "--events",
        "10000000",
        "--events",
        "100000000",
    ],
}
"""The other promises about Spark, with the command that measures or tests each."""

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
    source: {{spark: {{format: parquet, path: values, columns: {{ts: BIGINT, payload: BIGINT}}, options: {options}}}}}
    payload: payload
runtime: {{kind: local}}
"""


@dataclass(frozen=True)
class Input:
    """Files of values and barriers in a directory, and the sums of the windows. `at_once`: files per micro-batch, 0 for all."""

    directory: Path
    sums: list[int]
    at_once: int = 0

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's reader."""
        return {"maxFilesPerTrigger": str(self.at_once)} if self.at_once else {}

    @property
    def prepared(self) -> Prepared:
        """The job."""
        plan = self.directory / "plan.yaml"
        plan.write_text(PLAN.format(program=HERE / "event_window" / "program.py", options=self.options))
        return prepare(from_file(plan, {}))

    def through_the_log(self, _spark: Any) -> float:
        """Run the job; return its seconds."""
        prepared = self.prepared
        job = Launch(prepared, RunDirectory.beside(self.directory), Options(collect=True)).job
        began = time.perf_counter()
        with feeding(job, prepared.config.spark):
            result = run_job(job)
        seconds = time.perf_counter() - began
        if result.stopped_by is not None:
            raise SystemExit(f"stopped by {result.stopped_by}")
        if [value for batch in result.outputs for value in batch.to_list()] != self.sums:
            raise SystemExit("the outputs are wrong")
        shutil.rmtree(self.directory / ".dgs")
        return seconds

    def alone(self, spark: Any, form: str) -> float:
        """Let Spark write the values in a form; return its seconds."""
        place = self.directory / "alone"
        began = time.perf_counter()
        rows = spark.readStream.schema("ts bigint, payload bigint").options(**self.options)
        writer = rows.parquet(str(self.directory / "values")).writeStream.format(form)
        writer = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
        writer.start(*([str(place / "out")] if form == "parquet" else [])).awaitTermination()
        seconds = time.perf_counter() - began
        shutil.rmtree(place)
        return seconds


def main(
    events: Annotated[list[int] | None, typer.Option(min=10_000, help="Events in all. Repeatable.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Pairs of runs.")] = 3,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Faults, SQL, a cluster, tables of lakes and batch as well: half an hour."
        ),
    ] = False,
) -> None:
    """Measure, and print a line for each figure: its name, its value, and its limit."""
    sizes = events or [10_000_000]
    with tempfile.TemporaryDirectory() as place:
        for size in sizes:
            data = _written(Path(place) / str(size), size, FILES)
            name = f"{size:,} events, to Parquet"
            _first(data, name)
            _warm(data, name, "parquet", AT_MOST_PARQUET, repeat)
            shutil.rmtree(data.directory)
        small = _written(Path(place) / "small", BATCHES * BATCH_ROWS, BATCHES, at_once=1)
        _warm(small, f"{BATCHES} micro-batches of {BATCH_ROWS}, to noop", "noop", AT_MOST_NOOP, repeat)
    if everything:
        _tell_main_job()
        for what, command in OTHERS.items():
            _tell_other(what, command)


@contextmanager
def _started(data: Input) -> Iterator[Any]:
    with session(data.prepared.config.spark, data.directory / "spark") as spark:
        spark.range(1).count()
        yield spark


def _first(data: Input, name: str) -> None:
    """Run each way as the first query of a session, and print the ratio."""
    with _started(data) as spark:
        ours = data.through_the_log(spark)
    with _started(data) as spark:
        _tell(f"{name}, first query", ours / data.alone(spark, "parquet"), AT_MOST_PARQUET)


def _warm(data: Input, name: str, form: str, most: float, repeat: int) -> None:
    """Run both ways in turn in one session; print the middle ratio, and the greatest memory of Spark and of this process."""
    with _started(data) as spark:
        data.alone(spark, form)
        data.through_the_log(spark)
        for process in _processes().values():
            Path(f"/proc/{process}/clear_refs").write_text("5")  # reset the peak
        ratios = [data.through_the_log(spark) / data.alone(spark, form) for _ in range(repeat)]
        _tell(name, statistics.median(ratios), most)
        for what, process in _processes().items():
            _tell(f"{name}, memory of {what} in MiB", _peak_mib(process))


def _processes() -> dict[str, int]:
    """Return the processes: this one, which has the workers, and Spark's Java."""
    found = {"driver and workers": os.getpid()}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                found["Spark"] = process.pid
    return found


def _peak_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _tell_main_job() -> None:
    """Run the main job in a folder of its own; print its seconds to the first committed outputs and to the end of the process."""
    with tempfile.TemporaryDirectory() as place:
        left = shutil.ignore_patterns("input", "tables", ".dgs")
        folder = Path(shutil.copytree(MAIN_JOB, Path(place) / "job", ignore=left))
        write_input.main(folder / "input")
        dgs, env = [sys.executable, "-m", "dgs"], {**os.environ, "XDG_CACHE_HOME": f"{place}/cache"}
        prepare_spark = [*dgs, "doctor", "--prepare-spark"]  # as `make run` does, once
        subprocess.run(prepare_spark, cwd=HERE.parent, env=env, capture_output=True, check=False)  # noqa: S603
        began, first = time.perf_counter(), None
        command = [*dgs, "run", str(folder / "plan_spark.yaml"), "--run-dir", f"{place}/run"]
        with (Path(place) / "said").open("w+") as said:
            process = subprocess.Popen(command, cwd=HERE.parent, env=env, stdout=said, stderr=said)  # noqa: S603
            while process.poll() is None:
                if first is None and any((folder / "tables" / "outputs").glob("[!_.]*.parquet")):
                    first = time.perf_counter() - began
                time.sleep(0.02)
            total = time.perf_counter() - began
            said.seek(0)
            last = _last(said.read())
    if process.returncode or first is None:
        print(f"{'the main job':58} NO: {last}", flush=True)
    else:
        _tell("the main job, seconds to the first outputs in the table", first, AT_MOST_FIRST)
        _tell("the main job, seconds in all", total)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def _tell_other(what: str, command: list[str]) -> None:
    """Run another measurement or tests; print what it says, line by line, of tests the last line. What it cannot run here says why."""
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)  # noqa: S603
    lines = done.stdout.splitlines()
    lines = lines[-1:] if "pytest" in command else lines
    if done.returncode:
        said = _last(done.stderr or done.stdout)
        lines.append(said if said.startswith("not run") else f"NO, exit code {done.returncode}: {said}")
    for line in lines:
        print(f"{what:58} {line}", flush=True)


def _tell(what: str, value: float, most: float | None = None) -> None:
    bound = "" if most is None else f"  at most {most}: {'yes' if value <= most else 'NO'}"
    print(f"{what:58} {value:8.2f}{bound}", flush=True)


def _written(directory: Path, events: int, files: int, *, at_once: int = 0) -> Input:
    """Write the input, file by file."""
    random = np.random.default_rng(1)
    ends = np.arange(WINDOW, events + WINDOW, WINDOW, dtype=np.int64)
    sums = np.zeros(len(ends), dtype=np.int64)
    (directory / "values").mkdir(parents=True)
    pq.write_table(pa.table({"ts": ends, "payload": np.arange(len(ends))}), directory / "barriers.parquet")
    for number in range(files):
        ts = np.arange(events * number // files, events * (number + 1) // files, dtype=np.int64)
        values = random.integers(0, 1000, len(ts))
        np.add.at(sums, ts // WINDOW, values)
        path = directory / "values" / f"{number:04d}.parquet"
        pq.write_table(pa.table({"ts": ts, "payload": values}), path)
        os.utime(path, (1_000_000 + number,) * 2)  # Spark orders files by these times
    return Input(directory, sums.tolist(), at_once)


if __name__ == "__main__":
    typer.run(main)
