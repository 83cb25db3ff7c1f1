"""`dgs bench`: the table, the object, exit codes, and no files written."""

import json

import pytest

from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.worker import Worker

VECTORISED = """
    def update_batch(self, state, batch, emit_batch):
        import numpy as np

        outputs, rows = [], []
        for row, event in enumerate(batch.events()):
            state = self.update(state, event, lambda value: (outputs.append(value), rows.append(row)))
        emit_batch(outputs, np.array(rows, dtype=int))
        return state{fault}
"""
LOCAL = "--engine loop --engine local --repeat 2"


def test_bench_prints_a_row_per_engine(project, dgs):
    done = dgs(f"bench plan.yaml {LOCAL}")
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()
    assert head.split()[:2] == ["engine", "mode"]
    assert [row.split()[:4] for row in rows] == [["loop", "scalar", "1", "1"], ["local", "scalar", "1", "2"]]
    assert rows[0].split()[-1] == "1.00"


def test_bench_writes_no_outputs_and_no_run_directory(project, dgs, run_dirs):
    before = sorted(project.iterdir())
    assert dgs(f"bench plan.yaml {LOCAL} --set 'sinks=[{{jsonl: {{path: out}}}}]'").code == 0
    assert run_dirs() == []
    assert [path for path in sorted(project.iterdir()) if path.name != "__pycache__"] == before


def test_bench_prints_every_sample_as_json(project, dgs):
    done = dgs(f"bench plan.yaml {LOCAL} --json")
    data = json.loads(done.out)
    assert len(data["rows"]) == 4
    assert {row["events"] for row in data["rows"]} == {9}
    assert {"app", "engine", "mode", "leaves", "hosts", "seconds", "eps"} <= set(data["rows"][0])


def test_bench_takes_only_the_first_events(project, dgs):
    data = json.loads(dgs(f"bench plan.yaml {LOCAL} --json --max-events 4").out)
    assert {row["events"] for row in data["rows"]} == {4}


def test_bench_runs_vectorised_programs_both_ways(project, dgs, edit):
    edit("program.py", "    def fork(", VECTORISED.format(fault="") + "\n    def fork(")
    data = json.loads(dgs(f"bench plan.yaml {LOCAL} --json").out)
    assert [row["mode"] for row in data["medians"]] == ["scalar", "scalar", "vectorised"]
    assert [row["problem"] for row in data["medians"]] == [None] * 3


def test_bench_fails_if_outputs_differ(project, dgs, edit, monkeypatch):
    few = Bounds(few_events=0)  # these are few events, and update_batch is the mistake
    monkeypatch.setitem(Worker.__init__.__kwdefaults__, "bounds", few)
    edit("program.py", "    def fork(", VECTORISED.format(fault=" + 1") + "\n    def fork(")
    done = dgs(f"bench plan.yaml {LOCAL}")
    assert done.code == 1
    assert [line.split()[1] for line in done.out.splitlines() if line.endswith("WRONG")] == ["vectorised"]
    assert "missing" in done.err


def test_bench_reports_user_code_that_raises(project, dgs, edit):
    edit("program.py", "emit(state)", "raise RuntimeError('no barrier')")
    done = dgs(f"bench plan.yaml {LOCAL}")
    assert done.code == 1
    assert "RuntimeError: no barrier" in done.err


@pytest.mark.slow
@pytest.mark.ray
def test_bench_runs_scalar_programs_from_files_on_ray(project, dgs, edit):
    edit("program.py", "    def fork(", VECTORISED.format(fault="") + "\n    def fork(")
    data = json.loads(dgs("bench plan.yaml --engine ray --hosts 2 --optimizer greedy --repeat 1 --json").out)
    assert [(row["mode"], row["hosts"], row["problem"]) for row in data["medians"]] == [
        ("scalar", 2, None),
        ("vectorised", 2, None),
    ]
