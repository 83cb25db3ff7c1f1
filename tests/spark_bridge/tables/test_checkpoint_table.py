"""The table of checkpoints follows the commits: every epoch once and in order, despite failures and crashes."""

import datetime as dt
import threading

import pyarrow.parquet as pq
import pytest

import dgs
from dgs import codec
from dgs.errors import CheckpointFailedError, PlanFileError
from dgs.job.schema import SparkConfig, SparkTable
from dgs.spark_bridge.data_source.checkpoint_rows import row_of, table_of_rows
from dgs.spark_bridge.tables.checkpoint_table import Follower, SparkStore, TableAppend, told
from dgs.spark_bridge.tables.epoch_table import EpochTable
from dgs.spark_bridge.tables.table_files import FilesAppend, is_of_files
from tests.spark_bridge.using import entered
from tests.workers.checkpoints.saving import checkpoint, open_store


class Table:
    """A table in memory that can be made to fail."""

    def __init__(self):
        self.epochs = []
        self.problem = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def append(self, rows):
        self.goes_on.wait(120)
        if self.problem is not None:
            raise self.problem
        self.epochs += [row["epoch"] for row in rows if row["epoch"] not in self.epochs]


@pytest.fixture
def table():
    return Table()


def opened(folder, append, *, keep=5, notify=lambda _: None, run="r1"):
    inner = open_store(folder, keep=keep)
    store = SparkStore(inner, Follower(append, notify=notify), run=run, keep=keep, notify=notify)
    store.begin()
    return store


def commit(store, epochs):
    for epoch in epochs:
        store.commit(checkpoint(epoch))


def test_commits_do_not_wait_for_the_table(tmp_path, table):
    table.goes_on.clear()
    store = opened(tmp_path, table.append)
    commit(store, range(1, 6))
    assert table.epochs == []
    table.goes_on.set()
    store.close()
    assert table.epochs == [1, 2, 3, 4, 5]


def test_commit_waits_while_as_many_rows_wait_as_states_are_kept(tmp_path, table):
    table.goes_on.clear()
    store = opened(tmp_path, table.append, keep=2)
    commit(store, [1, 2])
    waiting = threading.Thread(target=commit, args=(store, [3]))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    table.goes_on.set()
    waiting.join()
    store.close()
    assert table.epochs == [1, 2, 3]


def test_epochs_missing_after_a_crash_are_appended_when_the_run_resumes(tmp_path, table):
    table.goes_on.clear()
    crashed = opened(tmp_path, table.append)
    commit(crashed, [1, 2, 3])
    crashed._store.close()  # the rest of a process that died: its directory
    other = Table()
    other.epochs = [1]
    store = opened(tmp_path, other.append)
    commit(store, [4])
    store.close()
    assert other.epochs == [1, 2, 3, 4]
    table.goes_on.set()


def test_table_that_fails_stops_commits_only_when_states_would_be_lost(tmp_path, table):
    said = []
    table.problem = RuntimeError("no space\nat org.apache.spark")
    store = opened(tmp_path, table.append, keep=2, notify=said.append)
    commit(store, [1, 2])
    with pytest.raises(CheckpointFailedError, match="no space"):
        commit(store, [3])
    store.close()
    assert len(said) == 2
    assert "falls behind" in said[0]
    assert "\n" not in said[0]


def test_table_that_fails_for_a_while_gets_all_rows(tmp_path, table):
    table.problem = RuntimeError("busy")
    store = opened(tmp_path, table.append)
    commit(store, [1, 2])
    table.problem = None
    store.close()
    assert table.epochs == [1, 2]


def test_restart_in_one_process_repeats_nothing(tmp_path, table):
    store = opened(tmp_path, table.append)
    commit(store, [1])
    store.begin()
    commit(store, [2])
    store.close()
    assert table.epochs == [1, 2]


def test_row_describes_its_commit():
    row = row_of(
        checkpoint(7), run="r", generation=2, created_at=1_500_000_000, state=codec.encode({"a": (1, 2)})
    )
    assert row["positions"] == '{"a":[{"tags":"{...}","split":0,"ts":70,"seq":7,"ended":false}]}'
    assert row["created_at"] == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)
    names = ("run", "epoch", "generation", "watermark", "events", "outputs", "state", "is_final")
    assert [row[name] for name in names] == ["r", 7, 2, 70, 700, 7, '{"a":[1,2]}', False]


def test_state_that_is_not_plain_data_or_large_is_null():
    for state in (b"\xc1 no codec bytes", codec.encode("x" * 2**20)):
        row = row_of(checkpoint(1), run="r", generation=1, created_at=0, state=state)
        assert (row["state"], row["state_bytes"]) == (None, len(state))


def rows(epochs, run="r1"):
    return [row_of(checkpoint(epoch), run=run, generation=1, created_at=0, state=b"\x07") for epoch in epochs]


