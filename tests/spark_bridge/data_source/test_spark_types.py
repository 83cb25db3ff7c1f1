"""Columns of all types on their way from Spark to the log: unchanged, whatever the session's time zone."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from dgs.errors import UsageError
from dgs.spark_bridge.data_source.format import DgsDataSource
from dgs.spark_bridge.data_source.log_options import LogOptions, listed
from dgs.spark_bridge.data_source.log_writer import CONTINUOUS, LogWrite
from dgs.spark_bridge.ingest.queries import prepared
from dgs.spark_bridge.session.session import register
from dgs.workers.event_log.segments import all_names, read_segment
from tests.spark_bridge.writing import batches_in

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

OF_ALL_TYPES = """
SELECT TIMESTAMP'2026-01-01 00:00:00+00:00' AS ts, TIMESTAMP_NTZ'2026-01-01 00:00:00' AS local, CAST(1.5 AS DECIMAL(4, 2)) AS exact,
    named_struct('at', TIMESTAMP'2026-01-01 00:00:00+00:00', 'x', NULL) AS record, array('a', NULL) AS many,
    map('at', TIMESTAMP'2026-01-01 00:00:00+00:00') AS pairs, X'00FF' AS bytes, DATE'0001-01-01' AS day, true AS yes
UNION ALL
SELECT TIMESTAMP'1969-12-31 23:59:59.999999+00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""


def written(spark, log, sql):
    spark.sql(sql).write.format("dgs").options(log=str(log), stream="s").mode("append").save()
    [table] = [read_segment(log / "s", name)[1] for name in all_names(log / "s")]
    return table


def test_writer_runs_in_this_interpreter_unless_another_is_named(spark, tmp_path, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    python_of_the_path = "/no/python"  # that of a virtual environment only where it is activated
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python_of_the_path)
    register(spark)
    assert spark.sparkContext.pythonExec == python_of_the_path
    assert written(spark, tmp_path, "SELECT 7 AS ts").to_pylist() == [{"ts": 7}]


@pytest.mark.parametrize(
    ("named", "problem"),
    [("orders", "'orders' in some row, and the streams are visits"), ("../visits", "no name of a stream")],
)
def test_rows_that_name_an_invalid_stream_are_refused(spark, tmp_path, named, problem):
    rows = spark.sql(f"SELECT 1 AS ts, '{named}' AS name")
    listed = {"streams": "visits"} if named == "orders" else {}
    with pytest.raises(Exception, match=problem):
        rows.write.format("dgs").options(log=str(tmp_path / "log"), key="name", **listed).mode(
            "append"
        ).save()
    assert not list(tmp_path.rglob("*.dgs"))


@pytest.mark.parametrize(
    ("kind", "cast"),
    [("date", "CAST(at AS TIMESTAMP) AS at"), ("double", "CAST(at AS BIGINT) AS at"), ("string", "or CAST")],
)
def test_times_of_other_types_say_how_to_cast_them(kind, cast):
    with pytest.raises(UsageError) as caught:
        LogOptions.parsed({"log": "/log", "stream": "s", "ts": "at"}).checked({"at": kind})
    assert cast in str(caught.value)


@pytest.mark.parametrize("named", [{"stream": "../s"}, {"key": "k", "streams": "s,t/u"}, {"stream": ""}])
def test_invalid_stream_names_are_refused(named):
    with pytest.raises(UsageError, match="no name of a stream"):
        LogOptions.parsed({"log": "/log", **named})


def test_names_may_contain_commas():
    options = LogOptions.parsed({"log": "/log", "stream": "s", "order_by": listed(["a,b", " c"])})
    assert options.order_by == ("a,b", " c")


def test_path_stands_for_log():
    assert LogOptions.parsed({"path": "/log", "stream": "s"}).log == Path("/log")


@pytest.mark.parametrize("place", ["s3a://bucket/log", "dbfs:/log", "file:///log"])
def test_log_at_an_address_is_refused(place):
    with pytest.raises(UsageError, match="is an address"):
        LogOptions.parsed({"log": place, "stream": "s"})


@pytest.mark.parametrize("batch", ["-1", "one", ""])
def test_batch_is_a_number(batch):
    with pytest.raises(UsageError, match="batch is a number"):
        LogOptions.parsed({"log": "/log", "stream": "s", "batch": batch})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"stream": "s", "streams": "a,b"}, "`streams` belongs to `key`"),
        ({"stream": "s", "unit": "bananas"}, "unit is one of ns, us, .*, not 'bananas'"),
        ({"stream": "s", "max_delay": "1s"}, "needs the unit of column 'ts'"),
        ({"key": "k"}, "column 'k' of type struct<a:int> cannot name a stream"),
    ],
)
def test_contradictory_options_are_refused_before_any_work(given, problem):
    columns = {"ts": "bigint", "k": "struct<a:int>"}
    with pytest.raises(UsageError, match=problem):
        LogOptions.parsed({"log": "/log", **given}).checked(columns)


