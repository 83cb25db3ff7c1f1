"""What a run that begins does with outputs that are there: its own, those of another job, and with each `mode`."""

import json
import sqlite3
from contextlib import closing

import pyarrow.csv
import pyarrow.parquet
import pytest

import dgs
from dgs.workers.sinks.files.owned import OccupiedOutputError, OthersOutputsError, OutputsThereError

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
KINDS = pytest.mark.parametrize("kind", PLACES)
SAVING = pytest.mark.parametrize("checkpoint", ["", "checkpoint: {every: 1s}\n"], ids=["once", "by_epoch"])


@pytest.fixture
def project(tmp_path):
    """Return what runs a job of some name, over values of its own, with a sink."""
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
    out = folder / "out"
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "out.db")) as db:
            rows = [json.loads(value) for (value,) in db.execute("SELECT value FROM outputs")]
    elif kind == "jsonl":
        rows = [json.loads(line) for path in out.glob("part-*") for line in path.read_text().splitlines()]
    elif kind == "csv":
        rows = [row for path in out.glob("part-*") for row in pyarrow.csv.read_csv(path).to_pylist()]
    else:
        rows = [row for path in out.glob("part-*") for row in pyarrow.parquet.read_table(path).to_pylist()]
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
def test_replace_own_replaces_what_any_job_wrote(project, tmp_path, kind, checkpoint):
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
def test_append_keeps_what_is_there(project, tmp_path, kind, checkpoint):
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
def test_a_stopped_run_that_appends_goes_on_with_each_output_once(project, tmp_path, kind):
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
