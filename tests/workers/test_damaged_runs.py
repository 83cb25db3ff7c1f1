"""A run that was killed, one of its files damaged: the resumed run has the outputs of the sequential program, or is refused."""

from itertools import islice
from pathlib import Path

import pytest

from tests.workers.damaging import (
    Damage,
    expected,
    files_of,
    flips,
    found_in,
    killed_projects,
    losses,
    outcome,
    right,
)

FLIPS = 12
"""Flips of one bit in each project; `python -m tests.workers.damaging` does more."""


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    return killed_projects(tmp_path_factory.mktemp("killed"))


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
