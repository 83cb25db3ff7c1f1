"""Queries whose input, checkpoint directory or life is taken from them, and columns with names of Spark's own."""

import threading
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.errors import OwnedLogError
from dgs.job.schema import SparkSource, StreamConfig
from dgs.spark_bridge.ingest import ingest
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.workers.event_log import failure, summary
from tests.spark_bridge.writing import put_file, rows_in, tables_in


def stream(**source):
    return StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(**source)})


def test_query_that_something_else_stops_leaves_the_log_open(spark, tmp_path):
    put_file(tmp_path / "in", 0, [(1, 1)])
    [query] = queries_of([stream(format="parquet", path="in", trigger="10ms")], unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    feed.counts.listener = lambda: [found.stop() for found in spark.streams.active]
    assert feed.begin()
    feed.run(spark, threading.Event())
    assert "something else stopped it" in str(failure.found(tmp_path / "log" / "s"))
    assert not any(found.is_closed for found in summary.streams(tmp_path / "log"))


@pytest.mark.parametrize("lost", ["input", "checkpoint"])
def test_what_goes_away_while_a_query_runs_ends_the_run(spark, tmp_path, lost):
    names = [put_file(tmp_path / "in dir%20é", number, [(number, 1)]) for number in range(12)]
    [query] = queries_of(
        [stream(format="parquet", path="in dir%20é", options={"maxFilesPerTrigger": 1})], unit="ms"
    )
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)

    def lose():
        if feed.counts.committed == 1:
            if lost == "input":
                names[9].unlink(missing_ok=True)
            else:
                (feed.checkpoint / "metadata").unlink(missing_ok=True)

    feed.counts.listener = lose
    assert feed.begin()
    feed.run(spark, threading.Event())
    problem = {"input": f"{names[9]} went away before Spark read it", "checkpoint": "was removed while"}[lost]
    assert problem in str(failure.found(tmp_path / "log" / "s"))
    assert len(rows_in(tmp_path / "log")) == (9 if lost == "input" else 1)


def test_column_of_the_name_of_sparks_own_is_kept_beside_dead_letters(spark, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, None], "_metadata": [7, 8]}), tmp_path / "in" / "a.parquet")
    [query] = queries_of([stream(format="parquet", path="in", on_malformed="dead_letter")], unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    assert feed.begin()
    feed.run(spark, threading.Event())
    assert [row for table in tables_in(tmp_path / "log") for row in table.to_pylist()] == [
        {"ts": 1, "_metadata": 7}
    ]


def test_streams_of_a_log_are_fed_by_one_run_at_a_time(tmp_path):
    [query] = queries_of([stream(format="parquet", path="in", trigger="10ms")], unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    with ExitStack() as first, ExitStack() as second:
        ingest._hold(feed, first)
        with pytest.raises(OwnedLogError, match="'s' is written by 'process"):
            ingest._hold(feed, second)
    with ExitStack() as later:
        ingest._hold(feed, later)
