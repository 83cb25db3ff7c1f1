"""`dgs explain --story`: the story of a run before it failed, and which runs leave one."""

import json
import re
from pathlib import Path

import pytest

import dgs as library
from dgs.api.known_runs import run_at
from dgs.api.reports import story_of
from dgs.job.run_directory import RunDirectory
from dgs.workers.event_log import LogWriter
from tests.dgs.recovering import EARLY, THERE, meanwhile

FAILS = "// (event.payload != 200)"
"""A program that fails at the last value of `right`."""


@pytest.fixture
def failed(project, dgs, edit):
    """A run that has failed."""
    edit("program.py", "self.scale * event.payload", f"self.scale * event.payload {FAILS}")
    assert dgs("run plan.yaml --run-dir there").code == 1
    return RunDirectory(THERE)


def test_story_of_a_failed_run_ends_with_the_failure(failed, dgs):
    done = dgs("explain --story there")
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert re.fullmatch(r"the last ([0-9]+) of \1 entries in the story of sums:", head)
    form = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}  (driver|host 0)  .+")
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert "driver  begins generation 1 from epoch 0" in lines[0]
    assert any("reads 3 events of source 'right'" in line for line in lines)
    assert "host 0  fails: UserCodeError: update of program Sums raised ZeroDivisionError" in lines[-2]
    assert "driver  the run fails: UserCodeError" in lines[-1]


def test_story_of_a_plan_file_is_that_of_its_newest_run(failed, dgs, run_dirs):
    assert dgs("run plan.yaml").code == 1
    (newest,) = run_dirs()
    assert dgs("explain --story plan.yaml").out == dgs(f"explain --story {newest}").out != ""


def test_story_of_a_worker_has_its_notes(failed, dgs):
    (worker,) = set(re.findall(r"worker (\w+)", failed.results()["error"]["message"]))
    told = json.loads(dgs(f"explain --story there --worker {worker} --json").out)["story"]
    assert told
    assert all(worker in entry["workers"] for entry in told)
    assert "fails" in told[-1]["text"]
    done = dgs(f"explain --story there --worker {worker}")
    assert f"entries that concern {worker} in the story of sums:" in done.out
    assert len(done.out.splitlines()) == 1 + len(told)


def test_last_entries_are_as_many_as_asked_for(failed, dgs):
    whole = dgs("explain --story there --last 1000").out.splitlines()
    some = dgs("explain --story there --last 2").out.splitlines()
    assert some[0] == f"the last 2 of {len(whole) - 1} entries in the story of sums:"
    assert some[1:] == whole[-2:]


def test_json_has_the_entries(failed, dgs):
    told = json.loads(dgs("explain --story there --last 3 --json").out)
    assert (told["run_dir"], len(told["story"])) == (str(THERE), 3)
    assert told["entries"] == len(story_of(run_at(THERE)))
    assert list(told["story"][0]) == ["time", "generation", "host", "text", "workers"]


def test_unknown_worker_is_named_with_the_known_ones(failed, dgs):
    done = dgs("explain --story there --worker nobody")
    assert (done.code, done.out) == (2, "")
    assert re.search(r"concerns worker 'nobody'; it has: w0, ", done.err)


def test_run_that_ended_well_has_no_story(project, dgs):
    dgs("run plan.yaml --run-dir there")
    done = dgs("explain --story there")
    assert (done.code, done.out) == (2, "")
    assert "the run in there has left no story. A run leaves one when it fails" in done.err


def test_story_of_a_failure_is_removed_when_the_run_succeeds(failed, project, dgs, edit):
    edit("program.py", f" {FAILS}", "")
    assert dgs("resume there").code == 0
    assert not failed.story.exists()


def test_run_that_stands_still_or_stops_without_a_checkpoint_leaves_a_story(slow, dgs, edit):
    edit("plan.yaml", "{csv: {path: left.csv}}", "{log: {path: log}}")
    rows = {"ts": list(range(EARLY + 5)), "amount": list(range(EARLY + 5))}
    LogWriter(slow / "log", "left", "nobody").append(0, rows, frontier=EARLY + 4)
    with meanwhile(THERE, lambda: library.stop(THERE)):
        done = dgs("run plan.yaml --run-dir there --set runtime.stop_timeout=50ms")
    assert done.code == 5
    texts = [entry.text for entry in story_of(run_at(THERE))]
    assert texts[-1] == "stops without a checkpoint"
    assert "has a request by dgs stop to stop" in texts
    assert any("takes" in text for text in texts)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "give a PLAN, or --story RUN"),
        ("plan.yaml --story there", "give a PLAN, or --story RUN"),
        ("plan.yaml --worker w1", "--worker and --last are for --story"),
        ("plan.yaml --last 3", "--worker and --last are for --story"),
        ("--story missing", "there is no missing"),
        ("--story there --last 0", "--last"),
    ],
)
def test_flags_that_make_no_sense_are_refused(project, dgs, given, problem):
    Path("there").mkdir()
    done = dgs(f"explain {given}")
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
