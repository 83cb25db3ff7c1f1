"""A query whose `where:` and `select:` change between two runs: the change applies from the next micro-batch on."""

import json
import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.errors import PlanFileError
from dgs.job.schema import SparkSource, StreamConfig
from dgs.spark_bridge.ingest.feed import DESCRIPTION, Feed
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.workers.event_log import failure
from tests.spark_bridge.test_faults import forget_last_commit
from tests.spark_bridge.writing import batches_in, put_file, tables_in


def feed_of(tmp_path, said, **source):
    given = {"format": "parquet", "path": "in", "trigger": "100ms", **source}
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(**given)})
    [query] = queries_of([stream], unit="ms")
    return Feed(query, tmp_path / "log", base_dir=tmp_path, notify=said.append)


def run_until(spark, feed, batches):
    """Run a query until its log has `batches` batches, and Spark has committed them."""
    stop = threading.Event()
    assert feed.begin()
    thread = threading.Thread(target=feed.run, args=(spark, stop))
    thread.start()
    patience = time.monotonic() + 240
    try:
        while not (feed.checkpoint / "commits" / str(batches - 1)).exists():
            assert failure.found(feed.log / "s") is None
            assert time.monotonic() < patience
            time.sleep(0.02)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("is_repeated", [False, True])
def test_changes_apply_from_the_next_micro_batch_on(spark, tmp_path, is_repeated):
    said = []
    put_file(tmp_path / "in", 0, [(1, 1), (2, 2), (3, 3)])
    first = feed_of(tmp_path, said, where="v > 1")
    run_until(spark, first, 1)
    if is_repeated:
        forget_last_commit(first.checkpoint)
    put_file(tmp_path / "in", 1, [(4, 1), (5, 2), (6, 3)])
    second = feed_of(tmp_path, said, where="v < 3", select=["ts", "v", "10 * v AS w"])
    run_until(spark, second, 2)
    rows = [row for table in tables_in(tmp_path / "log") for row in table.to_pylist()]
    assert rows == [
        {"ts": 2, "v": 2},
        {"ts": 3, "v": 3},
        {"ts": 4, "v": 1, "w": 10},
        {"ts": 5, "v": 2, "w": 20},
    ]
    assert batches_in(tmp_path / "log") == [(0, 2), (1, 2)]
    assert any("`select:` and `where:` changed" in sentence for sentence in said)
    kept = json.loads((second.checkpoint.parent / DESCRIPTION).read_text())
    assert kept["earlier"] == [{"through": 0 if is_repeated else None, "where": "v > 1", "select": []}]


@pytest.mark.parametrize("way", ["columns", "mergeSchema"])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_later_files_may_have_more_columns(spark, tmp_path, is_repeated, way):
    """A repeated batch with a column more than at its first reading, or in another order, is the same batch."""

    def feed(**columns):
        said = {"columns": columns} if way == "columns" else {"options": {"mergeSchema": True}}
        return feed_of(tmp_path, [], **said)

    put_file(tmp_path / "in", 0, [(1, 1), (2, 2)])
    first = feed(ts="BIGINT", v="BIGINT")
    run_until(spark, first, 1)
    if is_repeated:
        forget_last_commit(first.checkpoint)
    path = tmp_path / "in" / "1.parquet"
    pq.write_table(pa.table({"ts": [3], "v": [3], "w": ["new"]}), path)
    os.utime(path, (1_000_001, 1_000_001))
    run_until(spark, feed(w="STRING", v="BIGINT", ts="BIGINT"), 2)
    rows = [row for table in tables_in(tmp_path / "log") for row in table.to_pylist()]
    assert rows == [{"ts": 1, "v": 1}, {"ts": 2, "v": 2}, {"ts": 3, "v": 3, "w": "new"}]
    assert batches_in(tmp_path / "log") == [(0, 2), (1, 1)]


def test_columns_of_another_type_are_refused(spark, tmp_path):
    put_file(tmp_path / "in", 0, [(1, 1)])
    run_until(spark, feed_of(tmp_path, [], columns={"ts": "BIGINT", "v": "BIGINT"}), 1)
    with pytest.raises(PlanFileError, match="`columns:` has changed"):
        feed_of(tmp_path, [], columns={"ts": "BIGINT", "v": "STRING", "w": "STRING"}).begin()


def test_other_changes_are_refused(spark, tmp_path):
    put_file(tmp_path / "in", 0, [(1, 1)])
    run_until(spark, feed_of(tmp_path, []), 1)
    with pytest.raises(PlanFileError, match="`order_by:` has changed"):
        feed_of(tmp_path, [], order_by=["v"]).begin()


def test_the_same_path_from_another_directory_is_refused(spark, tmp_path):
    """Spark knows files by their whole paths, and would read all of them again."""
    put_file(tmp_path / "in", 0, [(1, 1)])
    feed = feed_of(tmp_path, [])
    run_until(spark, feed, 1)
    moved = Feed(feed.query, feed.log, base_dir=tmp_path / "elsewhere")
    with pytest.raises(
        PlanFileError, match=r"were .*/in, and `path:` is now .*/elsewhere/in: move them back"
    ):
        moved.begin()
    assert feed_of(tmp_path, []).begin()
