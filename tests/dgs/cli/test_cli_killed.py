"""A run whose process was killed: its record says that it is running until the first command finds that it was killed."""

import json
import os

import pytest

import dgs as library
from dgs.api.known_runs import held, run_at
from dgs.errors import NoSuchRunError
from dgs.job.run_directory import RunDirectory
from tests.selection import every_other
from tests.workers.damaging import found_in, killed_in_an_epoch, right, write_project

ONWARD = "go on with: dgs resume run"


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A project whose run was killed half-way. Another process has its process id now."""
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    killed_in_an_epoch(tmp_path, at=71)
    directory = RunDirectory(tmp_path / "run")
    directory.note(process=os.getpid())
    (directory.path / "lock").write_text(f"process {os.getpid()} on this machine")
    assert json.loads((directory.path / "run.json").read_text())["status"] == "running"
    return tmp_path


def test_a_known_run_was_killed(killed):
    run = run_at(killed / "run")
    assert (run.status, run.is_alive, run.is_listening) == ("killed", False, False)


@pytest.mark.parametrize(
    "line",
    every_other(
        ["runs ls", "runs show run", "stop run", "top run --once", "explain --story run", "report run -o page.html",
         "replan run --optimizer sequential", "run plan.yaml --run-dir run", "resume run --set streams=3"]
    ),
)  # fmt: skip
def test_the_first_command_that_finds_it_notes_that_it_was_killed(killed, dgs, line):
    (killed / ".dgs" / "runs").mkdir(parents=True)
    (killed / ".dgs" / "runs" / "one").symlink_to(killed / "run")
    dgs(line)
    noted = json.loads((killed / "run" / "run.json").read_text())
    assert (noted["status"], noted["process"]) == ("killed", None)
    assert RunDirectory(killed / "run").is_whole


def test_a_record_that_is_damaged_or_whose_run_goes_on_stays_as_it_is(killed):
    path = killed / "run" / "run.json"
    with held(path.parent):
        assert run_at(killed / "run").status == "running"
    assert json.loads(path.read_text())["status"] == "running"
    damaged = path.read_text().replace('"max_events": null', '"max_events": 3')
    path.write_text(damaged)
    assert run_at(killed / "run").status == "killed"
    assert path.read_text() == damaged


def test_commands_say_that_it_was_killed_and_how_to_go_on(killed, dgs):
    stopped = dgs("stop run --json")
    assert "sums is not running; its process was killed" in stopped.err
    assert ONWARD in stopped.err
    assert json.loads(stopped.out)["status"] == "killed"
    for line, code in (
        ("run plan.yaml --run-dir run", 2),
        ("explain --story run", 2),
        ("replan run --optimizer sequential", 2),
    ):
        done = dgs(line)
        assert (done.code, "its process was killed" in done.err) == (code, True), done.err
    for line in ("explain --story run", "replan run --optimizer sequential"):
        assert "dgs resume" in dgs(line).err


def test_stop_and_replan_from_python_say_so(killed):
    told = library.stop("run")
    assert told == {"status": "killed", "run_dir": "run", "resume": "dgs resume run"}
    with pytest.raises(NoSuchRunError, match="its process was killed"):
        library.replan("run", optimizer="sequential")


def test_it_resumes_and_ends(killed, dgs):
    done = dgs("resume run")
    assert (done.code, "sums goes on in run; its process was killed: " in done.err) == (0, True), done.err
    assert run_at(killed / "run").status == "done"
    assert found_in(killed) == right()
