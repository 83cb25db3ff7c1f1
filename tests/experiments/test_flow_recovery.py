"""Query IV of Yahoo has its 980 rows once: after kills of hosts, under another plan in flight, stopped and resumed elsewhere, and on Spark."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from experiments.crash.jobs import in_table
from experiments.crash.killing import Victim, finish, kill_hosts
from tests.dgs.flow.published import CASES, HAS_CASES
from tests.experiments.flow_cases import ran

pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]

SLOW = """\
import time
from dgs.flow import every, flow, sliding
from dgs.monoids import COUNT
from experiments.yahoo.ads import views

def waits(_, event):
    time.sleep(0.004)
    return True

@flow(clock=every("1s"))
def campaigns(events):
    counts = views(events.filter(waits)).aggregate(COUNT, over=sliding("10s"), idle="all")
    return counts.each(lambda campaign, n, at: [at, campaign, n])
"""


def plan(directory: Path, runtime: str) -> Path:
    """Write the plan of a slow run, with commits all the time and a table of SQLite, of which every row is there at once."""
    (directory / "slow.py").write_text(SLOW)
    source = {"csv": {"path": str(CASES / "yahoo_events.csv")}}
    data = {
        "version": 1,
        "name": "slow",
        "time": {"unit": "ms"},
        "flow": {"ref": "slow.py:campaigns"},
        "streams": [{"id": "events", "source": source, "split": 2}],
        "runtime": {"kind": runtime, "batch_rows": 50, "restarts": {"max": 1000, "backoff": "1ms"}},
        "optimizer": {"name": "greedy"},
        "checkpoint": {"every": "200ms"},
        "sinks": [{"sqlite": {"path": "out.db"}}],
    }
    if runtime == "ray":
        data["runtime"]["hosts"] = 2
    path = directory / "plan.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def rows() -> Counter[str]:
    text = (CASES / "yahoo_4_all.expected.jsonl").read_text()
    return Counter(json.dumps(json.loads(line)) for line in text.splitlines())


@pytest.mark.ray
def test_kills_of_hosts_keep_each_row_once(tmp_path: Path) -> None:
    victim = Victim(plan(tmp_path, "ray"), tmp_path / "run")
    try:
        outcome = finish(victim, kill_hosts(victim, 3, random.Random(5), longest=2.0, waits=True))
    finally:
        victim.process.kill()
    assert outcome.kills
    assert in_table(tmp_path / "out.db") == rows()


@pytest.mark.ray
@pytest.mark.parametrize("runtime", ["local", "ray"])
def test_a_moved_and_stopped_run_goes_on_under_another_plan_and_elsewhere(
    tmp_path: Path, runtime: str
) -> None:
    path, run = plan(tmp_path, runtime), tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-m", "dgs", "run", str(path), "--run-dir", str(run)])
    try:
        wait_for_commit(run, process)
        dgs("replan", str(run), "--optimizer", "random")
        wait_for_commit(run, process)
        dgs("stop", str(run))
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert in_table(tmp_path / "out.db").total() < rows().total()
    other = ("ray", "--hosts", "2") if runtime == "local" else ("local",)
    dgs("resume", str(run), "--runtime", *other, "--optimizer", "random", "--set", "streams.events.split=3")
    assert in_table(tmp_path / "out.db") == rows()


def dgs(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dgs", *arguments], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr


def wait_for_commit(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the run has committed again."""
    record = run / "checkpoints" / "record-a.dgs"
    before = record.stat().st_mtime_ns if record.exists() else 0
    until = time.monotonic() + 240
    while not record.exists() or record.stat().st_mtime_ns == before:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


def test_spark_gives_the_rows(tmp_path: Path) -> None:
    ran("yahoo_4_all", tmp_path, runtime="spark")
