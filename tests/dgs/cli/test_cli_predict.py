"""`dgs predict`, and the plans that `--optimizer cost` makes."""

import json

import pytest


def test_predict_says_what_bounds_the_job(project, dgs):
    done = dgs("predict plan.yaml --hosts 2,1")
    assert (done.code, done.err) == (0, "")
    head, *rows = done.out.splitlines()
    assert head.split()[:3] == ["hosts", "workers", "throughput"]
    assert [row.split()[0] for row in rows[:2]] == ["1", "2"]


def test_predict_as_json_has_one_prediction_for_each_number_of_hosts(project, dgs):
    found = json.loads(dgs("predict plan.yaml --hosts 1,2,1000 --json").out)["predictions"]
    assert [one["hosts"] for one in found] == [1, 2, 1000]
    rates = [one["throughput"] for one in found]
    assert 0 < rates[0] <= rates[1] <= rates[2]


def test_predict_keeps_a_plan_by_hand(project, dgs):
    dgs("plan plan.yaml --optimizer greedy --save mine.yaml")
    found = json.loads(dgs("predict plan.yaml --plan mine.yaml --hosts 1,2 --json").out)["predictions"]
    assert [one["workers"] for one in found] == [3, 3]


@pytest.mark.parametrize("hosts", ["none", "0", "1,-2", ""])
def test_predict_refuses_what_is_no_number_of_hosts(project, dgs, hosts):
    done = dgs(f"predict plan.yaml --hosts '{hosts}'")
    assert done.code == 2
    assert "numbers of hosts, such as 1,2,4,8,16" in done.err


def test_cost_makes_one_worker_for_one_process(project, dgs):
    done = dgs("plan plan.yaml --optimizer cost --set runtime.kind=local")
    assert done.out.splitlines() == ["w0: barrier from barriers; value from left, right"]
    assert "one worker: no other is predicted to be faster (one worker: " in done.err
    assert "; 3 workers: " in done.err


def test_a_run_with_the_optimizer_cost_is_verified(project, dgs):
    assert json.loads(dgs("run plan.yaml --optimizer cost --runtime local --verify --json").out)["verified"]
