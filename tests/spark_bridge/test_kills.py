"""Kills of hosts, drivers and the Java of a run that Spark feeds: outputs are those of a plain loop, each once.

The input comes in several micro-batches, so both sides are at work at the time of the kill.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.api.known_runs import committed_in
from dgs.workers.event_log.summary import streams
from experiments.crash.processes import family, is_any_alive

ROOT = Path(__file__).parents[2]
FILES, PER_FILE, WINDOW = 5, 120, 20
FALLS_AT = 3 * PER_FILE + 7

PROGRAM = '''\
"""Values one by one, and their sums between barriers; at a certain time the process falls, once."""
import os
import signal
import time
from pathlib import Path

import dgs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")
WAITS = Path(__file__).with_name("waits")


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def __init__(self, falls_at=None, waits_at=None):
        self.falls_at, self.waits_at = falls_at, waits_at

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            time.sleep(0.001)
            self.fall(event.ts)
            while self.waits_at is not None and event.ts >= self.waits_at and WAITS.exists():
                time.sleep(0.01)
            emit(["value", event.payload])
            return state + event.payload
        emit(["sum", state])
        return 0

    def fall(self, ts):
        if self.falls_at is not None and ts >= self.falls_at:
            try:
                Path(__file__).with_name("fallen").touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right
'''

PLAN = """\
version: 1
name: killed
time: {{unit: ms}}
program: {{ref: "program.py:Sums", args: {args}}}
streams:
  - id: barriers
    tags: {{kind: barrier}}
    source:
      spark: {{query: all, key: stream, format: parquet, path: in, options: {{maxFilesPerTrigger: 1}}}}
  - id: left
    tags: {{kind: value}}
    source: {{spark: {{query: all}}}}
    payload: v
    rate: 1000/s
  - id: right
    tags: {{kind: value}}
    source: {{spark: {{query: all}}}}
    payload: v
    rate: 1000/s
optimizer: {{max_leaves: 2, name: greedy}}
runtime: {{kind: {runtime}, batch_rows: 4}}
checkpoint: {{every: 50ms}}
sinks: [{{jsonl: {{path: out}}}}]
"""

VALUES = range(FILES * PER_FILE)


def write_project(folder, *, runtime, args):
    (folder / "program.py").write_text(PROGRAM)
    (folder / "plan.yaml").write_text(PLAN.format(runtime=runtime, args=json.dumps(args)))
    (folder / "in").mkdir()
    for number in range(FILES):
        times = VALUES[number * PER_FILE : (number + 1) * PER_FILE]
        rows = [("left", ts, ts) for ts in times] + [("right", ts, 1000 * ts) for ts in times]
        rows += [("barriers", ts, 0) for ts in times if ts % WINDOW == 0]
        names = ("stream", "ts", "v")
        columns = dict(zip(names, map(list, zip(*reversed(rows), strict=True)), strict=True))
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_000_000 + number,) * 2)  # Spark orders files by these times


def expected():
    """The outputs by a loop. At equal times the barrier comes first."""
    total, found = 0, Counter()
    for ts in VALUES:
        if ts % WINDOW == 0:
            found[json.dumps(["sum", total])] += 1
            total = 0
        found[json.dumps(["value", ts])] += 1
        found[json.dumps(["value", 1000 * ts])] += 1
        total += 1001 * ts
    return found


def committed(folder):
    files = sorted(path for path in (folder / "out").iterdir() if not path.name.startswith("."))
    assert {file.suffix for file in files} == {".jsonl"}
    return Counter(json.dumps(json.loads(line)) for file in files for line in file.read_text().splitlines())


def rows_in_log(run_dir):
    """Return how many rows the log has had, with deleted rows."""
    return {
        found.stream: found.rows for found in streams(run_dir / "logs") if found.stream in ("left", "right")
    }


@pytest.mark.ray
@pytest.mark.slow
def test_killed_host_of_a_run_over_spark_loses_no_output(spark, ray_cluster, tmp_path):
    write_project(tmp_path, runtime="ray, hosts: 2", args={"falls_at": FALLS_AT})
    run = dgs.run(tmp_path / "plan.yaml", run_dir=tmp_path / "run")
    assert (tmp_path / "fallen").exists()
    assert run.report["restarts"] == 1
    assert committed(tmp_path) == expected()
    assert rows_in_log(tmp_path / "run") == {"left": len(VALUES), "right": len(VALUES)}


def started(folder, *arguments):
    command = [sys.executable, "-m", "dgs", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )


def events_in(run_dir):
    found = committed_in(run_dir / "checkpoints") if (run_dir / "checkpoints").exists() else None
    return 0 if found is None else found.checkpoint.events


def waited_for(condition, process=None):
    patience = time.monotonic() + 300
    while not condition():
        assert process is None or process.poll() is None, process.stderr.read()
        assert time.monotonic() < patience
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_driver_takes_its_spark_with_it_and_the_run_resumes(spark, tmp_path):
    write_project(tmp_path, runtime="local", args={"waits_at": FALLS_AT})
    waits = tmp_path / "waits"
    waits.touch()  # the run is killed before its end
    run_dir = tmp_path / "there"
    process = started(tmp_path, "run", "plan.yaml", "--run-dir", "there")
    waited_for(lambda: events_in(run_dir) > 0, process)
    others = family(process.pid)
    process.kill()
    process.communicate()
    waits.unlink()
    before = events_in(run_dir)
    assert 0 < before < 2 * len(VALUES)
    waited_for(lambda: not is_any_alive(others))
    process = started(tmp_path, "resume", "there")
    _, told = process.communicate(timeout=600)
    assert process.returncode == 0, told
    assert committed(tmp_path) == expected()
    assert rows_in_log(run_dir) == {"left": len(VALUES), "right": len(VALUES)}


def java_of(process):
    return [child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "java"]


@pytest.mark.slow
def test_killed_java_ends_the_run_in_the_middle_of_a_batch_and_it_resumes(spark, tmp_path):
    write_project(tmp_path, runtime="local", args={"waits_at": FALLS_AT})
    waits = tmp_path / "waits"
    waits.touch()
    logs = tmp_path / "there" / "logs"
    process = started(tmp_path, "run", "plan.yaml", "--run-dir", "there")
    waited_for(lambda: list((logs / "left").glob("0*/*.dgs")), process)
    waited_for(lambda: list(logs.glob(".staged/*/batch-*/_temporary")), process)
    [java] = java_of(process)
    java.kill()
    waits.unlink()
    _, told = process.communicate(timeout=600)
    assert process.returncode == 5
    assert "its Java process is gone" in told
    process = started(tmp_path, "resume", "there")
    _, told = process.communicate(timeout=600)
    assert process.returncode == 0, told
    assert committed(tmp_path) == expected()
    assert rows_in_log(tmp_path / "there") == {"left": len(VALUES), "right": len(VALUES)}
