"""Micro-batches: their bounds, the order of written rows, and the counts of their rows."""

import random
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dgs.job.schema import SparkSource, StreamConfig
from dgs.spark_bridge.ingest import queries, row_writing
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.queries import BYTES_AT_ONCE, bounds_of, queries_of
from dgs.workers.event_log import row_files
from tests.spark_bridge.writing import batches_in, put, put_file, rows_in


def test_micro_batches_of_files_are_bounded_unless_the_plan_file_does_it():
    by_default = {"maxBytesPerTrigger": str(BYTES_AT_ONCE)}
    assert BYTES_AT_ONCE == 256 * 2**20
    # Spark accepts no source with both
    for given in ({"maxFilesPerTrigger": 1}, {"MAXBYTESPERTRIGGER": "1m"}):
        assert bounds_of(SparkSource(format="parquet", path="in", options=given)) == {}
    assert bounds_of(SparkSource(format="parquet", path="in", options={"mergeSchema": "true"})) == by_default
    assert bounds_of(SparkSource(format="kafka", options={"subscribe": "topic"})) == {}


def test_files_beyond_the_bound_are_a_later_micro_batch(spark, tmp_path, monkeypatch):
    files = [
        put_file(tmp_path / "in", number, [(10 * number + i, i) for i in range(5)]) for number in range(3)
    ]
    monkeypatch.setattr(queries, "BYTES_AT_ONCE", int(2.5 * files[0].stat().st_size))
    source = {"spark": {"format": "parquet", "path": "in"}}
    [query] = queries_of([StreamConfig(id="s", tags={"kind": "n"}, source=source)], unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    heard = []
    feed.counts.listener = lambda: heard.append((feed.counts.read, feed.counts.committed))
    assert feed.begin()
    feed.run(spark, threading.Event())
    assert [rows for _, rows in batches_in(tmp_path / "log") if rows] == [10, 5]
    assert heard == [(10, 0), (10, 10), (15, 10), (15, 15)]


@pytest.mark.parametrize(("most", "sorts"), [(0, [1, 2]), (1000, [])], ids=["sorted by Spark", "on reading"])
def test_spark_sorts_batches_from_the_first_one_on_that_is_far_from_in_order(
    spark, tmp_path, monkeypatch, most, sorts
):
    monkeypatch.setattr(row_files, "READ_ROWS", 2)
    monkeypatch.setattr(row_files, "MOST_HELD", most)
    sorted_in, in_order = [], row_writing.in_order

    def noted(*given):
        sorted_in.append(len(batches_in(tmp_path / "log")))
        return in_order(*given)

    monkeypatch.setattr(row_writing, "in_order", noted)
    times = [[1, 2, 3, 4, 5, 5], [19, 11, 18, 12, 17, 13], [20, 21, 22, 23, 24, 25]]
    files = [[(ts, -i) for i, ts in enumerate(given)] for given in times]
    for number, rows in enumerate(files):
        put_file(tmp_path / "in", number, rows)
    put(spark, tmp_path / "in", tmp_path / "log", tmp_path / "kept")
    assert rows_in(tmp_path / "log") == [row for rows in files for row in sorted(rows)]
    assert sorted_in == sorts


@pytest.mark.parametrize("most", [0, row_files.MOST_HELD], ids=["sorted by Spark", "on reading"])
def test_row_groups_of_long_rows_are_small(spark, tmp_path, monkeypatch, most):
    monkeypatch.setattr(row_files, "MOST_HELD", most)
    put_file(tmp_path / "in", 0, [(-i, i) for i in range(12_000)])

    def lengthened(frame):
        parts = (
            # text that no compression shortens
            "transform(sequence(1, 8), i -> sha2(concat(v, '-', i), 512))"
        )
        return frame.selectExpr("ts", "v", f"concat_ws('', {parts}) AS text")

    put(spark, tmp_path / "in", tmp_path / "log", tmp_path / "kept", through=lengthened)
    [file] = (tmp_path / "log" / "s" / row_files.FOLDER).glob("*/*.parquet")
    footer = pq.read_metadata(file)
    sizes = [footer.row_group(i).total_byte_size for i in range(footer.num_row_groups)]
    assert max(sizes) < 1.5 * row_files.GROUP_BYTES < sum(sizes)


def test_integers_are_written_without_a_dictionary_and_text_with_one(spark, tmp_path):
    put_file(tmp_path / "in", 0, [(i, i % 5) for i in range(100)])

    def named(frame):
        return frame.selectExpr("ts", "timestamp_micros(v) AS at", "concat('s', v % 3) AS name")

    put(spark, tmp_path / "in", tmp_path / "log", tmp_path / "kept", through=named)
    [file] = (tmp_path / "log" / "s" / row_files.FOLDER).glob("*/*.parquet")
    group = pq.read_metadata(file).row_group(0)
    assert [any("DICTIONARY" in encoding for encoding in group.column(i).encodings) for i in range(3)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("most", [0, row_writing.MOST_WRITERS])
def test_streams_of_a_batch_are_in_order_however_tasks_write_them(spark, tmp_path, monkeypatch, most):
    monkeypatch.setattr(row_writing, "MOST_WRITERS", most)
    numbers = random.Random(4)
    files: Path = tmp_path / "in"
    rows = [(numbers.randrange(20), numbers.randrange(60)) for _ in range(400)]
    for number in range(4):
        put_file(files, number, rows[100 * number : 100 * number + 100])
    options = {"key": "stream", "streams": "s0,s1,s2"}

    def named(frame):
        return frame.selectExpr("ts", "v", "concat('s', v % 3) AS stream")

    put(spark, files, tmp_path / "log", tmp_path / "kept", at_once=4, through=named, **options)
    for stream in range(3):
        assert rows_in(tmp_path / "log", f"s{stream}") == sorted(row for row in rows if row[1] % 3 == stream)
