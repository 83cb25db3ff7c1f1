"""Runs stopped by a signal or `dgs stop`, or moved to another plan: commits, messages and kept files."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

import dgs as library
from dgs.api.known_runs import runs_in
from dgs.errors import NoAnswerError, NoSuchRunError
from dgs.job.document import read
from dgs.job.run_directory import RunDirectory
from dgs.workers.event_log import LogWriter
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime.control import post
from dgs.workers.sinks.files.owned import list_outputs
from tests.dgs.recovering import (
    CHECKPOINT,
    EARLY,
    PLAN,
    QUICK,
    THERE,
    WINDOW,
    committed,
    expected,
    hasten,
    let_wait,
    meanwhile,
    write_project,
)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("section", ["", CHECKPOINT])
def test_signal_stops_at_a_checkpoint_and_the_run_can_be_resumed(project, dgs, number, code, section):
    write_project(project, plan=PLAN + section, waits_at=[EARLY])
    with meanwhile(THERE, lambda: os.kill(os.getpid(), number)):
        done = dgs("run plan.yaml --run-dir there")
    results = RunDirectory(THERE).results()
    assert (done.code, done.out) == (code, "")
    who = {129: "the end of its terminal", 130: "Ctrl-C", 143: "a termination signal"}[code]
    events, epoch = results["events_in"], results["epoch"]
    assert done.err == (
        f"dgs: sums was stopped by {who}; {events} events in epoch {epoch} are committed; outputs in out; "
        "go on with: dgs resume there\n"
    )
    assert (results["status"], results["stopped_at"]) == ("stopped", epoch)
    assert len(committed(project / "out")) == results["events_in"] > 0  # one output each
    assert not list((project / "out").glob("*.partial"))
    assert dgs(f"resume there --verify {QUICK}").code == 0
    assert committed(project / "out") == expected()


def test_stop_waits_for_the_only_run_that_is_alive(slow, dgs, capfd):
    place = Path(".dgs/runs/one")
    with meanwhile(place, lambda: library.stop(place)) as told:
        done = dgs(f"run plan.yaml --run-dir {place} --json")
    assert (done.code, json.loads(done.out)["stopped_by"]) == (0, "dgs stop")
    (results,) = told
    assert results == RunDirectory(place).results()
    assert results["status"] == "stopped"


def test_stop_of_a_run_that_has_ended_says_so(slow, dgs):
    dgs(f"run plan.yaml --run-dir there {QUICK}")
    done = dgs("stop there")
    assert (done.code, done.err) == (0, "dgs: sums was done already; the run is in there\n")
    report = json.loads(dgs("stop there --json").out)
    assert (report["was_running"], report["status"]) == (False, "done")


def test_stop_without_a_run_is_a_usage_error(slow, dgs):
    done = dgs("stop")
    assert (done.code, done.out) == (2, "")
    assert "no run is alive here" in done.err
    assert dgs("stop plan.yaml").code == 2


def test_stop_gives_up_waiting_with_advice(slow, dgs):
    with meanwhile(THERE, lambda: library.stop(THERE, timeout=0)) as told:
        assert dgs("run plan.yaml --run-dir there").code == 0
    (error,) = told
    assert isinstance(error, NoAnswerError)
    assert "has not ended within 0 s. It stops at its next checkpoint" in str(error)


def test_request_to_an_ended_run_does_not_reach_the_next(slow, dgs):
    with meanwhile(THERE, lambda: library.stop(THERE)):
        dgs("run plan.yaml --run-dir there")
    post(THERE / "control", ControlRequest("stop"))
    assert dgs(f"resume there {QUICK}").code == 0
    assert RunDirectory(THERE).results()["status"] == "done"


def test_stop_without_a_commit_says_what_is_kept(slow, dgs, edit):
    edit("plan.yaml", "{csv: {path: left.csv}}", "{log: {path: log}}")
    hasten(slow)
    rows = {"ts": list(range(EARLY + 5)), "amount": list(range(EARLY + 5))}
    mute = LogWriter(slow / "log", "left", "nobody")
    mute.append(0, rows, frontier=EARLY + 4)

    def the_next_join_waits_in_vain():
        figures = THERE / "figures.ndjson"
        return figures.exists() and f'"child","w1",{EARLY + WINDOW},' in figures.read_text()

    with meanwhile(THERE, lambda: library.stop(THERE), once=the_next_join_waits_in_vain):
        done = dgs("run plan.yaml --run-dir there --set runtime.stop_timeout=50ms")
    assert done.code == 5
    assert "no checkpoint could be committed within `runtime.stop_timeout`" in done.err
    assert "outputs so far are kept as out/part-0.jsonl.partial" in done.err
    assert done.err.endswith("repeat with: dgs resume there\n")
    results = RunDirectory(THERE).results()
    assert (results["status"], results["stopped_at"], results["epoch"]) == ("stopped", None, None)
    mute.close()
    assert dgs("resume there").code == 0
    assert RunDirectory(THERE).results()["status"] == "done"


def test_files_of_an_earlier_run_do_not_mix_with_a_stopped_run(slow, dgs):
    (slow / "out").mkdir()
    (slow / "out" / "part-7.jsonl").write_text('["value",-1]\n')
    list_outputs([StagedFile("", str(slow / "out" / "part-7.jsonl"), size=13, digest="", rows=1)])
    with meanwhile(THERE, lambda: library.stop(THERE)) as told:
        done = dgs("run plan.yaml --run-dir there")
    assert "are committed" in done.err, (done.err, told)
    assert [path.name for path in (slow / "out").glob("*.jsonl")] == ["part-0.jsonl"]


@pytest.mark.parametrize("section", ["", CHECKPOINT])
def test_replan_moves_the_run_to_another_plan_without_losing_its_place(project, dgs, section):
    write_project(project, plan=PLAN + section, waits_at=[EARLY])

    def move():
        library.replan(THERE, optimizer="sequential")
        hasten(project)

    with meanwhile(THERE, move) as told:
        done = dgs("run plan.yaml --run-dir there --json --verify")
    report = json.loads(done.out)
    assert (told, done.code, report["verified"], report["status"]) == ([None], 0, True, "done")
    assert (report["workers"], report["plan"]["workers"]) == (1, 1)
    assert committed(project / "out") == expected()
    assert "children" not in read(THERE / "plan.yaml").data["plan"]


def test_run_that_was_moved_is_stopped_and_resumed_under_its_new_plan(slow, dgs):
    let_wait(slow, EARLY, 3 * EARLY)

    def move_and_stop():
        library.replan(THERE, optimizer="sequential")
        return library.stop(THERE)

    with meanwhile(THERE, move_and_stop):
        moved = dgs("run plan.yaml --run-dir there")
    assert "the run goes on under another plan, with 1 worker\n" in moved.err
    done = dgs(f"resume there --json --verify {QUICK}")
    report = json.loads(done.out)
    assert (done.code, report["workers"], report["verified"]) == (0, 1, True)


def test_invalid_plan_changes_nothing(slow, dgs):
    dgs("plan plan.yaml --save other.yaml")
    other = Path("other.yaml")
    other.write_text(other.read_text().replace("right/1", "right/0"))

    def attempt():
        try:
            library.replan(THERE, plan=other)
        finally:
            hasten(slow)

    with meanwhile(THERE, attempt) as told:
        report = json.loads(dgs("run plan.yaml --run-dir there --json --verify").out)
    (error,) = told
    assert isinstance(error, library.DgsError)
    assert error.exit_code == 3
    assert (report["verified"], report["workers"], report["checkpoints"]["epoch"]) == (True, 3, 1)


def test_replan_needs_a_run_that_is_alive_and_a_plan(slow, dgs):
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 0
    done = dgs("replan there --optimizer sequential")
    assert (done.code, "is not alive. Go on with it under another plan: `dgs resume there" in done.err) == (
        2,
        True,
    )
    assert dgs("replan there").code == 2
    with pytest.raises(NoSuchRunError):
        library.replan(THERE, optimizer="greedy")


def test_runs_of_a_directory_come_newest_first(slow, dgs):
    for _ in range(2):
        assert dgs(f"run plan.yaml {QUICK}").code == 0
        time.sleep(0.01)
    first, second = runs_in(slow)
    assert first.about["started"] > second.about["started"]
    assert (first.is_done, first.is_alive, first.name) == (True, False, "sums")
