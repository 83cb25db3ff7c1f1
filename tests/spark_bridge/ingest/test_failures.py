"""Errors of Spark as one sentence: the problem, and advice where Spark gives none."""

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from dgs.job.schema import SparkSource, StreamConfig
from dgs.spark_bridge.ingest.failures import explained
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.spark_bridge.session.java_errors import is_of_lost_java, sentence
from dgs.workers.event_log import failure

RAISED = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: Traceback (most recent call last):
  File "worker.py", line 7, in main
    raise ValueError("no such zone")
ValueError: no such zone

SQLSTATE: 38000
"""


BY_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "log_writer.py", line 7, in write
    return self._write.stage(iterator)
pyarrow.lib.ArrowInvalid: Can't view array of type struct

"""


def said_of(text, **source):
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(**source)})
    [query] = queries_of([stream], unit="ms")
    return str(explained(RuntimeError(text), "s", query, base_dir=Path("/plans")))


def test_traceback_of_a_python_worker_is_its_last_line():
    assert sentence(RAISED) == (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: ValueError: no such zone"
    )


def test_error_of_a_python_worker_is_reported_whatever_its_class():
    assert sentence(BY_WORKER) == (
        "An exception was thrown from the Python worker: pyarrow.lib.ArrowInvalid: Can't view array of type struct"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("org.apache.spark.SparkException: [X] It is so. SQLSTATE: 1", "[X] It is so"),
        ("java.net.UnknownHostException: namenode", "UnknownHostException: namenode"),
    ],
)
def test_names_of_java_classes_are_left_out_if_a_sentence_remains(text, said):
    assert sentence(text) == said


@pytest.mark.parametrize(
    ("path", "place"), [("in", "/plans/in"), ("s3://b/in", "s3://b/in"), (None, "the directory")]
)
def test_missing_schema_advises_a_file_at_the_path_or_columns(path, place):
    text = "[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet."
    options = {"path": "in"} if path is None else {}
    said = said_of(text, format="parquet", path=path, options=options)
    assert f"a file into {place} that has the columns, or name them under `columns:`" in said


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("[COLUMN_ALREADY_EXISTS] The column `a` already exists", "spark.sql.caseSensitive: true"),
        ("[UNSUPPORTED_TIME_TYPE] The data type TIME is not supported", "spark.sql.timeType.enabled: true"),
        ("[PARQUET_TYPE_ILLEGAL] Illegal Parquet type: INT32 (TIME(MILLIS,false))", "with microseconds"),
    ],
)
def test_column_that_spark_refuses_is_reported_with_a_fix(text, advice):
    said = said_of(f"{text}. SQLSTATE: 42711", format="parquet", path="in")
    assert text in said
    assert advice in said


def test_files_whose_columns_differ_in_case_only_are_refused_with_a_fix(spark, tmp_path):
    (tmp_path / "in").mkdir()
    columns = [pa.array([5])] * 3
    pq.write_table(pa.table(columns, names=["ts", "A", "a"]), tmp_path / "in" / "0.parquet")
    source = {"spark": SparkSource(format="parquet", path="in")}
    [query] = queries_of([StreamConfig(id="s", tags={"kind": "n"}, source=source)], unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    feed.begin()
    feed.run(spark, threading.Event())
    assert "Spark takes upper for lower case" in str(failure.found(tmp_path / "log" / "s"))


def test_failed_task_is_reported_with_its_cause():
    """Spark keeps the cause as an error of its own."""
    error = RuntimeError("[TASK_WRITE_FAILED] Task failed while writing rows to file:/log. SQLSTATE: 58030")
    error._cause = RuntimeError(
        "Job aborted due to stage failure: Task 0 failed 4 times\n\tat org.apache.X\n"
        "Caused by: java.io.IOException: Mkdirs failed to create file:/log/part"
    )
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(format="csv", path="in")})
    [query] = queries_of([stream], unit="ms")
    assert "failed: Mkdirs failed to create file:/log/part" in str(explained(error, "s", query))


def test_lost_java_is_reported():
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(format="csv", path="in")})
    [query] = queries_of([stream], unit="ms")
    for lost in (Py4JError("An error occurred while calling o81.isActive"), Py4JNetworkError("reset")):
        assert "Java process is gone" in str(explained(lost, "s", query))
    answered = Py4JError(
        "An error occurred while calling o81.isActive. Trace:\npy4j.Py4JException: no method"
    )
    assert not is_of_lost_java(answered)
