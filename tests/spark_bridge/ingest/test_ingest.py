"""Plan files with Spark sources: from files through Spark and the log into a run."""

import datetime as dt
import itertools
import json
import re
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.api.preparing import Launch, from_file, prepare
from dgs.errors import JavaMissingError, MalformedRowError, PlanFileError, SparkQueryError
from dgs.job.document import parse
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import PlanFile, SparkConfig, SparkSource, StreamConfig
from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.ingest import ingest
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.ingest import feeding, may_need_dgs
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.workers.event_log import failure, summary
from tests.spark_bridge.writing import batches_in, put_file, rows_in

PROGRAM = """
from dgs import Dependence, Program, kind, SAME_KEY

VALUE, END = kind("value", key=str), kind("end", key=str)


class Windows(Program):
    kinds = (VALUE, END)
    depends = Dependence((VALUE, VALUE, SAME_KEY), (VALUE, END, SAME_KEY), (END, END, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        key = event.tag.key
        if event.tag.kind == "end":
            emit((key, event.ts, state.pop(key, 0)))
        else:
            state[key] = state.get(key, 0) + event.payload
        return state
"""

PLAN = """
version: 1
name: windows
time: {{unit: ms}}
program: {{ref: "program.py:Windows"}}
streams:
  - id: ends
    tags: {{kind: end, key: {{column: page}}}}
    source: {ends}
    payload: []
  - id: values
    tags: {{kind: value, key: {{column: page}}}}
    source: {values}
    payload: v
runtime: {{kind: local}}
"""


