"""A run that was killed, one of its files damaged: the resumed run has the outputs of the sequential program, or is refused."""

import re
import shutil
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dgs.cli.app import app
from dgs.errors import DgsError
from tests.selection import every_other
from tests.workers.damaging import (
    JOBS,
    Damage,
    expected,
    files_of,
    flips,
    found_in,
    killed_projects,
    limited,
    losses,
    outcome,
    right,
)

FLIPS = 12
"""Flips of one bit in each project; `python -m tests.workers.damaging` does more."""


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    return killed_projects(tmp_path_factory.mktemp("killed"))


OTHER_JOBS = sorted(set(JOBS) - {"plain"})


@pytest.fixture(scope="module", params=every_other(OTHER_JOBS))
def others(request, tmp_path_factory):
    return killed_projects(tmp_path_factory.mktemp(request.param), request.param)


def test_other_jobs_that_were_killed_have_committed_a_part_and_resume(others):
    for project in others:
        found = found_in(project)
        assert all(0 < len(found[name]) < len(expected()[0]) for name in right() if name != "letters")
        assert outcome(project, Damage("run/lock", "cut", 0)) == "harmless"


def test_a_flipped_bit_in_another_job_is_harmless_or_refused(others):
    told = {
        fault: outcome(project, fault) for project in others for fault in islice(flips(project, seed=5), 4)
    }
    assert [(fault, said) for fault, said in told.items() if not is_right(said)] == []


def is_right(said):
    return said == "harmless" or said.startswith("refused")


def test_killed_runs_have_committed_a_part(projects):
    for project in projects:
        found = found_in(project)
        assert all(0 < len(found[name]) < len(expected()[0]) for name in right() if name != "letters")
        assert {Path(name).suffix for name in files_of(project)} >= {
            ".dgs",
            ".json",
            ".yaml",
            ".db",
            ".csv",
            ".jsonl",
        }


@pytest.mark.parametrize("number", [0, 1])
def test_a_flipped_bit_is_harmless_or_the_resumed_run_is_refused(projects, number):
    told = {
        fault: outcome(projects[number], fault)
        for fault in islice(flips(projects[number], seed=number), FLIPS)
    }
    assert [(fault, said) for fault, said in told.items() if not is_right(said)] == []


PLACES = [
    "out/jsonl/part-",
    "out/csv/part-",
    "out/parquet/part-",
    "out.db",
    "run/run.json",
    "run/plan.yaml",
    "run/dead-letter",
    "log/",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_lost_or_cut_file_is_refused(projects, place):
    faults = [
        fault
        for fault in losses(projects[0])
        if fault.file.startswith(place)
        and not any(part in fault.file for part in ("-wal", "-shm", "owner", ".partial"))
        and fault.at < (projects[0] / fault.file).stat().st_size - 1  # a last newline may be lost
    ]
    # The first segments of the log are in the state, so they are not needed.
    chosen = faults[-6:] if place == "log/" else [*faults[:3], *faults[3:][-3:]]
    said = {fault: outcome(projects[0], fault) for fault in chosen}
    assert said
    assert [(fault, what) for fault, what in said.items() if not what.startswith("refused")] == []


def test_a_pipe_in_place_of_a_file_is_not_read(projects):
    names = {re.sub(r"\d.*", "", name): name for name in files_of(projects[0])}  # one of each kind
    told = {name: outcome(projects[0], Damage(name, "piped")) for name in names.values()}
    refused = ("refused", "WRONG: exit 4", "WRONG: exit 5")  # it cannot be written, or not be read now
    assert [(name, said) for name, said in told.items() if not said.startswith(("harmless", *refused))] == []
    parts = [said for name, said in told.items() if name.startswith("out/")]
    assert parts
    assert all(said.startswith(refused) for said in parts)


@pytest.mark.parametrize("whole", [(), ("lock",)])
def test_no_command_waits_for_a_pipe_in_a_run_directory(projects, tmp_path, monkeypatch, whole):
    folder = tmp_path / "project"
    shutil.copytree(projects[0], folder)
    monkeypatch.chdir(folder)
    for name in files_of(folder):
        if name.startswith("run/") and not name.endswith(("run.json", "plan.yaml", *whole)):
            Damage(name, "piped").do(folder)
    for command in ("checkpoint verify run", "checkpoint ls run", "runs show run", "top run", "report run"):
        with limited(20):
            found = CliRunner().invoke(app, command.split())
        assert found.exit_code not in (2, 70), found.output  # 2: there is no such command
        assert found.exception is None or isinstance(found.exception, (SystemExit, DgsError)), found.output


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("place", ["out", "out/jsonl", "out/csv", "out/parquet"])
def test_a_lost_directory_of_outputs_is_refused(projects, place, number):
    assert outcome(projects[number], Damage(place, "deleted")).startswith("refused")


def test_lost_segments_of_a_log_are_missed_or_not_needed(projects):
    segments = sorted(
        name for name in files_of(projects[0]) if name.startswith("log/") and "owner" not in name
    )
    faults = [Damage(name, how) for name in segments for how in ("deleted", "cut")]
    said = {fault: outcome(projects[0], fault) for fault in faults}
    assert [(fault, what) for fault, what in said.items() if not is_right(what)] == []


def test_an_undamaged_copy_resumes(projects):
    for project in projects:
        assert outcome(project, Damage("run/lock", "cut", 0)) == "harmless"
