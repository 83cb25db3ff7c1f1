"""`dgs explain --types`: the type of each edge of a plan file's flow, and where each step runs."""

import json

import pytest
from typer.testing import CliRunner

import dgs
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
    return readings.key_by("plug").map(lambda _, row: row["load"]).apply(Last()).aggregate(SUM, idle="all")
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


@pytest.mark.parametrize(("split", "has_tail"), [(2, True), (1, False)])
def test_the_report_has_the_share_of_the_worker_that_closes_blocks_and_types_print_it(
    explain, tmp_path, split, has_tail
):
    rows = [json.dumps({"ts": ts, "payload": {"plug": ts % 7, "load": ts}}) for ts in range(400)]
    (tmp_path / "readings.jsonl").write_text("\n".join(rows))
    (stream,) = PLAN["streams"]
    optimizer = {"name": "random", "seed": 1} if has_tail else {"name": "sequential"}
    plan = {**PLAN, "streams": [{**stream, "split": split}], "optimizer": optimizer}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    report = dgs.run("plan.yaml", runtime="local").report
    printed = explain(plan).stdout.splitlines()[-1]
    if not has_tail:
        assert "tail" not in report
        assert printed == "shape: mixed"
        return
    tail, workers = report["tail"], report["per_worker"]
    spent = workers[tail["worker"]]
    assert tail["seconds"] == sum(spent[f"{part}_seconds"] for part in ("update", "fork", "join")) > 0
    assert tail["share"] == tail["seconds"] / report["seconds"]
    assert printed.startswith(f"the last run: {tail['worker']}, which closes blocks, was busy for ")
    assert printed.endswith(f" s, {tail['share']:.0%} of the time")


def test_the_report_has_each_worker_that_closes_classes_and_types_print_the_busiest(explain, tmp_path):
    (tmp_path / "flow.py").write_text(FLOW.replace(', idle="all"', ""))
    rows = [json.dumps({"ts": ts, "payload": {"plug": ts % 7, "load": ts}}) for ts in range(400)]
    (tmp_path / "readings.jsonl").write_text("\n".join(rows))
    plan = {**PLAN, "optimizer": {"name": "greedy", "max_leaves": 4}}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    report = dgs.run("plan.yaml", runtime="local").report
    tail, workers = report["tail"], report["per_worker"]
    assert len(tail["all"]) > 1
    assert tail["all"].keys() <= workers.keys()
    assert (tail["worker"], tail["seconds"]) == max(tail["all"].items(), key=lambda one: one[1])
    printed = explain(plan).stdout.splitlines()[-1]
    of = f"the busiest of {len(tail['all'])} workers that close blocks"
    assert printed.startswith(f"the last run: {tail['worker']}, {of}, was busy for ")