def test_advice_quotes_names_that_sql_cannot_take():
    with pytest.raises(UsageError, match=r"select CAST\(`the.day` AS TIMESTAMP\) AS `the.day`"):
        LogOptions.parsed({"log": "/log", "stream": "s", "ts": "the.day"}).checked({"the.day": "date"})


@pytest.mark.parametrize("writer", [DgsDataSource.writer, DgsDataSource.streamWriter])
def test_log_is_not_overwritten(writer, tmp_path):
    options = {"log": str(tmp_path / "log"), "stream": "s"}
    with pytest.raises(UsageError, match="keeps the rows it has"):
        writer(DgsDataSource(options), StructType().add("ts", "long"), overwrite=True)


def test_trigger_without_micro_batches_is_refused_before_waiting_for_rows(monkeypatch):
    write = LogWrite.of({"log": "/log", "stream": "s"}, StructType().add("ts", "long"))
    known = {CONTINUOUS: "true"}
    context = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=known.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    with pytest.raises(UsageError, match="trigger `continuous`"):
        write.stage(iter(()))


def test_fractional_delay_is_rounded_up():
    assert LogOptions.parsed({"log": "/log", "stream": "s", "max_delay": "1500ms"}).delay("s") == 2


def test_records_without_nulls_inside_may_be_null_themselves(spark, tmp_path):
    inside = (
        "named_struct('x', 1, 'many', array(named_struct('y', 2)), 'pairs', map('k', named_struct('z', 3)))"
    )
    sql = f"SELECT 1 AS ts, {inside} AS record UNION ALL SELECT 2, NULL"
    whole = {"x": 1, "many": [{"y": 2}], "pairs": [("k", {"z": 3})]}
    assert written(spark, tmp_path / "log", sql).column("record").to_pylist() == [whole, None]


def test_key_column_may_have_a_dot_in_its_name(spark, tmp_path):
    rows = prepared(
        spark.sql("SELECT id AS ts, concat('s', id % 2) AS `the.stream` FROM range(4)"), key="the.stream"
    )
    options = {"log": str(tmp_path / "log"), "key": "the.stream"}
    rows.write.format("dgs").options(**options).mode("append").save()
    assert {name: sum(rows for _, rows in batches_in(tmp_path / "log", name)) for name in ("s0", "s1")} == {
        "s0": 2,
        "s1": 2,
    }


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ([("v", IntegerType()), ("V", IntegerType())], "several columns 'v'"),
        ([("v v", YearMonthIntervalType())], r"select CAST\(`v v` AS STRING\) AS `v v`"),
        ([("v", ArrayType(YearMonthIntervalType(1, 1)))], "years and months"),
        (
            [("v", MapType(LongType(), StructType().add("x", VariantType())))],
            r"a variant: select to_json\(v\)",
        ),
        ([("v", MapType(NullType(), NullType(), False))], "maps without a type of keys"),
    ],
)
def test_columns_that_a_log_cannot_hold_are_refused(kind, problem):
    schema = StructType().add("ts", "long")
    for name, type_ in kind:
        schema.add(name, type_)
    with pytest.raises(UsageError, match=problem):
        LogWrite.of({"log": "/log", "stream": "s"}, schema)


def test_lists_that_are_all_empty_are_in_the_log(spark, tmp_path):
    assert written(spark, tmp_path / "log", "SELECT 1 AS ts, array() AS v").to_pylist() == [
        {"ts": 1, "v": []}
    ]


@pytest.mark.parametrize("streams", ["s0,s1", -1])
def test_prepared_refuses_other_things_than_names(spark, streams):
    with pytest.raises(UsageError, match="`streams` is a list of names, or their number"):
        prepared(spark.range(1), key="id", streams=streams)


def test_prepared_gives_each_named_stream_a_task_of_its_own(spark):
    names = [f"stream-{number}" for number in range(5)]
    rows = spark.range(50).selectExpr("concat('stream-', id % 5) AS stream")
    found = prepared(rows, key="stream", streams=names).selectExpr("stream", "spark_partition_id() AS task")
    assert {tuple(row) for row in found.distinct().collect()} == {(name, i) for i, name in enumerate(names)}


def test_columns_of_all_types_are_in_the_log_in_utc(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        table = written(spark, tmp_path / "log", OF_ALL_TYPES)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    before, row = table.to_pylist()
    assert before["ts"] == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert {value for name, value in before.items() if name != "ts"} == {None}
    assert row == {
        "ts": NEW_YEAR,
        "local": NEW_YEAR.replace(tzinfo=None),
        "exact": Decimal("1.50"),
        "record": {"at": NEW_YEAR, "x": None},
        "many": ["a", None],
        "pairs": [("at", NEW_YEAR)],
        "bytes": b"\x00\xff",
        "day": datetime(1, 1, 1, tzinfo=UTC).date(),
        "yes": True,
    }
