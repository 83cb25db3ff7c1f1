"""Query IV of Yahoo has its 980 rows once: after kills of hosts, after a move to another plan, after a stop and a resume elsewhere, and on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.crash import query_four
from experiments.crash.jobs import in_table
from tests.dgs.flow.published import HAS_CASES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]


@pytest.mark.ray
def test_kills_of_hosts_keep_each_row_once(tmp_path: Path) -> None:
    assert query_four.killed(tmp_path, 3, seed=5)
    assert in_table(tmp_path / "out.db") == query_four.rows()


@pytest.mark.ray
@pytest.mark.parametrize("runtime", query_four.MOVES)
def test_a_moved_and_stopped_run_resumes_under_another_plan_and_runtime(tmp_path: Path, runtime: str) -> None:
    assert query_four.moved(tmp_path, runtime) < query_four.rows().total()
    assert in_table(tmp_path / "out.db") == query_four.rows()


def test_spark_gives_the_rows(tmp_path: Path) -> None:
    query_four.on_spark(tmp_path)
    assert in_table(tmp_path / "out.db") == query_four.rows()
