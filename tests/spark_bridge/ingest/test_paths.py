"""Directories with odd names: Spark must not treat parts of them as patterns or escapes."""

import threading
from pathlib import Path

import pytest

from dgs.errors import OwnedLogError
from dgs.job.schema import SortWithin, SparkSource, StreamConfig
from dgs.spark_bridge.data_source.query_owner import Query, standing
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.queries import queries_of, resolved
from dgs.workers.event_log import failure, owner
from tests.spark_bridge.writing import put_file, rows_in

ODD = "a b 100%20 é {x,y} [z] *?#"


def query_of(path):
    source = {"spark": SparkSource(format="parquet", path=path)}
    [query] = queries_of([StreamConfig(id="s", tags={"kind": "n"}, source=source)], unit="ms")
    return query


@pytest.mark.parametrize("path", ["in", "in/0.parquet", "in/[0-9].parquet"])
def test_files_and_logs_in_directories_of_odd_names(spark, tmp_path, path):
    base = tmp_path / ODD
    put_file(base / "in", 0, [(5, 0)])
    feed = Feed(query_of(path), base / "log", base_dir=base)
    feed.begin()
    feed.run(spark, threading.Event())
    assert failure.found(base / "log" / "s") is None
    assert rows_in(base / "log") == [(5, 0)]
    assert (feed.checkpoint / "metadata").exists()
    assert [found.name for found in tmp_path.iterdir()] == [ODD]


def test_path_of_an_existing_file_is_no_pattern(tmp_path):
    (tmp_path / "in[0]").mkdir()
    assert resolved("in[0]", tmp_path).endswith(r"/in\[0\]")
    assert resolved("in[1]", tmp_path).endswith("/in[1]")
    assert resolved("s3://bucket/[x]", tmp_path) == "s3://bucket/[x]"


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_checkpoint_directory_of_an_odd_name_does_not_count_as_lost(tmp_path, prefix):
    checkpoint, log = tmp_path / ODD, tmp_path / "log" / "s"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "id-1"}')
    log.mkdir(parents=True)
    first = Query("id-1", f"{prefix}{checkpoint}")
    owner.claim(log, first.writer)
    first.note(log)
    with pytest.raises(OwnedLogError):
        standing(log, Query("id-2"))
    (checkpoint / "metadata").unlink()
    assert standing(log, Query("id-2")) == "successor"


@pytest.mark.parametrize(("said", "is_so"), [({}, 2000), ({"max_delay": "3us"}, 3)])
def test_max_delay_defaults_to_the_range_of_sort_within(said, is_so):
    source = {"spark": SparkSource(format="parquet", path="in", **said)}
    stream = StreamConfig(
        id="s", tags={"kind": "n"}, source=source, on_disorder=SortWithin(sort_within="2ms")
    )
    [query] = queries_of([stream], unit="us")
    assert query.options(Path("log"))["max_delay"] == f"{is_so * 1000}ns"