@pytest.fixture
def job(tmp_path):
    """Write the input as Parquet and as CSV, and return a function that writes a plan file over it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    values = [(ts, "home" if ts % 3 else "shop", ts % 7) for ts in range(0, 300, 2)]
    ends = [(ts, page, 0) for ts in range(50, 301, 50) for page in ("home", "shop")]
    lines = []
    for name, rows in (("values", values), ("ends", ends)):
        columns = {"ts": [r[0] for r in rows], "page": [r[1] for r in rows], "v": [r[2] for r in rows]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        lines += [f"{name},{ts},{page},{v}" for ts, page, v in rows]
    lines.sort(key=lambda line: line.split(",")[3])  # not in order of time
    (tmp_path / "all.csv").write_text("\n".join(["stream,at,page,v", *lines]) + "\n")

    def written(ends, values):
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.format(ends=ends, values=values))
        return path

    return written


def outputs(plan, **options):
    return sorted(dgs.run(plan, **options).outputs)


def test_run_over_spark_equals_a_run_over_the_files(spark, job):
    expected = outputs(job("{parquet: {path: ends.parquet}}", "{parquet: {path: values.parquet}}"))
    assert len(expected) == 12
    source = "{{spark: {{format: parquet, path: {}.parquet}}}}"
    plan = job(source.format("ends"), source.format("values"))
    found = dgs.run(plan, verify=True)
    assert found.verified
    assert sorted(found.outputs) == expected


def test_streams_that_share_a_query_get_their_rows_by_its_key(spark, job):
    expected = outputs(job("{parquet: {path: ends.parquet}}", "{parquet: {path: values.parquet}}"))
    source = (
        "{spark: {query: all, key: stream, format: csv, path: all.csv, options: {header: true}, "
        "select: [stream, CAST(at AS BIGINT) AS ts, page, CAST(v AS INT) AS v], where: at IS NOT NULL}}"
    )
    assert outputs(job(source, "{spark: {query: all}}")) == expected


def test_query_in_sql_is_read_once(spark, job, tmp_path):
    expected = outputs(job("{parquet: {path: ends.parquet}}", "{parquet: {path: values.parquet}}"))
    sql = f"SELECT * FROM parquet.`{tmp_path}/values.parquet` ORDER BY v"
    plan = job("{parquet: {path: ends.parquet}}", f"{{spark: {{sql: '{sql}', log: kept}}}}")
    assert outputs(plan) == expected
    assert batches_in(tmp_path / "kept", "values")[0] == (0, 150)
    assert outputs(plan) == expected  # the log is closed, so it is read without Spark


def test_log_of_another_query_is_refused(spark, job):
    source = "{{spark: {{format: parquet, path: values.parquet, where: v > {}, log: kept}}}}"
    found = outputs(job("{parquet: {path: ends.parquet}}", source.format(2)))
    with pytest.raises(PlanFileError, match=r"stream 'values': `where:` has changed since .*kept was begun"):
        outputs(job("{parquet: {path: ends.parquet}}", source.format(3)))
    assert outputs(job("{parquet: {path: ends.parquet}}", source.format(2))) == found


def test_query_that_wrote_nothing_may_be_corrected(spark, tmp_path):
    put_file(tmp_path / "wrong", 0, [(1, 1)])
    put_file(tmp_path / "in", 0, [(5, 1)])
    kept = {"format": "parquet", "select": ["ts", "CAST(v AS STRING) AS v"]}
    for given in (
        # after Spark has planned a batch of these files
        {"path": "wrong", "where": "raise_error('no') IS NULL"},
        {"path": "in", "where": "v > 0"},
    ):
        [query] = queries_of([stream(**kept, **given)], unit="ms")
        feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
        assert feed.begin()
        feed.run(spark, threading.Event())
        assert (failure.found(tmp_path / "log" / "s") is None) == (given["path"] == "in")
    assert rows_in(tmp_path / "log") == [(5, "1")]


def test_closed_log_is_read_without_spark(spark, job, monkeypatch):
    plan = job(
        "{parquet: {path: ends.parquet}}", "{spark: {format: parquet, path: values.parquet, log: kept}}"
    )
    expected = outputs(plan)

    def absent(_config):
        raise JavaMissingError(problem="there is none")

    monkeypatch.setattr(ingest, "check_installed", absent)
    assert outputs(plan) == expected


def test_null_in_the_column_of_times_is_an_error_with_file_and_row(spark, job, tmp_path):
    table = pa.table({"ts": [1, 2, None], "page": ["home"] * 3, "v": [1, 2, 3]})
    pq.write_table(table, tmp_path / "values.parquet")
    plan = job("{parquet: {path: ends.parquet}}", "{spark: {format: parquet, path: values.parquet}}")
    with pytest.raises(MalformedRowError, match=r"'ts' is null in .*values\.parquet") as caught:
        dgs.run(plan)
    assert (caught.value.stream, caught.value.row) == ("values", 2)


def test_null_in_a_column_of_the_tag_is_an_error(spark, job, tmp_path):
    table = pa.table({"ts": [1, 2], "page": ["home", None], "v": [1, 2]})
    pq.write_table(table, tmp_path / "values.parquet")
    plan = job("{parquet: {path: ends.parquet}}", "{spark: {format: parquet, path: values.parquet}}")
    with pytest.raises(MalformedRowError, match="'page' is null"):
        dgs.run(plan)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{format: parquet, path: values.parquet, select: [when]}", "when"),
        ("{format: parquet, path: values.parquet, ts: page}", "must be integers or timestamps"),
        ("{format: parquet, path: values.parquet, ts: nothing}", "no column 'nothing'"),
        ("{format: parquet, path: nowhere.parquet}", "PATH_NOT_FOUND"),
    ],
)
def test_failed_query_ends_the_run_with_the_message_of_spark(spark, job, source, problem):
    plan = job("{parquet: {path: ends.parquet}}", f"{{spark: {source}}}")
    with pytest.raises(SparkQueryError, match=problem) as caught:
        dgs.run(plan)
    assert caught.value.stream == "values"
    assert len(str(caught.value)) < 500


def test_cell_that_a_query_cannot_cast_is_wrong_input(spark, job):
    plan = job(
        "{parquet: {path: ends.parquet}}",
        '{spark: {sql: \'SELECT 1 AS ts, "home" AS page, CAST("x" AS INT) AS v\'}}',
    )
    with pytest.raises(MalformedRowError, match="CAST_INVALID_INPUT"):
        dgs.run(plan)


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("{format: kafka, trigger: 1s}", "`spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:"),
        ("{format: kafka}", "org.apache.spark:spark-sql-kafka-0-10_2.13:"),
        ("{format: delta, path: values}", "`spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension`"),
        ("{format: iceberg, path: values}", "org.apache.iceberg:iceberg-spark-runtime-"),
        ("{format: carrier_pigeon}", "no data source 'carrier_pigeon': if the name is right"),
    ],
)
def test_missing_connector_advises_a_package_for_the_plan_file(spark, job, source, advice):
    plan = job("{parquet: {path: ends.parquet}}", f"{{spark: {source}}}")
    with pytest.raises(SparkQueryError, match="under `spark: conf:`") as caught:
        dgs.run(plan)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("ends", "values", "problem"),
    [
        ("{spark: {}}", "{spark: {}}", "either `format:` or `sql:`"),
        ("{spark: {sql: SELECT 1, trigger: 1s}}", "{spark: {sql: SELECT 1}}", "read once"),
        ("{spark: {sql: SELECT 1, columns: {a: INT}}}", "{spark: {sql: SELECT 1}}", "those of files"),
        ("{spark: {format: csv}}", "{spark: {sql: SELECT 1}}", "say the `path:` of the files of format csv"),
        ("{spark: {sql: SELECT 1, log: s3a://logs/1}}", "{spark: {sql: SELECT 1}}", "is an address"),
        ("{spark: {sql: SELECT 1, query: q}}", "{spark: {query: q}}", "say `key:`"),
        (
            "{spark: {sql: SELECT 1, query: q, key: k}}",
            "{spark: {query: q, sql: SELECT 2}}",
            "`sql:` differs",
        ),
        ("{spark: {sql: SELECT 1, query: q, key: k, ts: t}}", "{spark: {query: q}}", "say the `ts:`"),
    ],
)
def test_contradictions_are_found_before_spark_starts(job, ends, values, problem):
    with pytest.raises(PlanFileError, match=problem):
        dgs.run(job(ends, values))


@pytest.mark.parametrize(
    ("source", "config", "is_needed"),
    [
        ({"format": "parquet", "path": "in"}, {}, False),
        (
            {"format": "parquet", "path": "in"},
            {"master": "local[2]", "conf": {"spark.driver.memory": "2g"}},
            False,
        ),
        ({"format": "dgs", "options": {"run": "r"}}, {}, True),
        ({"sql": "SELECT * FROM dgs.`runs/1`"}, {}, True),
        ({"format": "parquet", "path": "in", "where": "id IN (SELECT key FROM Dgs.`runs/1`)"}, {}, True),
        ({"sql": "SELECT * FROM t"}, {"conf": {"spark.sql.catalogImplementation": "hive"}}, True),
        ({"sql": "SELECT * FROM t"}, {"remote": "sc://server"}, True),
    ],
)
def test_session_has_the_data_source_of_runs_where_a_query_may_read_one(source, config, is_needed):
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"spark": source})
    assert may_need_dgs(SparkConfig(**config), queries_of([stream], unit="ms")) == is_needed


def test_streams_that_share_a_query_may_have_the_defaults_written_out():
    """The plan file of a run directory has them in full."""
    first = stream(query="q", key="k", format="csv", path="in", options={"header": True}, where="v > 0")
    other = stream(**SparkSource(query="q").model_dump()).model_copy(update={"id": "t"})
    assert [query.stream_ids for query in queries_of([first, other], unit="ms")] == [("s", "t")]


def stream(**source):
    return StreamConfig(id="s", tags={"kind": "n"}, source={"spark": SparkSource(**source)})


def waited_for(condition):
    patience = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.02)


def test_continuous_query_reads_new_files_until_it_is_stopped(spark, tmp_path):
    put_file(tmp_path / "in", 0, [(5, 0)])
    [query] = queries_of([stream(format="parquet", path="in", trigger="100ms")], unit="ms")
    feed, stop = Feed(query, tmp_path / "log", base_dir=tmp_path), threading.Event()
    assert feed.begin()
    thread = threading.Thread(target=feed.run, args=(spark, stop))
    thread.start()
    try:
        waited_for(lambda: batches_in(tmp_path / "log") == [(0, 1)])
        put_file(tmp_path / "in", 1, [(7, 0), (6, 0)])
        waited_for(lambda: batches_in(tmp_path / "log") == [(0, 1), (1, 2)])
    finally:
        stop.set()
        thread.join()
    assert failure.found(tmp_path / "log" / "s") is None
    assert not next(summary.streams(tmp_path / "log")).is_closed
    assert rows_in(tmp_path / "log") == [(5, 0), (6, 0), (7, 0)]


def test_continuous_query_may_begin_with_an_empty_directory(spark, tmp_path):
    (tmp_path / "in").mkdir()
    source = stream(format="json", path="in", columns={"ts": "BIGINT", "v": "INT"}, trigger="100ms")
    [query] = queries_of([source], unit="ms")
    feed, stop = Feed(query, tmp_path / "log", base_dir=tmp_path), threading.Event()
    assert feed.begin()
    thread = threading.Thread(target=feed.run, args=(spark, stop))
    thread.start()
    try:
        waited_for((feed.checkpoint / "metadata").exists)
        (tmp_path / "whole").write_text('{"v": 1, "ts": 6}\n{"ts": 5, "v": 0}\n')
        (tmp_path / "whole").rename(tmp_path / "in" / "0.json")
        waited_for(lambda: batches_in(tmp_path / "log") == [(0, 2)])
    finally:
        stop.set()
        thread.join()
    assert rows_in(tmp_path / "log") == [(5, 0), (6, 1)]


def test_resumed_run_resumes_its_query(spark, job, tmp_path):
    """The log and Spark's checkpoints are in the directory of the run."""
    put_file(tmp_path / "in", 0, [(5, 1)])
    source = "{spark: {format: parquet, path: in, select: [ts, v, '\"home\" AS page'], trigger: 100ms}}"
    prepared = prepare(from_file(job("{parquet: {path: ends.parquet}}", source), {}))
    asked = Launch(prepared, RunDirectory.create(tmp_path / "run")).job
    for number in range(1, 3):
        with feeding(asked, prepared.config.spark):
            waited_for(lambda: sum(rows for _, rows in batches_in(asked.log_dir, "values")) == number)  # noqa: B023
        put_file(tmp_path / "in", number, [(5 + number, 1)])
    assert batches_in(asked.log_dir, "values") == [(0, 1), (1, 1)]


