"""Queries of failed runs are resumed: under another plan, with another HAVING, but not with another join key."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

pytestmark = pytest.mark.slow

QUERY = "select o.c, count(*) as n, sum(i.v) as s from orders o join items i on i.o = o.o group by o.c"
PLAN = """\
version: 1
name: kept
program: {query: {file: query.sql, answer: {every: 1000}}}
streams:
  - {id: orders, source: {generator: {ref: "rows.py:orders"}}}
  - {id: items, source: {generator: {ref: "rows.py:items"}}, split: 2}
runtime: {kind: local, batch_rows: 64}
checkpoint: {every: 10ms, dir: saved}
sinks: [{jsonl: {path: out}}]
"""
ROWS = """\
import time
from pathlib import Path


def orders():
    for number in range(20):
        yield "orders", 2 * number, {"o": number, "c": number % 3}


def items():
    for number in range(6000):
        if number > 5000 and Path(__file__).with_name("fail").exists():  # behind the rows that tell the columns
            time.sleep(0.005)
            if number == 5400:
                raise RuntimeError("the source is gone")
        yield "items", number, {"o": number % 23, "v": number}
"""


def dgs(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "dgs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


def rows_of(folder):
    """The rows of all outputs, each as often as it was written."""
    lines = (line for file in sorted(folder.glob("out/*.jsonl")) for line in file.read_text().splitlines())
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


@pytest.fixture
def failed(tmp_path):
    """A project whose run has failed after a checkpoint."""
    for name, text in (("query.sql", QUERY), ("plan.yaml", PLAN), ("rows.py", ROWS), ("fail", "")):
        (tmp_path / name).write_text(text)
    code, said = dgs(tmp_path, "run", "plan.yaml")
    assert code == 1, said
    assert list(tmp_path.glob("saved/*")), "there is a checkpoint"
    (tmp_path / "fail").unlink()
    return tmp_path


def test_another_plan_gives_the_outputs_once(failed, tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole")
    for name in ("query.sql", "plan.yaml", "rows.py"):
        (whole / name).write_text((failed / name).read_text())
    assert dgs(whole, "run", "plan.yaml")[0] == 0
    other_plan = ("--optimizer", "random", "--set", "optimizer.seed=7")
    code, said = dgs(failed, "run", "plan.yaml", "--resume", *other_plan)
    assert code == 0, said
    assert rows_of(failed) == rows_of(whole)


def test_another_having_is_asked_of_the_kept_state(failed):
    (failed / "query.sql").write_text(f"{QUERY} having count(*) > 1")
    code, said = dgs(failed, "run", "plan.yaml", "--resume")
    assert code == 0, said


def test_another_join_key_is_refused(failed):
    (failed / "query.sql").write_text(QUERY.replace("i.o = o.o", "i.v = o.o"))
    code, said = dgs(failed, "run", "plan.yaml", "--resume")
    assert code == 6, said
