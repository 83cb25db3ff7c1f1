"""`dgs checkpoint`: listing, verifying and pruning checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dgs.recovering import CHECKPOINT, PLAN, write_project

THERE = Path("there")


@pytest.fixture
def saved(project, dgs):
    """The checkpoint directory of a finished run, with two or more states."""
    write_project(project, count=100, plan=PLAN + CHECKPOINT)
    assert dgs("run plan.yaml --run-dir there").code == 0
    assert len(list((project / "saved").glob("state-*.dgs"))) > 1
    return project / "saved"


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def states(directory: Path) -> list[Path]:
    return sorted(directory.glob("state-*.dgs"), key=lambda path: int(path.stem[6:]))


def test_ls_lists_the_checkpoints_of_a_run_or_of_a_directory(saved, dgs):
    done = dgs("checkpoint ls there")
    head, *rows = done.out.splitlines()
    assert done.code == 0
    assert head.split() == ["epoch", "created", "generation", "events", "bytes", "files", "state"]
    assert len(rows) == len(states(saved))
    assert all(row.endswith("committed") for row in rows)
    newest = int(states(saved)[-1].stem[6:])
    assert done.err == f"dgs: epoch {newest} is committed, the end of all streams\n"
    assert dgs("checkpoint ls saved").out == done.out
    told = json.loads(dgs("checkpoint ls there --json").out)
    assert told["committed"] == {"epoch": newest, "is_final": True}
    assert [one["epoch"] for one in told["checkpoints"]] == [int(path.stem[6:]) for path in states(saved)]
    assert told["checkpoints"][-1]["events"] == 209


def test_a_plan_file_stands_for_its_newest_run(project, dgs):
    write_project(project, count=100, plan=PLAN + CHECKPOINT)
    assert (dgs("checkpoint ls plan.yaml").code, dgs("run plan.yaml").code) == (2, 0)
    assert dgs("checkpoint ls plan.yaml").out == dgs("checkpoint ls saved").out != ""


def test_checkpoints_are_found_in_a_run_whose_record_is_lost(project, dgs):
    write_project(project, count=100, plan=PLAN + "checkpoint: {every: 50ms}\n")
    assert dgs("run plan.yaml --run-dir there").code == 0
    told = dgs("checkpoint ls there").out
    assert "committed" in told
    (project / "there" / "run.json").unlink()
    assert dgs("checkpoint ls there").out == told
    assert dgs("checkpoint verify there").code == 0


def test_show_lists_positions_and_files(saved, dgs):
    first = int(states(saved)[0].stem[6:])
    told = json.loads(dgs(f"checkpoint show there --epoch {first} --json").out)
    assert told["epoch"] == first
    assert {(one["stream"], one["splits"]) for one in told["positions"]} == {
        ("barriers", 1),
        ("left", 1),
        ("right", 2),
    }
    assert told["program"].startswith("Sums version 1")
    assert sum(file["rows"] for file in told["files"]) > 0
    out = dgs("checkpoint show there").out
    assert "is final      True" in out
    assert "stream    splits  split  tags       position" in out
    done = dgs("checkpoint show there --epoch 99999")
    assert (done.code, "there is no state of epoch 99999" in done.err) == (2, True)


def test_verify_exits_6_and_names_damaged_files(saved, dgs):
    done = dgs("checkpoint verify there")
    assert (done.code, done.err) == (0, "")
    damage(states(saved)[-1])
    done = dgs("checkpoint verify there --json")
    told = json.loads(done.out)
    assert (done.code, told["ok"]) == (6, False)
    problems = {one["file"]: one["problem"] for one in told["files"] if one["problem"]}
    assert problems == {states(saved)[-1].name: "its content does not match its digest"}
    assert states(saved)[-1].name in done.err
    damaged = dgs("checkpoint ls there").out.splitlines()[-1]
    assert "damaged: its content does not match its digest" in damaged


def test_prune_keeps_the_newest(saved, dgs):
    before = states(saved)
    told = json.loads(dgs("checkpoint prune there --json --keep 1").out)
    assert states(saved) == before[-1:]
    assert set(told["removed"]) == {path.name for path in before[:-1]}
    assert dgs("checkpoint prune there").err == "dgs: there was nothing to remove\n"
    assert dgs("checkpoint verify there").code == 0


def test_directory_without_checkpoints_is_a_usage_error(project, dgs):
    done = dgs("checkpoint ls .")
    assert (done.code, done.out) == (2, "")
    assert "error[DGS203]: there are no checkpoints in " in done.err
    assert dgs("checkpoint mend .").code == 2