RATE = """
version: 1
name: rate
time: {unit: us}
program: {ref: "rate_program.py:Numbers"}
streams:
  - id: numbers
    tags: {kind: number}
    source:
      spark: {format: rate, options: {rowsPerSecond: 50}, select: [timestamp AS at, value], ts: at, trigger: 100ms}
    payload: value
runtime: {kind: local}
checkpoint: {every: 20ms}
sinks: [{jsonl: {path: out}}]
"""

NUMBERS = """
from dgs import Program


class Numbers(Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit([event.payload, event.ts])
        return state + 1
"""


def test_rate_source_continues_when_a_stopped_run_is_resumed(spark, tmp_path):
    (tmp_path / "plan.yaml").write_text(RATE)
    (tmp_path / "rate_program.py").write_text(NUMBERS)

    def outputs():
        lines = [
            line for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()
        ]
        return sorted(json.loads(line) for line in lines)

    for goes_on in (False, True):
        before = len(outputs())
        options = {"run_dir": tmp_path / "run", "resume": goes_on}
        thread = threading.Thread(target=dgs.run, args=(tmp_path / "plan.yaml",), kwargs=options)
        thread.start()
        try:
            waited_for(lambda: len(outputs()) > before)  # noqa: B023
        finally:
            report = dgs.stop(tmp_path / "run")
            thread.join()
        assert report["stopped_by"] == "dgs stop"
    found = outputs()
    assert [value for value, _ in found] == list(range(len(found)))
    assert {later - earlier for (_, earlier), (_, later) in itertools.pairwise(found)} == {20_000}


def documented(name):
    """Return a plan file of the page on Spark."""
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    return next(
        block
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        if block.startswith(f"# {name}\n")
    )


def test_documented_query_of_kafka_makes_rows_of_messages(spark, tmp_path):
    """Without a broker: rows with the columns of Kafka's connector."""
    plan = PlanFile.model_validate(parse(documented("plan_kafka.yaml"), "plan_kafka.yaml", {}).data)
    [query] = queries_of(plan.streams, unit=plan.time.unit)
    assert query.is_stream
    assert not query.is_bounded
    columns = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
    value = b'{"at": "2026-01-01T00:00:01.5Z", "amount": 12.5}'
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    messages = [(b"ann", value, "payments", 0, 7, now, 0), (b"ann", None, "payments", 0, 8, now, 0)]
    rows = spark.createDataFrame(messages, columns).where(query.source.where).selectExpr(*query.source.select)
    options = LogOptions.parsed(query.options(tmp_path))
    options.checked(dict(rows.dtypes))
    assert options.ts == "at"
    [row] = rows.collect()
    assert (row.at.timestamp(), row.account, row.amount, row.offset) == (1767225601.5, "ann", 12.5, 7)
