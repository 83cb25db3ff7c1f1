"""Output tables in Spark's catalog: created with the first outputs, widened by new columns, never over another table."""

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.errors import PlanFileError
from dgs.job.schema import SinkConfig, SparkConfig
from dgs.spark_bridge.session.session import settings
from dgs.spark_bridge.tables import output_tables
from dgs.spark_bridge.tables.epoch_table import create_table
from dgs.spark_bridge.tables.output_tables import OutputTable, outlives_session
from dgs.workers.sinks.files.places import Place
from tests.spark_bridge.using import BRIEF

HIVE = {"spark.sql.catalogImplementation": "hive"}


@pytest.fixture
def table(spark, tmp_path):
    """Return a table whose name is free, and is free again afterwards."""
    (tmp_path / "o'ut").mkdir()
    yield OutputTable("clicks", Place(tmp_path / "o'ut", "parquet", mark="_"))
    spark.sql("DROP VIEW IF EXISTS clicks") if is_view(spark) else spark.sql("DROP TABLE IF EXISTS clicks")


def is_view(spark):
    return any(
        found.name == "clicks" and found.tableType == "TEMPORARY" for found in spark.catalog.listTables()
    )


def put(table, epoch, **columns):
    pq.write_table(pa.table(columns), table.place.directory / f"part-{epoch:06d}-0.parquet")


def rows(spark):
    spark.sql("REFRESH TABLE clicks")
    return sorted(tuple(row) for row in spark.sql("SELECT * FROM clicks").collect())


def test_table_is_created_once_there_are_files(spark, table):
    assert not table.register(spark)
    assert not spark.catalog.tableExists("clicks")
    put(table, 1, page=["home"], n=[1])
    assert table.register(spark)
    assert rows(spark) == [("home", 1)]


def test_files_that_come_later_are_in_the_table(spark, table):
    put(table, 1, n=[1])
    table.register(spark)
    put(table, 2, n=[2])
    assert rows(spark) == [(1,), (2,)]


def test_columns_that_come_later_are_added(spark, table):
    put(table, 1, n=[1])
    table.register(spark)
    put(table, 2, n=[2], page=["home"])
    table.check(spark)
    assert table.register(spark)
    assert table.register(spark)
    assert rows(spark) == [(1, None), (2, "home")]


def test_columns_that_files_lack_stay(spark, table):
    """Files omit a column that has only nulls."""
    spark.sql(f'CREATE TABLE clicks (n BIGINT, Page STRING) USING PARQUET LOCATION "{table.location}"')
    put(table, 1, n=[1])
    table.check(spark)
    assert table.register(spark)
    assert rows(spark) == [(1, None)]


def test_columns_of_other_types_are_reported(spark, table):
    spark.sql(f'CREATE TABLE clicks (n STRING) USING parquet LOCATION "{table.location}"')
    put(table, 1, n=[1])
    with pytest.raises(PlanFileError, match=r"column 'n' .* is string .* bigint in the files: `DROP TABLE"):
        table.register(spark)


def test_name_of_other_files_is_refused(spark, table, tmp_path):
    spark.sql(f"CREATE TABLE clicks (n BIGINT) USING parquet LOCATION '{tmp_path}/elsewhere'")
    with pytest.raises(PlanFileError, match=r"already, with files at .*elsewhere"):
        table.check(spark)


def test_name_of_a_table_of_another_format_is_refused(spark, table):
    spark.sql(f'CREATE TABLE clicks (n BIGINT) USING csv LOCATION "{table.location}"')
    with pytest.raises(PlanFileError, match="format csv in Spark's catalog"):
        table.check(spark)


def test_catalog_that_makes_a_table_of_its_own_format_is_reported(spark, table, monkeypatch):
    def create_another(spark, name, columns, location):
        create_table(spark, name, columns, location, "orc")

    monkeypatch.setattr(output_tables, "create_table", create_another)
    put(table, 1, n=[1])
    with pytest.raises(PlanFileError, match="format orc"):
        table.register(spark)


def test_name_of_a_view_is_refused(spark, table):
    spark.sql("CREATE TEMPORARY VIEW clicks AS SELECT 1 AS n")
    with pytest.raises(PlanFileError, match="as a view"):
        table.check(spark)


def test_schema_that_does_not_exist_is_refused(spark, tmp_path):
    with pytest.raises(PlanFileError, match="CREATE SCHEMA `nowhere`"):
        OutputTable("nowhere.clicks", Place(tmp_path, "parquet")).check(spark)


@pytest.mark.parametrize(
    ("section", "stays"),
    [
        ({}, False),
        ({"conf": HIVE}, True),
        ({"conf": {"spark.sql.defaultCatalog": "lake"}}, True),
        ({"remote": "sc://host:15002"}, True),
        ({"remote": "local[2]"}, False),
    ],
)
def test_catalog_in_memory_gets_no_table(section, stays):
    assert outlives_session(SparkConfig(**section)) is stays


def test_persistent_catalog_keeps_its_tables_outside_the_run_directory(tmp_path):
    assert "spark.sql.warehouse.dir" in settings(SparkConfig(), tmp_path)
    assert "spark.sql.warehouse.dir" not in settings(SparkConfig(conf=HIVE), tmp_path)


