"""Experiments whose input Spark reads: events equal the generators', and tables hold the sequential program's outputs."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.job.loading import load_callable
from experiments.page_view_join.write_input import write
from tests.spark_bridge.writing import tables_in

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FLIGHTS, PAGES = EXPERIMENTS / "flights", EXPERIMENTS / "page_view_join"
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "nycflights13"

needs_data = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the nycflights13 data is not beside the checkout"),
]


def tables(place, events):
    """The directory for a run's tables. It is not beside the plan file, where another process may use other tables."""
    return {
        "checkpoint.spark": {"path": str(place / "checkpoints")},
        "sinks": [{"spark": {"path": str(place / "outputs")}}],
        **events,
    }


def kept(place):
    """Return the last row of the table of checkpoints: whether it is the end, events, outputs."""
    rows = pq.read_table(place / "checkpoints").to_pylist()
    last = max(rows, key=lambda row: row["epoch"])
    assert len({row["epoch"] for row in rows}) == len(rows)
    return last["is_final"], last["events"], sum(row["outputs"] or 0 for row in rows)


def logged(run_dir, stream, columns):
    """The events of a log, as sorted rows."""
    tables = tables_in(run_dir / "logs", stream)
    return rows_of(pa.concat_tables(rows for rows in tables if len(rows)), columns)


def rows_of(table, columns):
    """Rows as a multiset of texts, so widths of integers and nulls do not matter."""
    texts = [pc.cast(table[name], pa.string()).fill_null("null").combine_chunks() for name in columns]
    return Counter(pc.binary_join_element_wise(*texts, "|").to_pylist())


def generated(source, columns, month=None):
    """The events of a generator; those of a month of the file, if it is given."""
    table = pa.concat_tables(load_callable(f"source.py:{source}", FLIGHTS)(str(DATA)))
    return rows_of(table if month is None else table.filter(pc.equal(table["month"], month)), columns)


SEEN = ("ts", "origin", "carrier", "flight", "tailnum", "dest", "dep_delay")
MEASURED = ("ts", "origin", "time_hour", "temp", "wind_speed", "visib")


class TestFlights:
    pytestmark = needs_data

    def check(self, run, place, *, month, events):
        assert run.verified, run.differences
        assert run.report["events_in"] == run.report["outputs"] == events
        assert logged(run.run_dir, "flights", SEEN) == generated("flights", SEEN, month)
        assert logged(run.run_dir, "weather", MEASURED) == generated("weather", MEASURED, month)
        assert kept(place) == (True, events, events)

    @pytest.mark.slow
    def test_a_month_has_the_events_of_the_generators_and_the_sequential_outputs(self, spark, tmp_path):
        where = {
            "streams.weather.source.spark.where": "month = 3",
            "streams.flights.source.spark.where": "month = 3 AND dep_time IS NOT NULL",
        }
        plan = FLIGHTS / "plan_spark.yaml"
        run = dgs.run(
            plan, runtime="local", verify=True, run_dir=tmp_path / "run", settings=tables(tmp_path, where)
        )
        self.check(run, tmp_path, month=3, events=30_200)

    @pytest.mark.slow
    @pytest.mark.ray
    def test_the_year_has_the_events_of_the_generators_and_the_sequential_outputs(self, spark, tmp_path):
        plan = FLIGHTS / "plan_spark.yaml"
        run = dgs.run(plan, verify=True, run_dir=tmp_path / "run", settings=tables(tmp_path, {}))
        assert run.report["runtime"] == "ray"
        self.check(run, tmp_path, month=None, events=354_636)


def outputs_of(plan, place, events):
    run = dgs.run(plan, runtime="local", run_dir=place, settings=events)
    return Counter(json.dumps(value, sort_keys=True) for value in run.outputs), run


def test_main_job_has_the_outputs_of_the_job_without_spark(spark, tmp_path):
    write(tmp_path / "input", events=10_000)
    path = {"streams.updates.source.spark.path": str(tmp_path / "input")}
    found, run = outputs_of(PAGES / "plan_spark.yaml", tmp_path / "run", tables(tmp_path, path))
    streams = ("updates", "views-0", "views-1", "views-2", "views-3")
    fewer = {f"streams.{stream}.source.generator.args.events": 10_000 for stream in streams}
    expected, _ = outputs_of(PAGES / "plan.yaml", tmp_path / "other", fewer)
    assert found == expected
    assert kept(tmp_path) == (True, 40_003, 40_003)
    assert run.report["events_in"] == 40_003


def test_input_is_written_once_and_whole(tmp_path):
    write(tmp_path / "input", events=1000)
    table = pq.read_table(tmp_path / "input")
    assert Counter(table["stream"].to_pylist()) == {"updates": 2, **{f"views-{n}": 1000 for n in range(4)}}
    with pytest.raises(OSError, match="not empty"):
        write(tmp_path / "input", events=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["input"]
