"""Runs as tables of SQL: prefixes by epoch, conditions that a reader applies itself, bounded micro-batches."""

import operator
import time
from datetime import date
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

import dgs
from dgs.errors import UsageError
from dgs.spark_bridge.data_source import readers
from dgs.spark_bridge.data_source.pushdown import condition_of, matching, row_groups
from tests.workers.checkpoints.saving import checkpoint, open_store


class Sums(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        time.sleep(0.0001)  # checkpoints are due, however fast the machine is
        emit({"at": event.ts, "sum": state + event.payload})
        return state + event.payload


ITEMS = [("n", ts, 1) for ts in range(200)]
EXPECTED = [{"at": ts, "sum": ts + 1} for ts in range(200)]


@pytest.fixture(scope="module", params=["parquet", "jsonl"])
def run(request, tmp_path_factory):
    """A finished run with an epoch for every few events."""
    folder = tmp_path_factory.mktemp("run")
    settings = {
        "runtime.batch_rows": 10,
        "checkpoint": {"every": "1ms", "keep": 1000},
        "sinks": [{request.param: {"path": str(folder / "out"), "identity": ["epoch"]}}],
    }
    return dgs.run(
        Sums, streams={"s": ITEMS}, runtime="local", run_dir=folder / "run", settings=settings
    ).run_dir


def read(run, *filters, **options):
    """Return the rows that a query with some filters gets, and the number of its parts."""
    options = {"run": str(run), **options}
    schema = readers.schema(options)
    reader = readers.reader(options, schema)
    assert list(reader.pushFilters(list(filters))) == []
    parts = [
        part
        for part in reader.partitions()
        if isinstance(part, (readers.FilePartition, readers.EpochPartition))
    ]
    batches = [batch for part in parts for batch in reader.read(part)]
    rows = pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))
    return rows.to_pylist(), len(parts)


def events_of(run):
    """Return the number of events in the state of each checkpoint."""
    return {row["epoch"]: row["events"] for row in read(run, what="checkpoints")[0]}


def test_an_epoch_gives_the_outputs_of_the_events_up_to_it(run):
    for epoch, events in events_of(run).items():
        rows, _ = read(run, epoch=str(epoch))
        assert [(row["at"], row["sum"]) for row in rows] == [(ts, ts + 1) for ts in range(events)]


def test_an_epoch_gives_the_checkpoints_up_to_it(run):
    assert [row["epoch"] for row in read(run, what="checkpoints", epoch="2")[0]] == [1, 2]


def test_an_epoch_that_is_not_committed_is_refused(run):
    last = max(events_of(run))
    with pytest.raises(UsageError, match=f"epoch {last + 1} .* is not committed: the last one is {last}"):
        read(run, epoch=str(last + 1))


@pytest.mark.parametrize("name", ["epoch", "maxEpochsPerTrigger"])
def test_options_that_are_numbers_must_be_some(name):
    with pytest.raises(UsageError, match=f"a number from 1 on for `{name}`, not '0'"):
        readers.schema({"run": "x", name: "0"})


def test_a_condition_on_the_epoch_leaves_out_files(run):
    rows, parts = read(run, datasource.LessThanOrEqual(("epoch",), 2))
    assert (parts, {row["epoch"] for row in rows}) == (2, {1, 2})
    rows, parts = read(run, datasource.In(("epoch",), (2, 3, 999)))
    assert (parts, {row["epoch"] for row in rows}) == (2, {2, 3})
    rows, parts = read(run, datasource.EqualTo(("epoch",), 3), what="checkpoints")
    assert (parts, [row["epoch"] for row in rows]) == (1, [3])


def test_outputs_without_an_epoch_get_a_column_with_it(run, tmp_path):
    rows, parts = read(run, datasource.EqualTo(("of",), 2), epochColumn="of")
    assert parts == 1
    assert rows
    assert {(row["of"], row["epoch"]) for row in rows} == {(2, 2)}
    with pytest.raises(UsageError, match="have a column 'sum': give `epochColumn` another name"):
        read(run, epochColumn="sum")


