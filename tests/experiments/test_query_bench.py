"""The bench of queries: both sides of each duel have the same rows."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import pyarrow as pa

from experiments.queries.bench import measured, results
from experiments.queries.query_workloads import WORKLOADS, Duel, Sizes, averages, many_to_many

TINY = Sizes(base=3_000, side=2_000, state=500, answer=300, repeats=2)


@pytest.mark.slow
def test_every_workload_runs():
    found = list(results(list(WORKLOADS), TINY))
    assert len(found) == 10
    assert all(one.ours > 0 for one in found)


@pytest.mark.parametrize("workload", [averages, many_to_many])
def test_an_answer_that_is_kept_is_the_recomputed_one(workload):
    """Before the first increment; afterwards ours has more rows."""
    kept = next(one for one in workload(TINY) if "DuckDB" in one.opponent)
    program = kept.ours(0).func.__self__
    (ours,) = program.answer().values()
    duck = kept.theirs(0)()
    assert ours.to_pylist() == duck.cast(pa.schema(ours.schema)).to_pylist()


@pytest.mark.slow
def test_figures_are_of_their_kinds():
    duel = Duel("x", "y", 1.0, lambda _: lambda: None, lambda _: lambda: sum(range(100_000)))
    assert 0 < measured(duel, TINY).figure < 1
    assert measured(duel, TINY).is_met