def test_spark_appends_each_epoch_of_each_run_once(spark, tmp_path):
    table = EpochTable.of(SparkTable(path="progress"), tmp_path / "[a] b")
    for run, epochs in (("r1", [1, 2]), ("r1", [2, 1, 3]), ("r2", [1])):  # each time as after a crash
        append = TableAppend(table, lambda: entered(spark), run)
        append(rows(epochs, run))
        append.close()
    found = pq.read_table(tmp_path / "[a] b" / "progress").select(["run", "epoch"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [("r1", 1), ("r1", 2), ("r1", 3), ("r2", 1)]


def test_files_of_a_table_and_those_of_spark_are_one_table(spark, tmp_path):
    table, place = EpochTable.of(SparkTable(path="progress"), tmp_path), tmp_path / "progress"
    appends = [FilesAppend(place, "r1"), TableAppend(table, lambda: entered(spark), "r1")]
    for append, epochs in zip(appends, ([1, 2], [2, 3]), strict=True):
        append(rows(epochs))
    (place / "_part-r1-000009.parquet").write_bytes(b"what a killed process leaves")
    FilesAppend(place, "r1")(rows([3, 4]))
    FilesAppend(place, "r2")(rows([1], "r2"))
    found = spark.read.parquet(str(place))
    assert sorted(map(tuple, found.select("run", "epoch").collect())) == [
        ("r1", 1), ("r1", 2), ("r1", 3), ("r1", 4), ("r2", 1),
    ]  # fmt: skip
    kinds = [spark.read.parquet(str(path)).dtypes for path in place.glob("[!_]*.parquet")]
    assert len(kinds) == 4
    assert all(kind == kinds[0] for kind in kinds)


@pytest.mark.parametrize(
    ("table", "config", "is_plain"),
    [
        ({"path": "t"}, {}, True),
        ({"table": "t"}, {"conf": {"spark.driver.memory": "2g"}}, True),
        ({"path": "s3a://t"}, {}, False),
        ({"path": "t", "format": "delta"}, {}, False),
        ({"path": "t"}, {"remote": "sc://server"}, False),
        ({"path": "t"}, {"master": "spark://one:7077"}, False),
        ({"path": "t"}, {"conf": {"spark.hadoop.fs.defaultFS": "hdfs://one"}}, False),
        ({"path": "t"}, {"conf": {"spark.sql.parquet.compression.codec": "zstd"}}, False),
        ({"table": "t"}, {"conf": {"spark.sql.catalogImplementation": "hive"}}, False),
    ],
)
def test_spark_writes_a_table_unless_it_is_only_files_here(tmp_path, monkeypatch, table, config, is_plain):
    monkeypatch.setattr("dgs.spark_bridge.tables.output_tables.is_given", lambda: False)
    known = EpochTable.of(SparkTable(**table), tmp_path)
    assert is_of_files(known, SparkConfig(**config)) == is_plain
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert not is_of_files(known, SparkConfig(**config))


def test_table_with_a_name_is_found_again_by_another_session(spark, tmp_path):
    table = EpochTable.of(SparkTable(table="dgs_checkpoints"), tmp_path)
    assert table.epochs(spark, table_of_rows([]).schema, "r1") == frozenset()
    table.append(spark, table_of_rows(rows([1])))
    spark.sql("DROP TABLE dgs_checkpoints")  # a catalog in memory has forgotten it
    assert table.epochs(spark, table_of_rows([]).schema, "r1") == {1}
    try:
        assert [
            tuple(row) for row in spark.sql("SELECT epoch, watermark, events FROM dgs_checkpoints").collect()
        ] == [(1, 10, 100)]
    finally:
        spark.sql("DROP TABLE dgs_checkpoints")


def test_name_of_another_table_is_refused(spark, tmp_path):
    spark.sql(f"CREATE TABLE progress (page STRING) USING parquet LOCATION '{tmp_path}/pages'")
    try:
        table = EpochTable.of(SparkTable(table="progress"), tmp_path)
        with pytest.raises(PlanFileError, match=r"'progress' is in .* other columns \(page\)"):
            table.epochs(spark, table_of_rows([]).schema, "r1")
    finally:
        spark.sql("DROP TABLE progress")


def test_missing_package_of_a_format_is_reported_with_advice(spark, tmp_path):
    table = EpochTable.of(SparkTable(path="progress", format="avro"), tmp_path)
    append = TableAppend(table, lambda: entered(spark), "r1")
    with pytest.raises(Exception, match="AVRO") as caught:
        append(rows([1]))
    assert "org.apache.spark:spark-avro_2.13:" in told(caught.value)


def test_delta_without_its_package_is_refused(spark, tmp_path):
    table = EpochTable.of(SparkTable(path="progress", format="delta"), tmp_path)
    with pytest.raises(PlanFileError, match=r"io\.delta:delta-spark_.*spark\.sql\.extensions"):
        table.epochs(spark, table_of_rows([]).schema, "r1")


class Total(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit({"total": state + event.payload, "gift": None})
        return state + event.payload


def test_run_leaves_its_checkpoints_and_outputs_as_tables(spark, tmp_path):
    settings = {
        "checkpoint": {"every": "1ms", "spark": {"path": str(tmp_path / "progress")}},
        "sinks": [{"spark": {"path": str(tmp_path / "out")}}],
        "runtime.batch_rows": 10,
    }
    items = [("n", ts, ts) for ts in range(100)]
    run = dgs.run(Total, streams={"s": items}, runtime="local", settings=settings, run_dir=tmp_path / "run")
    found = spark.read.parquet(str(tmp_path / "progress")).orderBy("epoch").collect()
    assert [row.epoch for row in found] == list(range(1, run.report["checkpoints"]["committed"] + 1))
    assert (found[-1].events, found[-1].state, found[-1].is_final) == (100, "4950", True)
    assert sum(row.outputs or 0 for row in found) == 100
    totals = spark.read.parquet(str(tmp_path / "out"))
    assert totals.columns == ["total"]
    assert totals.count() == totals.distinct().count() == 100
