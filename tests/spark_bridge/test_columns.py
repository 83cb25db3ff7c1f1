"""Columns of all types go from Spark to the log as they are, wherever the session thinks it is."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from dgs.errors import UsageError
from spark_bridge.options import LogOptions
from workers.event_log.segments import all_names, read_segment

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


@pytest.mark.parametrize(
    ("named", "problem"),
    [("orders", "'orders' in some row, and the streams are visits"), ("../visits", "no name of a stream")],
)
def test_rows_of_a_stream_that_is_none_are_refused(spark, tmp_path, named, problem):
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
def test_names_that_are_no_streams_are_refused(named):
    with pytest.raises(UsageError, match="no name of a stream"):
        LogOptions.parsed({"log": "/log", **named})


def test_delay_that_is_no_whole_number_of_units_is_rounded_up():
    assert LogOptions.parsed({"log": "/log", "stream": "s", "max_delay": "1500ms"}).delay("s") == 2


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
