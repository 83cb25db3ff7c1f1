"""A run with `on_error: skip` over rows that cannot be read, killed and resumed: each such row becomes one dead letter."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.dgs.projects import sums_program, write_files
from tests.selection import rest_is_slow

LAST, WINDOW = 60, 10
WRONG = {3, 4, 17, 18, 31, 45, 58}
"""The rows that cannot be read, in each stream."""

PROGRAM = sums_program(
    imports="import os\n",
    on_value="""\
if event.ts == int(os.environ.get("KILLED_AT", -1)):
    os._exit(9)
return state + event.payload""",
)
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - id: barriers
    tags: {kind: barrier}
    source: {csv: {path: barriers.csv}}
  - id: cells
    tags: {kind: value}
    source: {csv: {path: cells.csv, columns: {ts: int, amount: int}}}
    payload: amount
    split: 2
  - id: lines
    tags: {kind: value}
    source: {jsonl: {path: lines.jsonl}}
    payload: amount
  - id: columns
    tags: {kind: value}
    source: {parquet: {path: columns.parquet}}
    payload: amount
runtime: {kind: local, batch_rows: 3}
optimizer: {max_leaves: 2, name: greedy}
checkpoint: {every: 1ms}
on_error: skip
sinks: [{jsonl: {path: out}}]
"""
FACTORS = {"cells": 1, "lines": 100, "columns": 10_000}
RUN = "import dgs; dgs.run('plan.yaml', run_dir='run', resume={})"


def run(folder, *, killed_at=None):
    """Run or resume the project; return the exit code."""
    environ = os.environ | ({} if killed_at is None else {"KILLED_AT": str(killed_at)})
    command = [sys.executable, "-c", RUN.format((folder / "run").exists())]
    return subprocess.run(command, cwd=folder, env=environ, check=False, timeout=100).returncode


def expected():
    """Return the outputs: sums of the rows that can be read, by a loop over the times."""
    total, found = 0, []
    for ts in range(LAST):
        if ts and ts % WINDOW == 0:
            found.append(total)
            total = 0
        total += 0 if ts in WRONG else ts * sum(FACTORS.values())
    return found


def written(folder):
    """Return the outputs and the identities of the dead letters in files with final names, both sorted."""
    lines = [line for path in folder.glob("out/part-*.jsonl") for line in path.read_text().splitlines()]
    letters = [
        json.loads(line)
        for path in folder.glob("run/dead-letter-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return sorted(map(json.loads, lines)), sorted((letter["stream"], letter["seq"]) for letter in letters)


@pytest.mark.parametrize(
    "killed_at",
    rest_is_slow([((16, 44),), ((5,),), ((9, 19, 46, 59),)]),
    ids=["twice", "once", "four_times"],
)
def test_unreadable_rows_are_dead_letters_once_although_the_run_was_killed(tmp_path, killed_at):
    rows = {name: [(ts, ts * factor) for ts in range(LAST)] for name, factor in FACTORS.items()}
    cells = "".join(f"{ts},{'x' if ts in WRONG else n}\n" for ts, n in rows["cells"])
    lines = "".join(
        "{\n" if ts in WRONG else json.dumps({"ts": ts, "amount": n}) + "\n" for ts, n in rows["lines"]
    )
    times = [None if ts in WRONG else ts for ts in range(LAST)]
    pq.write_table(
        pa.table({"ts": times, "amount": [n for _, n in rows["columns"]]}),
        tmp_path / "columns.parquet",
        row_group_size=7,
    )
    barriers = "".join(f"{ts}\n" for ts in range(WINDOW, LAST, WINDOW))
    write_files(
        tmp_path,
        {
            "program.py": PROGRAM,
            "plan.yaml": PLAN,
            "barriers.csv": f"ts\n{barriers}",
            "cells.csv": f"ts,amount\n{cells}",
            "lines.jsonl": lines,
        },
    )
    assert [run(tmp_path, killed_at=at) for at in killed_at] == [9] * len(killed_at)
    _, early = written(tmp_path)
    assert len(early) < len(WRONG) * len(FACTORS)
    assert run(tmp_path) == 0
    assert written(tmp_path) == (expected(), sorted((name, row) for name in FACTORS for row in WRONG))
