"""Runs whose stdout is a pipe that is read late, or never: they commit, stop in time, and lose no line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from dgs.api.known_runs import KnownRun
from dgs.job.run_directory import RunDirectory
from tests.dgs.recovering import CHECKPOINT, PLAN, THERE, expected, write_data, write_project

COUNT = 6_000
PRINTING = PLAN.replace("{jsonl: {path: out}}", "stdout").replace("batch_rows: 4, ", "")
SMALL = ("--set", "runtime.buffer_bytes=20KB")
DGS = (sys.executable, "-m", "dgs")


@pytest.fixture
def printing(project):
    """Write a project that prints more than a pipe holds."""
    write_project(project, plan=PRINTING + CHECKPOINT)
    write_data(project, COUNT)
    (project / "slow").unlink()
    return project


@contextmanager
def unread(*arguments):
    """Start a command whose stdout nobody reads."""
    with subprocess.Popen([*DGS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(claim):
    deadline = time.monotonic() + 240
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def committed_epoch():
    committed = KnownRun(RunDirectory(THERE)).committed() if THERE.exists() else None
    return 0 if committed is None else committed.checkpoint.epoch


def lines_of(*texts):
    """Return the outputs in texts, sorted; the last line of a text may be torn."""
    lines = [line for text in texts for line in text[: text.rfind(b"\n") + 1].splitlines()]
    return sorted(map(json.loads, lines))


@pytest.mark.parametrize(
    ("options", "ends"), [(SMALL, signal.SIGTERM), ((), "dgs stop")], ids=["reads no more", "has read all"]
)
def test_run_whose_reader_stops_is_stopped_in_time_and_prints_the_rest_later(printing, options, ends):
    with unread("run", "plan.yaml", "--run-dir", str(THERE), *options) as process:
        wait_for(lambda: committed_epoch() > 0)
        if ends == "dgs stop":
            subprocess.run([*DGS, "stop", str(THERE)], check=True, capture_output=True, timeout=240)
        else:
            os.kill(process.pid, ends)
        process.wait(240)
        printed, told = process.communicate()
    assert (process.returncode, b"go on with: dgs resume there" in told) == (
        0 if ends == "dgs stop" else 143,
        True,
    )
    assert b"there/unprinted.jsonl, and `dgs resume` prints them first" in told
    again = subprocess.run([*DGS, "resume", str(THERE)], capture_output=True, check=True, timeout=240)
    assert lines_of(printed, again.stdout) == sorted(expected(COUNT))
    assert not (THERE / "unprinted.jsonl").exists()


def test_run_goes_on_when_its_reader_goes_on(printing):
    with unread("run", "plan.yaml", "--run-dir", str(THERE), *SMALL) as process:
        wait_for(lambda: committed_epoch() > 0)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        printed, _ = process.communicate(timeout=240)
    assert (process.returncode, lines_of(printed)) == (0, sorted(expected(COUNT)))
