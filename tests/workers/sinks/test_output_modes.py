"""A run whose sinks have outputs, its own or those of another job, with each `mode`."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pyarrow.csv
import pyarrow.parquet
import pytest

import dgs
from dgs.api.known_runs import newest_of
from dgs.workers.sinks.files.owned import OccupiedOutputError, OthersOutputsError, OutputsThereError
from tests.selection import rest_is_slow

PROGRAM = """\
import dgs

VALUE = dgs.kind("value")


class Echo(dgs.Program):
    depends = dgs.Dependence((VALUE, VALUE, dgs.ALWAYS))

    def init(self):
        return None

    def update(self, state, event, emit):
        emit({"amount": event.payload})
        return state
"""
PLAN = """\
version: 1
name: echo
program: {ref: "program.py:Echo"}
streams:
  - id: values
    tags: {kind: value}
    source: {jsonl: {path: NAME.jsonl}}
    payload: amount
runtime: {kind: local}
CHECKPOINTsinks: [{KIND: {path: PLACE, MODE}}]
"""
PLACES = {"jsonl": "out", "csv": "out", "parquet": "out", "spark": "out", "sqlite": "out.db"}
KINDS = pytest.mark.parametrize("kind", rest_is_slow(["jsonl", "parquet", "sqlite", "csv", "spark"], keep=3))
SAVING = pytest.mark.parametrize("checkpoint", ["", "checkpoint: {every: 1s}\n"], ids=["once", "by_epoch"])


@pytest.fixture
def project(tmp_path):
    """Return a function that runs a named job over its own values, with a sink."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(name, kind, values, mode="", checkpoint=""):
        rows = [json.dumps({"ts": ts, "amount": value}) for ts, value in enumerate(values)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
        text = PLAN.replace("NAME", name).replace("KIND", kind).replace("PLACE", PLACES[kind])
        text = text.replace(", MODE", f", mode: {mode}" if mode else "").replace("CHECKPOINT", checkpoint)
        (tmp_path / f"{name}.yaml").write_text(text)
        return dgs.run(tmp_path / f"{name}.yaml", fresh=True)

    return run


def amounts(folder, kind):
    """Return the amounts that the sink holds, sorted."""
    files = list((folder / "out").glob(f"part-*.{'parquet' if kind == 'spark' else kind}"))
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "out.db")) as db:
            rows = [json.loads(value) for (value,) in db.execute("SELECT value FROM outputs")]
    elif kind == "jsonl":
        rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    elif kind == "csv":
        rows = [row for path in files for row in pyarrow.csv.read_csv(path).to_pylist()]
    else:
        rows = [row for path in files for row in pyarrow.parquet.read_table(path).to_pylist()]
    return sorted(row["amount"] for row in rows)


@KINDS
@SAVING
def test_a_job_replaces_its_own_outputs_and_refuses_those_of_another(project, tmp_path, kind, checkpoint):
    project("one", kind, [1, 2], checkpoint=checkpoint)
    project("one", kind, [3], checkpoint=checkpoint)
    with pytest.raises(OthersOutputsError, match=r"outputs of another job, .*/one\.yaml") as refused:
        project("two", kind, [4], checkpoint=checkpoint)
    assert refused.value.exit_code == 3
    assert amounts(tmp_path, kind) == [3]


@KINDS
@SAVING
def test_replace_own_replaces_outputs_of_any_job(project, tmp_path, kind, checkpoint):
    project("one", kind, [1, 2], checkpoint=checkpoint)
    project("two", kind, [4], "replace-own", checkpoint)
    assert amounts(tmp_path, kind) == [4]
    with pytest.raises(OthersOutputsError, match=r"two\.yaml"):
        project("one", kind, [5], checkpoint=checkpoint)


@KINDS
@SAVING
def test_error_refuses_any_output(project, tmp_path, kind, checkpoint):
    project("one", kind, [1, 2], "error", checkpoint)
    for name in ("one", "two"):
        with pytest.raises(OutputsThereError) as refused:
            project(name, kind, [3], "error", checkpoint)
        assert refused.value.exit_code == 3
    assert amounts(tmp_path, kind) == [1, 2]


@KINDS
@SAVING
def test_append_keeps_existing_outputs(project, tmp_path, kind, checkpoint):
    project("one", kind, [1, 2], checkpoint=checkpoint)
    for name, value in (("two", 3), ("two", 4), ("one", 5)):
        project(name, kind, [value], "append", checkpoint)
    assert amounts(tmp_path, kind) == [1, 2, 3, 4, 5]
    with pytest.raises(OthersOutputsError):
        project("one", kind, [6], checkpoint=checkpoint)
    project("one", kind, [6], "replace-own", checkpoint)
    assert amounts(tmp_path, kind) == [6]


