"""Faults of Spark: it repeats or loses batches or is killed. The log has every row once, or the query is refused.

By both ways into a log: `write` by the data source, `put` by Spark's own files.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgs.errors import OwnedLogError, ReplayMismatchError, UnrepeatableLogError
from dgs.spark_bridge.data_source.log_delivery import Delivery
from dgs.spark_bridge.ingest import micro_batches
from dgs.workers.event_log import owner
from dgs.workers.event_log.truncation import truncate
from tests.selection import rest_is_slow
from tests.spark_bridge.writing import batches_in, error_of, put, put_file, rows_in, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def places(tmp_path):
    for number in range(2):
        put_file(tmp_path / "in", number, [(10 * number + 1, 0), (10 * number, 1)])
    return tmp_path / "in", tmp_path / "[a] {b,c}" / "log", tmp_path / "checkpoint"


def forget_last_commit(checkpoint):
    """Make Spark repeat its last batch."""
    last = max(path for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def failing(spark, files, log, checkpoint, write=write):
    with pytest.raises(Exception, match="terminated with exception"):
        write(spark, files, log, checkpoint)
    return error_of(checkpoint)


BOTH_WAYS = pytest.mark.parametrize("write", [write, put])


@BOTH_WAYS
def test_batch_that_spark_repeats_is_written_once(spark, places, write):
    files, log, checkpoint = places
    write(spark, files, log, checkpoint)
    segments = sorted((log / "s" / "0000000").iterdir())
    forget_last_commit(checkpoint)
    put_file(files, 2, [(20, 2)])
    write(spark, files, log, checkpoint)
    assert batches_in(log) == [(0, 2), (1, 2), (2, 1)]
    assert rows_in(log) == [(0, 1), (1, 0), (10, 1), (11, 0), (20, 2)]
    assert sorted((log / "s" / "0000000").iterdir())[:2] == segments


@BOTH_WAYS
def test_batch_that_spark_repeats_with_other_rows_is_an_error(spark, places, write):
    files, log, checkpoint = places
    write(spark, files, log, checkpoint)
    before = rows_in(log)
    forget_last_commit(checkpoint)
    put_file(files, 1, [(10, 1), (11, 99)])
    error = failing(spark, files, log, checkpoint, write)
    assert isinstance(error, ReplayMismatchError)
    assert (error.stream, error.batch) == ("s", 1)
    assert rows_in(log) == before


@pytest.mark.parametrize("changed", rest_is_slow([True, False]))
def test_query_that_lost_its_checkpoint_directory_continues_only_if_every_batch_matches(
    spark, places, changed
):
    files, log, checkpoint = places
    first = write(spark, files, log, checkpoint)
    before = rows_in(log)
    shutil.rmtree(checkpoint)
    put_file(files, 2, [(20, 2)])
    if changed:
        put_file(files, 1, [(10, 1)])
        assert isinstance(failing(spark, files, log, checkpoint), ReplayMismatchError)
        assert rows_in(log) == before
        assert owner.owner(log / "s") == f"spark:{first.id}"
    else:
        second = write(spark, files, log, checkpoint)
        assert rows_in(log) == [*before, (20, 2)]
        assert owner.owner(log / "s") == f"spark:{second.id}"


@pytest.mark.parametrize("changed", rest_is_slow([True, False]))
def test_query_that_lost_its_checkpoint_directory_continues_after_the_rows_of_the_log(spark, places, changed):
    """With other micro-batches: here one of all rows, two of which occur twice."""
    files, log, checkpoint = places
    put_file(files, 2, [(20, 2), (20, 2)])
    put(spark, files, log, checkpoint)
    before = rows_in(log)
    shutil.rmtree(checkpoint)
    put_file(files, 3, [(20, 2), (5, 7)])
    if changed:
        put_file(files, 1, [(10, 1), (11, 99)])
        assert isinstance(failing(spark, files, log, checkpoint, put), ReplayMismatchError)
        assert rows_in(log) == before
        return
    second = put(spark, files, log, checkpoint, at_once=4)
    assert rows_in(log) == [*before, (5, 7), (20, 2)]
    assert batches_in(log)[-1] == (3, 2)
    assert owner.owner(log / "s") == f"spark:{second.id}"
    forget_last_commit(checkpoint)
    put_file(files, 4, [(30, 0)])
    put(spark, files, log, checkpoint)
    assert rows_in(log) == [*before, (5, 7), (20, 2), (30, 0)]


def test_batch_that_spark_repeats_outlives_a_truncation_and_a_lost_checkpoint_directory_does_not(
    spark, places
):
    files, log, checkpoint = places
    put(spark, files, log, checkpoint)
    assert truncate(log / "s", below=100) == 1
    forget_last_commit(checkpoint)
    put_file(files, 2, [(20, 2)])
    put(spark, files, log, checkpoint)
    assert batches_in(log) == [(1, 2), (2, 1)]
    shutil.rmtree(checkpoint)
    error = failing(spark, files, log, checkpoint, put)
    assert isinstance(error, UnrepeatableLogError)
    assert "its first rows were deleted" in str(error)
    assert batches_in(log) == [(1, 2), (2, 1)]


@pytest.mark.slow
def test_batches_of_foreach_batch_are_those_of_the_log(spark, places):
    files, log, checkpoint = places

    def put(rows, _batch):
        rows.write.format("dgs").option("stream", "s").mode("append").save(str(log))

    def run():
        rows = (
            spark.readStream.schema("ts bigint, v bigint").option("maxFilesPerTrigger", 1).parquet(str(files))
        )
        query = rows.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    run()
    forget_last_commit(checkpoint)
    run()
    assert batches_in(log) == [(0, 2), (1, 2)]


@BOTH_WAYS
def test_second_query_on_a_log_is_refused(spark, places, write):
    files, log, checkpoint = places
    first = write(spark, files, log, checkpoint)
    error = failing(spark, files, log, checkpoint.with_name("another"), write)
    assert isinstance(error, OwnedLogError)
    assert error.owner == f"spark:{first.id}"


def by_value(rows):
    return rows.selectExpr("*", "concat('s', v % 2) AS stream")


@pytest.mark.parametrize("done", [1, 2])
def test_batch_that_a_crash_left_in_some_streams_is_completed(spark, places, monkeypatch, done):
    """The driver fails between the segments of the streams, or between the last one and Spark's own commit."""
    files, log, checkpoint = places
    deliver, calls = Delivery.deliver_files, []

    def falling(self, stream, batch, *arguments, **facts):
        if batch == 1:
            calls.append(stream)
            if len(calls) > done:
                raise KeyError("fallen")
        deliver(self, stream, batch, *arguments, **facts)
        if batch == 1 and len(calls) == done == 2:
            raise KeyError("fallen")

    monkeypatch.setattr(Delivery, "deliver_files", falling)
    monkeypatch.setattr(micro_batches, "AT_ONCE", 1)  # the streams one after the other
    options = {"key": "stream", "streams": "s0,s1", "through": by_value}
    with pytest.raises(Exception, match="terminated with exception"):
        put(spark, files, log, checkpoint, **options)
    assert [batches_in(log, stream)[1:] for stream in calls[:done]] == [[(1, 1)]] * done
    monkeypatch.undo()
    put_file(files, 2, [(20, 2)])
    put(spark, files, log, checkpoint, **options)
    assert rows_in(log, "s0") == [(1, 0), (11, 0), (20, 2)]
    assert rows_in(log, "s1") == [(0, 1), (10, 1)]
    assert [batch for batch, _ in batches_in(log, "s1")] == [0, 1, 2]


KILLED = """
import sys, time
from pathlib import Path
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
from tests.spark_bridge.using import BRIEF
from tests.spark_bridge.writing import write
place = Path(sys.argv[1])
with session(SparkConfig(master="local[1]", conf=BRIEF), place / "spark") as spark:
    write(spark, place / "in", place / "log", place / "checkpoint")
    time.sleep(600)
"""


@pytest.mark.slow
def test_spark_killed_between_batches_resumes(spark, tmp_path):
    """Driver and JVM are killed as soon as the log has a batch; another Spark resumes.

    The last files are written after the kill, however late it is.
    """
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    for number in range(6):
        put_file(files, number, [(number, number)])
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    try:
        patience = time.monotonic() + 300
        while not list((log / "s").glob("0*/*.dgs")):
            assert child.poll() is None, child.stderr.read().decode()
            assert time.monotonic() < patience
            time.sleep(0.01)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stderr.close()
    assert child.returncode == -signal.SIGKILL
    assert 0 < len(batches_in(log)) <= 6
    for number in range(6, 9):
        put_file(files, number, [(number, number)])
    write(spark, files, log, checkpoint)
    assert rows_in(log) == [(number, number) for number in range(9)]
    assert batches_in(log) == [(number, 1) for number in range(9)]
