"""The flows and pipelines of the experiments have the rows of the published cases on two hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dgs.flow.published import HAS_CASES
from tests.experiments.flow_cases import CASES, ran

pytestmark = [
    pytest.mark.data,
    pytest.mark.ray,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_hosts_give_the_published_rows(case: str, tmp_path: Path, ray_cluster: None) -> None:
    """A flow of one key has one worker, and then one host."""
    run = ran(case, tmp_path, runtime="ray", settings={"optimizer.name": "greedy", "runtime.hosts": 2})
    assert run.report["hosts"] == min(2, len(list(run.plan.nodes())))


def test_two_hosts_give_the_rows_of_six_hours(tmp_path: Path, ray_cluster: None) -> None:
    settings = {"optimizer.name": "greedy", "runtime.hosts": 2, "streams.log.split": 2}
    assert ran("apache_6h_every_1h", tmp_path, runtime="ray", settings=settings).report["hosts"] == 2
