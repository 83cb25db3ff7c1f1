"""The cases recorded from the prototype, read from their files and run under several plans."""

from __future__ import annotations

from collections import Counter

import pytest

import dgs
from dgs.workers.simulated.simulation import simulate
from tests.recorded_programs import CASES, PROGRAMS, as_json, recorded, sums_of
from tests.selection import rest_is_slow

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded cases are not beside the checkout (shared/cases)"
)

OPTIMIZERS = [("sequential", 0), ("greedy", 0), ("random", 0)]

SHORT = ["ab_example1", "ab_example2", "increment_decrement"]
"""Cases of few events: the scheduler makes a step for almost every event."""


def run_case(case: str, runtime: dict[str, object], optimizer: str, seed: int) -> None:
    told = recorded(case)
    work = told.workload
    run = dgs.run(
        work.program,
        streams=dict(zip(work.stream_ids, work.feeds, strict=True)),
        runtime=runtime,
        optimizer={"name": optimizer, "seed": seed, "max_leaves": 4},
    )
    lines = [as_json(value) for value in run.outputs]
    for recording, expected in told.outputs.items():
        assert Counter(lines) == expected, recording
        assert sums_of(lines) == told.sums[recording], recording


@pytest.mark.parametrize("case", PROGRAMS)
@pytest.mark.parametrize(("optimizer", "seed"), rest_is_slow(OPTIMIZERS, keep=2))
def test_recorded_case_runs_locally_with_the_recorded_outputs(case, optimizer, seed):
    run_case(case, {"kind": "local"}, optimizer, seed)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    "case", rest_is_slow(sorted(PROGRAMS, key=lambda case: (case != "page_view_join", case)))
)
def test_recorded_case_runs_on_ray_with_the_recorded_outputs(case):
    run_case(case, {"kind": "ray", "hosts": 2}, "greedy", 0)


@pytest.mark.parametrize("case", SHORT)
def test_recorded_case_runs_under_the_seeded_scheduler_with_the_recorded_outputs(case):
    told = recorded(case)
    work = told.workload
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    plan = dgs.run(
        work.program, streams=streams, runtime="local", optimizer={"name": "random", "seed": 5}
    ).plan
    lines = Counter(as_json(value) for value in simulate(work.program, plan, streams, seed=1).values())
    assert all(lines == expected for expected in told.outputs.values())