ROWS = {
    "n": pa.array([3, None, 1, 2, 2], pa.int32()),
    "word": ["b", "a", None, "bb", ""],
    "yes": [True, False, None, True, False],
    "day": [date(2026, 1, 1), None, date(2025, 1, 1), date(2026, 1, 2), date(1969, 1, 1)],
    "half": [0.5, 4.5, None, 1.0, 2.0],
}


COMPARISONS = {
    "EqualTo": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
}


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("column", ["n", "word", "yes", "day"])
def test_conditions_choose_the_rows_that_a_comparison_chooses(kind, column, tmp_path):
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1)
    for value in {value for value in table[column].to_pylist() if value is not None}:
        condition = condition_of(getattr(datasource, kind)((column,), value), table.schema)
        chosen = [
            row
            for row in table.to_pylist()
            if row[column] is not None and COMPARISONS[kind](row[column], value)
        ]
        assert matching(table, [condition]).to_pylist() == chosen
        with pq.ParquetFile(tmp_path / "rows.parquet") as file:
            groups = row_groups(file, [condition], table.schema)
        with_value = [at for at, row in enumerate(table.to_pylist()) if row[column] is not None]
        assert [table.slice(at, 1).to_pylist()[0] for at in groups if at in with_value] == chosen


@pytest.mark.parametrize(("kind", "rows"), [("IsNull", [1]), ("IsNotNull", [0, 2, 3, 4])])
def test_conditions_choose_nulls(kind, rows):
    table = pa.table(ROWS)
    condition = condition_of(getattr(datasource, kind)(("n",)), table.schema)
    assert matching(table, [condition]).equals(table.take(rows))


def test_a_column_with_a_dot_is_no_part_of_a_record(tmp_path):
    pq.write_table(pa.table({"a": [{"b": 1}]}), tmp_path / "rows.parquet")
    condition = condition_of(datasource.EqualTo(("a.b",), 2), pa.schema([("a.b", pa.int64())]))
    with pq.ParquetFile(tmp_path / "rows.parquet") as file:
        assert row_groups(file, [condition], pa.schema([("a.b", pa.int64())])) == [0]


@pytest.mark.parametrize(
    "left",
    [
        datasource.GreaterThan(("half",), 0.5),  # NaN is greater for Spark, but not for Parquet
        datasource.EqualTo(("n", "part"), 1),
        datasource.EqualTo(("gone",), 1),
        datasource.EqualTo(("n",), 2**40),
        datasource.EqualNullSafe(("n",), None),
        datasource.StringContains(("word",), "b"),
        datasource.Not(datasource.EqualTo(("n",), 1)),
    ],
)
def test_other_filters_are_left_to_spark(left):
    assert condition_of(left, pa.table(ROWS).schema) is None


def micro_batches(stream, start, limit):
    """Return the ends of the micro-batches that Spark makes until the end."""
    ends = []
    while (end := stream.latestOffset(start, limit)) != start:
        ends.append(end["epoch"])
        start = end
    return ends


def test_a_micro_batch_has_no_more_epochs_than_asked_for(run):
    options = {"run": str(run), "maxEpochsPerTrigger": "3"}
    stream = readers.stream_reader(options, readers.schema(options))
    epochs = sorted({row["epoch"] for row in read(run)[0]})
    stream.prepareForTriggerAvailableNow()
    ends = micro_batches(stream, stream.initialOffset(), stream.getDefaultReadLimit())
    between = [[epoch for epoch in epochs if low < epoch <= high] for low, high in pairwise([0, *ends])]
    assert [len(batch) for batch in between[:-1]] == [3] * (len(between) - 1)
    assert [epoch for batch in between for epoch in batch] == epochs
    assert micro_batches(stream, stream.initialOffset(), ReadAllAvailable()) == ends[-1:]


