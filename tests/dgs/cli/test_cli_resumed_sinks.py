"""A resumed run continues in the sinks that hold its outputs, or is refused. Committed outputs are never cleared."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import dgs as library
from dgs.workers.checkpoints.directory import CheckpointDirectory
from tests.dgs.recovering import (
    CHECKPOINT,
    EARLY,
    PLAN,
    QUICK,
    THERE,
    committed,
    expected,
    hasten,
    meanwhile,
    write_project,
)
from tests.selection import rest_is_slow

SINKS = "sinks: [{sqlite: {path: out.db}}]\n"
BOTH = "sinks: [{jsonl: {path: out}}, {sqlite: {path: out.db}}]\n"
LEGACY = "run-id"


def with_sinks(sinks: str) -> str:
    """Return the plan with a section of sinks."""
    return PLAN[: PLAN.index("sinks:")] + sinks


@pytest.fixture
def stopped(project, dgs):
    """A run into a database and into files, in `there`, that was stopped before its end."""
    write_project(project, plan=with_sinks(BOTH) + CHECKPOINT, waits_at=[EARLY])
    with meanwhile(THERE, lambda: library.stop(THERE)):
        assert dgs("run plan.yaml --run-dir there").code == 0
    hasten(project)
    assert 0 < len(rows(project)) < len(expected())
    return project


def rows(project, database="out.db"):
    """Return the outputs in the database, sorted."""
    with closing(sqlite3.connect(project / database)) as db:
        return sorted(json.loads(value) for (value,) in db.execute("SELECT value FROM outputs"))


def test_a_run_continues_into_its_database(stopped, dgs):
    assert dgs(f"resume there {QUICK}").code == 0
    assert rows(stopped) == committed(stopped / "out") == expected()


def test_the_id_of_the_run_is_in_the_record(stopped):
    record = CheckpointDirectory(stopped / "saved").committed()
    with closing(sqlite3.connect(stopped / "out.db")) as db:
        assert db.execute("SELECT run FROM dgs_writers").fetchall() == [(record.run,)]
    assert not (stopped / "saved" / LEGACY).exists()


@pytest.mark.parametrize("how", ["deleted", "emptied", "of another run"])
def test_a_database_without_the_committed_outputs_is_refused(stopped, dgs, how):
    (stopped / "out.db").rename(stopped / "old.db")
    if how == "emptied":
        (stopped / "out.db").touch()
    elif how == "of another run":
        assert (
            dgs(
                f"run plan.yaml --run-dir other --set checkpoint.dir=others --set sinks.0.jsonl.path=else {QUICK}"
            ).code
            == 0
        )
    there = rows(stopped) if how == "of another run" else None
    done = dgs(f"resume there {QUICK}")
    assert (done.code, "does not hold the outputs that this run has committed" in done.err) == (6, True), (
        done.err
    )
    if there is not None:
        assert rows(stopped) == there
    (stopped / "old.db").replace(stopped / "out.db")
    assert dgs(f"resume there {QUICK}").code == 0
    assert rows(stopped) == expected()


@pytest.mark.parametrize(
    "change",
    [
        "sinks.1.sqlite.path=new.db",
        "sinks.1.sqlite.table=others",
        "sinks.0.jsonl.path=elsewhere",
        "sinks=[stdout]",
    ],
)
def test_other_sinks_are_refused(stopped, dgs, change):
    before = rows(stopped)
    done = dgs(f"resume there {QUICK} --set '{change}'")
    assert (done.code, "are in other sinks" in done.err) == (6, True), done.err
    assert rows(stopped) == before
    assert not (stopped / "new.db").exists()


def test_a_sink_that_keeps_nothing_may_be_added(stopped, dgs):
    sinks = "sinks=[{jsonl: {path: out}}, {sqlite: {path: out.db}}, none]"
    assert dgs(f"resume there {QUICK} --set '{sinks}'").code == 0
    assert rows(stopped) == expected()


@pytest.mark.parametrize("damage", [None, b"", b"0" * 31, b"0" * 31 + b"\x01", "the record names none"])
def test_an_id_of_version_0_1_that_is_damaged_is_refused(stopped, dgs, damage):
    """Version 0.1.0 kept the id in a file without a digest; here such a file is made from a current run."""
    store = CheckpointDirectory(stopped / "saved")
    record = store.committed()
    forget_run(stopped / "saved")
    if isinstance(damage, bytes):
        (stopped / "saved" / LEGACY).write_bytes(damage)
    before = rows(stopped)
    done = dgs(f"resume there {QUICK}")
    assert (done.code, "run-id" in done.err) == (6, True), done.err
    assert rows(stopped) == before
    (stopped / "saved" / LEGACY).write_text(record.run)
    assert dgs(f"resume there {QUICK}").code == 0
    assert rows(stopped) == expected()


def forget_run(saved: Path) -> None:
    """Rewrite the record as version 0.1.0 wrote it."""
    from dataclasses import replace

    store = CheckpointDirectory(saved)
    store.write_record(replace(store.committed(), run="", sinks=None))


@pytest.mark.parametrize("place", rest_is_slow(range(0, 100, 9), keep=4))
def test_a_flipped_bit_of_a_checkpoint_is_harmless_or_refused(stopped, dgs, place):
    for path in sorted((stopped / "saved").glob("*.dgs")):
        copy = stopped / "copy"
        shutil.copytree(stopped / "saved", copy)
        data = bytearray(path.read_bytes())
        data[len(data) * place // 100] ^= 1 << place % 8
        path.write_bytes(bytes(data))
        assert CheckpointDirectory(stopped / "saved").verify() != CheckpointDirectory(copy).verify()
        shutil.rmtree(copy)
        break
    done = dgs(f"resume there {QUICK}")
    assert done.code in (0, 6), done.err
    if done.code == 0:
        assert rows(stopped) == committed(stopped / "out") == expected()


@pytest.mark.slow
def test_two_runs_on_one_table_are_not_at_once(project, dgs):
    write_project(project, plan=with_sinks(SINKS), waits_at=[EARLY])
    (project / "other.yaml").write_text(with_sinks(SINKS).replace("name: sums", "name: others"))
    refused = []

    def begin_another() -> None:
        for line in ("run plan.yaml --fresh --run-dir second", "run other.yaml --fresh"):
            command = [sys.executable, "-m", "dgs", *f"{line} {QUICK}".split()]
            refused.append(subprocess.run(command, capture_output=True, text=True, check=False))
        hasten(project)

    with meanwhile(THERE, begin_another) as told:
        assert dgs("run plan.yaml --run-dir there").code == 0
    assert told == [None]
    assert [(one.returncode, "another run is writing to it" in one.stderr) for one in refused] == [
        (4, True)
    ] * 2, refused
    assert rows(project) == expected()