class Total(dgs.Program):
    kinds = (dgs.kind("n"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit({"total": state + event.payload})
        return state + event.payload


class Failing(Total):
    def update(self, state, event, emit):
        time.sleep(0.001)  # checkpoints are due
        if event.ts == 50:
            raise ValueError
        return super().update(state, event, emit)


@pytest.fixture
def run(spark, table, tmp_path, monkeypatch):
    """Run a program whose outputs go to the table, in a running session; return the notices."""
    monkeypatch.setattr(output_tables, "outlives_session", lambda _: True)
    monkeypatch.setattr(output_tables, "session", lambda *_, **__: nullcontext(spark))
    monkeypatch.chdir(tmp_path)

    def run(program=Total, count=100, **settings):
        given = {"sinks": [{"spark": {"table": "clicks"}}], "runtime.batch_rows": 10, **settings}
        items = [("n", ts, ts) for ts in range(count)]
        return dgs.run(program, streams={"s": items}, runtime="local", settings=given)

    return run


def test_run_registers_the_table_of_its_outputs(spark, run):
    run()
    assert len(rows(spark)) == 100
    run(count=50)  # the outputs of another run replace them
    assert len(rows(spark)) == 50


def test_failed_run_registers_its_committed_outputs(spark, run, tmp_path):
    with pytest.raises(dgs.DgsError, match="ValueError"):
        run(Failing, checkpoint={"every": "1ms"})
    there = pq.read_table(tmp_path / "spark-warehouse" / "clicks")
    assert len(rows(spark)) == len(there) > 0


def test_run_is_refused_before_it_touches_earlier_outputs(spark, run, tmp_path):
    run()
    spark.sql("DROP TABLE clicks")
    spark.sql(f"CREATE TABLE clicks (n BIGINT) USING parquet LOCATION '{tmp_path}/elsewhere'")
    with pytest.raises(PlanFileError, match="choose another name"):
        run(count=1)
    assert len(pq.read_table(tmp_path / "spark-warehouse" / "clicks")) == 100


def registering(table, said):
    job = SimpleNamespace(
        sinks=[SinkConfig(spark={"table": "clicks"})],
        spark=SparkConfig(conf=HIVE),
        base_dir=table.place.directory.parent,
        output_dir=table.place.directory,
    )
    return output_tables.registering(job, said.append)


@pytest.fixture
def sink(table, tmp_path):
    """Return the table of the plan file's sink, in the warehouse beside it."""
    directory = tmp_path / "spark-warehouse" / "clicks"
    directory.mkdir(parents=True)
    return OutputTable("clicks", Place(directory, "parquet", mark="_"))


@pytest.mark.usefixtures("run")
def test_table_exists_while_the_run_continues(spark, table, sink, monkeypatch):
    monkeypatch.setattr(output_tables, "LOOKS_EVERY", 0.01)
    with registering(table, said := []):
        put(sink, 1, n=[1])
        patience = time.monotonic() + 240
        while not spark.catalog.tableExists("clicks"):
            assert time.monotonic() < patience
            time.sleep(0.02)
        put(sink, 2, n=[2], page=["home"])
    assert rows(spark) == [(1, None), (2, "home")]
    assert len(said) == 1


@pytest.mark.usefixtures("run")
def test_run_without_outputs_reports_that_there_is_no_table(spark, table):
    with registering(table, said := []):
        pass
    assert "'clicks' has no columns yet" in said[1]
    assert not spark.catalog.tableExists("clicks")


@pytest.mark.usefixtures("run")
def test_failed_registration_does_not_fail_the_run(spark, table, sink):
    spark.sql(f"CREATE TABLE clicks (n STRING) USING parquet LOCATION '{sink.location}'")
    with registering(table, said := []):
        put(sink, 1, n=[1])
    assert len(said) == 2
    assert "outputs are committed" in said[1]
    assert "column 'n'" in said[1]


HIVE_RUN = """
import json, sys
from pathlib import Path
import dgs
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
from tests.spark_bridge.tables.test_output_tables import Total

here, conf = Path.cwd(), json.loads(sys.argv[1])
settings = {"sinks": [{"spark": {"table": "clicks"}}], "spark": {"conf": conf}, "runtime.batch_rows": 10}
settings["checkpoint"] = {"every": "1ms", "spark": {"table": "progress"}}
for run in ("one", "two"):
    items = [("n", ts, ts) for ts in range(100)]
    dgs.run(Total, streams={"s": items}, runtime="local", settings=settings, run_dir=here / run)
with session(SparkConfig(conf=conf), here / "later") as spark:
    (clicks,) = spark.sql("SELECT count(*) FROM clicks").first()
    (runs,) = spark.sql("SELECT count(DISTINCT run) FROM progress WHERE is_final").first()
print(clicks, runs)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("spark")  # for its check whether Java is installed
def test_later_session_of_a_catalog_of_hive_knows_outputs_and_checkpoints(tmp_path):
    metastore = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
    conf = {
        **BRIEF,
        **HIVE,
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
    }
    command = [sys.executable, "-c", HIVE_RUN, json.dumps(conf)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["100", "2"], done.stderr
