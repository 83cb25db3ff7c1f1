"""The flows over the access log against rows that plain loops over the whole log have made, under several plans."""

import json
from pathlib import Path

import pytest

import dgs

HOME = Path(__file__).parents[2] / "experiments" / "apache_logs"
SHARED = HOME.parents[2] / "shared"
CASES = SHARED / "cases" / "flows"
NAMES = {"hourly": "apache_hourly", "six_hours": "apache_6h_every_1h", "since_404": "apache_since_404"}

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not (CASES.is_dir() and (SHARED / "data" / "apache_logs").is_dir()),
        reason="the access log and its cases are not beside the checkout",
    ),
]


def expected(name):
    return sorted((CASES / f"{NAMES[name]}.expected.jsonl").read_text().splitlines())


def rows(run):
    return sorted(json.dumps(row, separators=(",", ":")) for row in run.outputs)


@pytest.mark.parametrize(("name", "split"), [("hourly", 1), ("six_hours", 3), ("since_404", 1)])
def test_outputs_are_those_of_plain_loops(name, split, tmp_path):
    settings = {"optimizer.name": "random", "optimizer.seed": split, "streams.log.split": split}
    plan = HOME / f"{name}.yaml"
    run = dgs.run(plan, runtime="local", settings=settings, run_dir=tmp_path / "run")
    assert rows(run) == expected(name)


@pytest.mark.ray
def test_outputs_on_two_hosts_are_the_same(tmp_path, ray_cluster):
    settings = {"optimizer.name": "greedy", "runtime.hosts": 2, "streams.log.split": 2}
    plan = HOME / "six_hours.yaml"
    run = dgs.run(plan, runtime="ray", settings=settings, run_dir=tmp_path / "run")
    assert rows(run) == expected("six_hours")
    assert run.report["hosts"] == 2
