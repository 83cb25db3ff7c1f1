"""The beginning of every experiment has the sequential outputs, on the local runtime with at least two leaves."""

from pathlib import Path

import pytest

import dgs

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "nycflights13"
SYNTHETIC = [
    "event_window/plan.yaml",
    "page_view_join/plan.yaml",
    "fraud_detection/plan.yaml",
    "fraud_detection/plan_cyclic.yaml",
]
FLIGHTS = ["flights/plan.yaml", "flights/plan_split.yaml"]


def verified(plan_file, directory, events):
    settings = {"optimizer.name": "greedy", "optimizer.max_leaves": 4}
    run = dgs.run(
        ROOT / "experiments" / plan_file,
        runtime="local",
        max_events=events,
        verify=True,
        run_dir=directory,
        settings=settings,
    )
    assert run.verified, run.differences
    assert run.report["events_in"] == events
    assert len(run.plan.leaves) >= 2
    return run


@pytest.mark.parametrize("plan_file", SYNTHETIC)
def test_experiment_has_the_sequential_outputs(plan_file, tmp_path):
    assert verified(plan_file, tmp_path / "run", 45_000).outputs


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the nycflights13 data is not beside the checkout")
@pytest.mark.parametrize("plan_file", FLIGHTS)
def test_flights_have_the_sequential_outputs(plan_file, tmp_path):
    run = verified(plan_file, tmp_path / "run", 10_000)
    assert len(run.outputs) == 10_000


@pytest.mark.slow
@pytest.mark.ray
def test_main_job_runs_on_ray(tmp_path):
    run = dgs.run(ROOT / "experiments" / "page_view_join" / "plan.yaml", run_dir=tmp_path / "run")
    assert run.report["runtime"] == "ray"
    assert len(run.outputs) == run.report["events_in"] == 1_000_027