def test_a_stream_of_the_present_epochs_ends_although_the_run_goes_on(tmp_path):
    run = tmp_path / "run"
    (run / "out").mkdir(parents=True)
    (run / "plan.yaml").write_text('{"sinks": [{"spark": {"path": "out"}}]}')
    store = open_store(run / "checkpoints")
    store.begin()
    options = {"run": str(run)}
    for epoch in (1, 2):
        pq.write_table(pa.table({"v": [epoch]}), run / f"out/part-{epoch:06d}-0.parquet")
        store.commit(checkpoint(epoch, files=()))
        if epoch == 1:
            stream = readers.stream_reader(options, readers.schema(options))
            stream.prepareForTriggerAvailableNow()
    store.close()
    assert stream.latestOffset({"epoch": 0}, stream.getDefaultReadLimit()) == {"epoch": 1}


@pytest.fixture(scope="module")
def tables(spark, run):
    """The outputs and the checkpoints of a run as tables of SQL."""
    spark.sql(f"CREATE TABLE sums USING dgs OPTIONS (run '{run}')")
    spark.sql(f"CREATE TABLE saved USING dgs OPTIONS (run '{run}', what 'checkpoints')")
    yield
    for name in ("sums", "saved"):
        spark.sql(f"DROP TABLE {name}")


def test_sql_joins_outputs_with_checkpoints(spark, run, tables):
    found = spark.sql(
        "SELECT saved.epoch, max(sums.sum), any_value(events), any_value(state), any_value(positions['s'][0].split) "
        "FROM sums JOIN saved USING (epoch) GROUP BY saved.epoch"
    )
    by_epoch = {row[0]: tuple(row[1:]) for row in found.collect()}
    assert len(by_epoch) > 3
    events = events_of(run)
    assert by_epoch == {epoch: (*[events[epoch]] * 3, 0) for epoch in by_epoch}


def test_a_filter_on_the_epoch_is_pushed_to_the_reader_and_plans_fewer_tasks(spark, run, tables, capsys):
    frame = spark.sql("SELECT at, sum FROM sums WHERE epoch <= 2 AND at >= 0 AND sum % 2 = 0")
    frame.explain("formatted")
    plan = capsys.readouterr().out
    pushed = next(line for line in plan.splitlines() if line.startswith("PushedFilters"))
    assert "LessThanOrEqual(epoch,2)" in pushed
    assert "GreaterThanOrEqual(at,0)" in pushed
    assert frame.rdd.getNumPartitions() == 2 < spark.table("sums").rdd.getNumPartitions()
    rows, _ = read(run, epoch="2")
    even = [(row["at"], row["sum"]) for row in rows if row["sum"] % 2 == 0]
    assert sorted(map(tuple, frame.collect())) == even


def test_a_table_is_read_as_of_an_epoch(spark, run, tables):
    rows = [(row["at"], row["sum"]) for row in read(run, epoch="2")[0]]
    of_sql = spark.sql("SELECT at, sum FROM sums WITH (epoch = 2)")
    assert sorted(map(tuple, of_sql.collect())) == rows
    assert spark.read.option("epoch", 2).table("sums").count() == len(rows)
    chosen = spark.read.schema("sum BIGINT").format("dgs").option("run", str(run)).option("epoch", 2).load()
    assert sorted(row.sum for row in chosen.collect()) == [total for _, total in rows]


def test_a_table_of_the_catalog_may_have_a_location_and_properties(spark, run):
    spark.sql(f"CREATE TABLE placed USING dgs TBLPROPERTIES (team 'x') LOCATION '{run}'")
    try:
        assert spark.table("placed").count() == len(EXPECTED)
    finally:
        spark.sql("DROP TABLE placed")
    with pytest.raises(Exception, match="no option 'wath' for reading"):
        spark.sql(f"CREATE TABLE wrong USING dgs OPTIONS (run '{run}', wath 'checkpoints')")


def test_a_bounded_stream_gives_every_row_once(spark, run, tmp_path):
    rows = spark.readStream.format("dgs").options(run=str(run), maxEpochsPerTrigger=2).load()
    query = (
        rows.writeStream.format("parquet")
        .options(path=str(tmp_path / "copy"), checkpointLocation=str(tmp_path / "offsets"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(query.recentProgress) > 1
    copied = pq.read_table(tmp_path / "copy").select(["at", "sum"]).sort_by("at")
    assert copied.to_pylist() == EXPECTED
