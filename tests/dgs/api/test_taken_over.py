"""A run whose lock files somebody deletes while it stands still: another process takes it over, and the first one leaves no trace."""

import json

import pytest

import dgs
from dgs.errors import DgsError

PROGRAM = """\
import subprocess, sys
from pathlib import Path

import dgs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")
HERE = Path(__file__).parent


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            return state + event.payload
        if event.ts == 150 and not (HERE / "taken").exists():
            (HERE / "taken").touch()
            for lock in LOCKS:
                (HERE / "run" / lock).unlink()
            again = [sys.executable, "-m", "dgs", "resume", "run"]
            (HERE / "said").write_text(subprocess.run(again, cwd=HERE, capture_output=True, text=True).stderr)
        emit([event.ts, state])
        return 0

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - {id: barriers, tags: [barrier], source: {csv: {path: barriers.csv}}, payload: []}
  - {id: values, tags: [value], source: {csv: {path: values.csv}}, payload: x, split: 2}
runtime: {kind: local, batch_rows: 5}
checkpoint: {every: 1ms}
"""


LOCKS = ["lock", "checkpoints/lock", "outputs/.dgs-lock"]


def started(folder, locks):
    """Start the run, and return its error; half-way, the locks are deleted and another process resumes it."""
    (folder / "program.py").write_text(PROGRAM.replace("LOCKS", repr(locks)))
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "values.csv").write_text("ts,x\n" + "".join(f"{i},{i}\n" for i in range(300)))
    (folder / "barriers.csv").write_text("ts\n" + "".join(f"{i}\n" for i in range(0, 300, 10)))
    try:
        dgs.run(folder / "plan.yaml", run_dir=folder / "run")
    except DgsError as error:
        return error
    return None


@pytest.mark.parametrize(("locks", "ends"), [(LOCKS[:2], type(None)), (LOCKS, DgsError)])
def test_record_is_that_of_the_process_that_comes_to_the_end(tmp_path, locks, ends):
    error = started(tmp_path, locks)
    said = (tmp_path / "said").read_text()
    assert isinstance(error, ends), (error, said)
    assert ("another run is writing to it" in said) == (error is None), said
    about, results = (
        json.loads((tmp_path / "run" / name).read_text()) for name in ("run.json", "results.json")
    )
    assert (about["status"], about["process"], results["status"]) == ("done", None, "done"), said
    parts = sorted((tmp_path / "run" / "outputs").glob("part-*.jsonl"))
    found = sorted(json.loads(line) for part in parts for line in part.read_text().splitlines())
    assert found == [[ts, sum(range(max(ts - 10, 0), ts))] for ts in range(0, 300, 10)]
