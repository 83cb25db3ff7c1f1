"""Every example query has its expected rows on every engine: the interpreter, DuckDB, Spark, and runs of dgs on every runtime and plan."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("lark")

import dgs
from dgs.api.queries.asking import TOLERANCE, Asked
from tests.experiments.query_examples import EXAMPLES, EXPECTED, Example, Rows, assert_same

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not EXPECTED.is_dir(), reason="the cases are not beside the checkout (shared/cases)"),
]

SEEDS = range(1, 6)
slow = pytest.mark.slow
every = pytest.mark.parametrize("example", EXAMPLES, ids=str)
BY_DUCKDB = ("flights_weather", "pagerank", "kmeans", "channels")
BY_PLANS = ("three_tables", "flights_by_carrier")


def some(names, seeds=(None,)):
    """Return all examples with seeds. Examples of the given names with the first seed are quick tests."""
    return [
        pytest.param(
            *([one] if seed is None else [one, seed]),
            marks=[] if one.name in names and seed == seeds[0] else slow,
        )
        for one in EXAMPLES
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def duckdb_rows():
    """The rows of an example by DuckDB; a test below compares DuckDB with the interpreter."""
    known: dict[str, Rows] = {}

    def duckdb_rows(example: Example) -> Rows:
        if example.name not in known:
            known[example.name] = example.rows(Asked.local)
        return known[example.name]

    return duckdb_rows


def ran(example, run_dir, *, settings=None, **options):
    """Run the plan file; return the rows."""
    split = {f"streams.{name}.split": 2 for name in example.split}
    options |= {"run_dir": run_dir, "fresh": True, "settings": split | (settings or {})}
    return dgs.run(example.plan, tolerance=TOLERANCE, **options)


@pytest.mark.parametrize("example", some(BY_DUCKDB), ids=str)
def test_duckdb_gives_the_expected_rows(example, duckdb_rows):
    example.check(duckdb_rows(example))


@slow
@every
def test_the_interpreter_gives_the_rows(example, duckdb_rows):
    rows = example.rows(Asked.interpreted)
    example.check(rows)
    assert_same(rows, duckdb_rows(example))


@pytest.mark.parametrize(("example", "seed"), some(BY_PLANS, SEEDS), ids=str)
def test_random_plans_give_the_expected_rows(example, seed, duckdb_rows, tmp_path):
    run = ran(example, tmp_path / "run", optimizer={"name": "random", "seed": seed})
    example.check(list(run.outputs))
    if seed != SEEDS[0]:  # the quick ones have no further comparison
        assert_same(list(run.outputs), duckdb_rows(example))


@slow
@every
def test_a_run_is_verified_by_the_sequential_program(example, tmp_path):
    run = ran(example, tmp_path / "run", verify=True)
    assert run.verified
    example.check(list(run.outputs))


@slow
@pytest.mark.ray
@every
def test_two_hosts_give_the_rows(example, duckdb_rows, tmp_path, ray_cluster):
    settings = {"optimizer.name": "greedy", "runtime.hosts": 2}
    run = ran(example, tmp_path / "run", runtime="ray", settings=settings)
    assert run.report["hosts"] == 2
    assert_same(list(run.outputs), duckdb_rows(example))


@slow
@every
def test_spark_gives_the_rows(example, duckdb_rows, spark):
    assert_same(example.rows(Asked.on_spark), duckdb_rows(example))


@slow
@every
def test_a_run_on_spark_gives_the_rows(example, duckdb_rows, tmp_path, spark):
    assert_same(list(ran(example, tmp_path / "run", runtime="spark").outputs), duckdb_rows(example))


@slow
@every
def test_all_laws_hold(example):
    for target, params in ((example.plan, {}), (example.text, dict(example.params))):
        report = dgs.check(target, max_examples=10, params=params)
        assert report.ok, report
        assert {one.law for one in report.laws if one.status != "holds"} == {"compiled"}
