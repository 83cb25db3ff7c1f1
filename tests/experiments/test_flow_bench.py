"""The benchmark of flows: both sides of every workload give the same outputs, and each goal has its two sides."""

import json

import pytest

from dgs.bench.measuring import measured
from experiments.bench import flow_goals, report
from tests.selection import every_other

SMALL = 0.004


@pytest.mark.parametrize("workload", every_other(flow_goals.WORKLOADS), ids=lambda one: one.__name__)
def test_sides_of_a_workload_give_the_same_outputs(workload):
    samples = list(measured(workload(SMALL), repetitions=1))
    assert [sample.problem for sample in samples] == [None] * len(samples)
    assert all(sample.events for sample in samples)


def test_goal_is_missed_if_outputs_are_wrong():
    rows = [
        {"app": "query IV, int64", "engine": engine, "seconds": seconds, "problem": problem}
        for engine, seconds, problem in (("flow", 1.0, "other outputs"), ("numpy", 9.0, None))
    ]
    (result,) = flow_goals.results(rows)
    assert result.ratio == 0.0
    assert not result.is_met


def test_report_has_the_goals_of_the_measured_workloads(tmp_path, monkeypatch):
    monkeypatch.setattr(flow_goals, "QUICK_SCALE", SMALL)
    flow_goals.run(report.surroundings({}), tmp_path / "flows.json", 1, quick=True, apps=["windows"])
    data = json.loads((tmp_path / "flows.json").read_text())
    assert [goal["goal"]["engine"] for goal in data["goals"]] == ["10 panes", "1,000 panes"]
    assert {row["app"] for row in data["rows"]} == {"windows"}
