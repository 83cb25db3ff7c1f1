"""Writes of `format("dgs")` in any thread, without a mode, and after a task has failed."""

import threading

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from dgs.errors import UsageError
from dgs.spark_bridge.data_source.log_writer import LogWrite
from tests.spark_bridge.writing import batches_in, put_file, rows_in, write


def in_a_thread(work):
    """Return the result of a function that runs in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found


def test_a_thread_of_its_own_starts_and_awaits_a_query(spark, tmp_path):
    put_file(tmp_path / "in", 1, [(10, 1), (11, 2)])
    places = (tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint")
    [query] = in_a_thread(lambda: write(spark, *places))
    assert query.exception() is None
    assert rows_in(tmp_path / "log") == [(10, 1), (11, 2)]


def test_a_thread_of_its_own_writes_a_batch(spark, tmp_path):
    rows = spark.range(3).selectExpr("id AS ts")
    saved = rows.write.format("dgs").options(log=str(tmp_path / "log"), stream="s").mode("append")
    assert in_a_thread(saved.save) == [None]
    assert batches_in(tmp_path / "log") == [(0, 3)]


@pytest.mark.parametrize("mode", [None, "ignore", "error"])
def test_a_write_without_the_mode_of_a_log_says_which_it_has(spark, tmp_path, mode):
    writer = spark.range(3).selectExpr("id AS ts").write.format("dgs").option("log", str(tmp_path / "log"))
    with pytest.raises(UsageError, match=r'give \.mode\("append"\)'):
        writer.option("stream", "s").save(mode=mode)
    assert not (tmp_path / "log").exists()


def test_a_task_that_fails_leaves_nothing_staged(tmp_path):
    schema = StructType().add("ts", "long").add("stream", "string")
    write = LogWrite.of({"log": str(tmp_path), "key": "stream", "streams": "a"}, schema)
    rows = pa.record_batch({"ts": [1, 2], "stream": ["a", "b"]})
    with pytest.raises(UsageError, match="'b' in some row"):
        write.stage(iter([rows]))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