def test_append_writes_beside_files_that_dgs_did_not_write(project, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-0.jsonl").write_text('{"amount": 0}\n')
    project("one", "jsonl", [1], "append")
    assert amounts(tmp_path, "jsonl") == [0, 1]
    with pytest.raises(OccupiedOutputError):
        project("one", "jsonl", [1], "replace-own")


@KINDS
def test_a_stopped_run_that_appends_resumes_with_each_output_once(project, tmp_path, kind):
    project("one", kind, [1, 2])
    text = (tmp_path / "program.py").read_text()
    (tmp_path / "program.py").write_text(
        text.replace("emit(", "assert event.payload < 1000, 'not now'\n        emit(")
    )
    values = list(range(10, 500))
    with pytest.raises(dgs.errors.UserCodeError):
        project("two", kind, [*values, 1000, 1001], "append", "checkpoint: {every: 1ms}\n")
    project("one", kind, [3], "append")
    (tmp_path / "program.py").write_text(text)
    dgs.run(tmp_path / "two.yaml", resume=True)
    assert amounts(tmp_path, kind) == [1, 2, 3, *values, 1000, 1001]


def test_a_resolved_plan_file_is_the_job_that_it_was_made_of(project, tmp_path):
    run = project("one", "jsonl", [1, 2])
    dgs.run(run.run_dir / "plan.yaml", fresh=True)
    assert amounts(tmp_path, "jsonl") == [1, 2]


FAILING = PROGRAM.replace(
    "        emit(", '        if event.payload == "fails":\n            raise ValueError\n        emit('
)
DYING = FAILING.replace("raise ValueError", "import os; os.kill(os.getpid(), 9)")
ROWS = 3000
"""More rows than a sink keeps in memory before it writes."""


def go_wrong(folder, plan):
    """Run a plan file in another process, and return its messages."""
    command = [sys.executable, "-c", "import sys; from dgs.cli import main; sys.argv[0] = 'dgs'; main()"]
    done = subprocess.run(
        [*command, "run", plan, "--fresh"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode
    return done.stderr


def write_many(folder, name, count=ROWS):
    """Let a job read many values, and then a value that fails."""
    rows = [json.dumps({"ts": ts, "amount": value}) for ts, value in enumerate([*range(10, count), "fails"])]
    (folder / f"{name}.jsonl").write_text("\n".join(rows))


@KINDS
@pytest.mark.parametrize("program", rest_is_slow([DYING, FAILING]), ids=["is_killed", "fails"])
def test_failed_run_leaves_nothing_among_outputs_that_it_appends_to(project, tmp_path, kind, program):
    project("first", kind, [1, 2], "append")
    project("second", kind, [3], "append")
    (tmp_path / "program.py").write_text(program)
    write_many(tmp_path, "second")
    told = go_wrong(tmp_path, "second.yaml")
    if program is FAILING:
        assert amounts(tmp_path, kind) == [1, 2, 3]
        assert ("outputs so far" in told) == (kind != "sqlite")
    elif kind == "sqlite":
        assert len(amounts(tmp_path, kind)) > 3
    (tmp_path / "program.py").write_text(PROGRAM)
    project("third", kind, [4], "append")
    assert amounts(tmp_path, kind) == [1, 2, 3, 4]


def unfinished(folder):
    return sorted(path.name for path in (folder / "out").glob("*.partial"))


@pytest.mark.parametrize("then", rest_is_slow(["resumed", "removed", "never begun"]))
def test_leftovers_of_a_killed_run_that_appends_stay_for_as_long_as_it_can_go_on(project, tmp_path, then):
    (tmp_path / "program.py").write_text(DYING)
    write_many(tmp_path, "kept", count=300)
    project("first", "jsonl", [1], "append")
    text = (tmp_path / "first.yaml").read_text().replace("first.jsonl", "kept.jsonl")
    text = text.replace("sinks:", "checkpoint: {every: 1ms}\nsinks:") if then != "never begun" else text
    (tmp_path / "killed.yaml").write_text(text.replace("runtime: {", "runtime: {batch_rows: 100, "))
    go_wrong(tmp_path, "killed.yaml")
    of_others = tmp_path / "out" / "part-ffffffff-000001-0.g1.jsonl.partial"
    of_others.touch()
    assert len(unfinished(tmp_path)) > 1
    left = unfinished(tmp_path)
    if then == "removed":
        shutil.rmtree(newest_of(tmp_path / "killed.yaml").directory.path)
    project("third", "jsonl", [2], "append")
    assert unfinished(tmp_path) == (left if then == "resumed" else [of_others.name])
    if then == "resumed":
        mended = PROGRAM.replace("event.payload}", "300 if event.payload == 'fails' else event.payload}")
        (tmp_path / "program.py").write_text(mended)
        dgs.run(tmp_path / "killed.yaml", resume=True, accept_code_change=True)
        assert amounts(tmp_path, "jsonl") == [1, 2, *range(10, 301)]
        assert unfinished(tmp_path) == [of_others.name]


def test_rows_of_a_killed_run_that_were_moved_stay(project, tmp_path):
    """Another program has vacuumed the database: the noted row ids may now be other rows."""
    project("first", "sqlite", [1, 2, 3], "append")
    (tmp_path / "program.py").write_text(DYING)
    write_many(tmp_path, "first")
    go_wrong(tmp_path, "first.yaml")
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute("DELETE FROM outputs WHERE value ->> 'amount' = 1")
        db.execute("UPDATE outputs SET rowid = rowid - 1")
    before = amounts(tmp_path, "sqlite")
    (tmp_path / "program.py").write_text(PROGRAM)
    project("third", "sqlite", [1], "append")
    assert amounts(tmp_path, "sqlite") == [1, *before]


@pytest.mark.parametrize("mode", ["", "append"])
def test_closing_line_names_rows_that_a_failed_run_leaves(project, tmp_path, mode):
    project("first", "sqlite", [1, 2], mode)
    (tmp_path / "program.py").write_text(FAILING)
    write_many(tmp_path, "first")
    told = go_wrong(tmp_path, "first.yaml")
    kept = amounts(tmp_path, "sqlite")
    assert ("no outputs were kept" in told) == bool(mode)
    assert (f"table 'outputs' of out.db has {len(kept)} rows now" in told) == (not mode)
