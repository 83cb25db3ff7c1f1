"""`dgs explain --types`: the type of each edge of a plan file's flow, and where each step runs."""

import json

import pytest
from typer.testing import CliRunner

from dgs.cli.app import app

FLOW = """\
from dgs.flow import every, flow, KeyedOrdered
from dgs.monoids import SUM

class Last(KeyedOrdered):
    def on_item(self, state, key, value, emit):
        emit(value - (state or 0))
        return value

@flow(clock=every(10))
def changes(readings):
    return readings.key_by("plug").map(lambda _, row: row["load"]).apply(Last()).aggregate(SUM)
"""
PLAN = {
    "version": 1,
    "name": "changes",
    "flow": {"ref": "flow.py:changes", "classes": 8},
    "streams": [{"id": "readings", "source": {"jsonl": {"path": "readings.jsonl"}}}],
}
EXPLAINED = """\
flow changes, clock every 10
readings  source     O((), Any)
step 1    key_by     O(Any, Any)  where rows are read
step 2    map        O(Any, Any)  where rows are read
step 3    Last       O(Any, Any)  by hash class of its key; closed at ticks
step 4    aggregate  O(Any, Any)  at ticks
shape: mixed
"""


@pytest.fixture
def explain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "program.py").write_text("import dgs\nclass P(dgs.Program):\n    def init(self): return 0\n")

    def run(plan, *flags):
        (tmp_path / "plan.yaml").write_text(json.dumps(plan))
        return CliRunner().invoke(app, ["explain", "plan.yaml", "--types", *flags])

    return run


def test_types_of_a_flow_are_printed(explain):
    done = explain(PLAN)
    assert (done.exit_code, done.stdout) == (0, EXPLAINED)


def test_types_of_a_flow_are_data_with_json(explain):
    assert json.loads(explain(PLAN, "--json").stdout)["types"] == EXPLAINED.splitlines()


def test_types_of_a_program_are_refused(explain):
    streams = [{**PLAN["streams"][0], "tags": {"kind": "k"}}]
    plan = {"version": 1, "name": "p", "program": {"ref": "program.py:P"}, "streams": streams}
    assert explain(plan).exit_code == 2
