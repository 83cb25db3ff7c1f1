"""Runs as data frames: committed data only, each row once; a stream yields epochs as they are committed."""

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import dgs
from dgs.errors import CorruptFileError, NoSuchRunError, UsageError
from dgs.spark_bridge.data_source import readers
from dgs.spark_bridge.data_source.run_files import common_schema, last_epoch, output_files
from dgs.workers.recovery.checkpoint import StagedFile
from tests.workers.checkpoints.saving import checkpoint, open_store


class Sums(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        time.sleep(0.0001)  # checkpoints are due, however fast the machine is
        emit({"ts": event.ts, "sum": state + event.payload})
        return state + event.payload


ITEMS = [("n", ts, 1) for ts in range(50)]


def finished(folder, **settings):
    given = {"runtime.batch_rows": 10, **settings}
    return dgs.run(
        Sums, streams={"s": ITEMS}, runtime="local", run_dir=folder / "run", settings=given
    ).run_dir


def frame_of(run, **options):
    """Read as Spark does, without Spark."""
    options = {"run": str(run), **options}
    schema = readers.schema(options)
    reader = readers.reader(options, schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))


EXPECTED = [{"ts": ts, "sum": ts + 1} for ts in range(50)]


@pytest.mark.parametrize("sink", [None, "jsonl", "csv", "parquet", "spark"])
@pytest.mark.parametrize("every", [None, "1ms"])
def test_reader_gives_the_outputs_of_every_sink_of_files(sink, every, tmp_path):
    settings = {} if sink is None else {"sinks": [{sink: {"path": str(tmp_path / "out")}}]}
    if every is not None:
        settings["checkpoint"] = {"every": every}
    assert sorted(frame_of(finished(tmp_path, **settings)).to_pylist(), key=lambda row: row["ts"]) == EXPECTED


class Told(dgs.Program):
    """Outputs the payloads."""

    def init(self):
        return None

    def update(self, state, event, emit) -> None:
        emit(event.payload)


@pytest.mark.parametrize("sink", ["csv", "parquet"])
@pytest.mark.parametrize(
    "values",
    [["a", None, "", "b\nc"], [None, 1.5, float("inf"), float("nan")], [True, None], [None]],
)
def test_reader_gives_nulls_and_all_numbers_back(values, sink, tmp_path):
    items = [("n", ts, value) for ts, value in enumerate(values)]
    settings = {"sinks": [{sink: {"path": str(tmp_path / "out")}}]}
    run = dgs.run(
        Told, streams={"s": items}, runtime="local", run_dir=tmp_path / "run", settings=settings
    ).run_dir
    assert list(map(repr, frame_of(run).column("value").to_pylist())) == list(map(repr, values))


@pytest.mark.parametrize("sink", ["jsonl", "csv", "parquet", "spark"])
def test_empty_records_are_outputs_like_others(sink, tmp_path):
    settings = {"sinks": [{sink: {"path": str(tmp_path / "out")}}]}
    run = dgs.run(
        Told, streams={"s": [("n", 1, {})]}, runtime="local", run_dir=tmp_path / "run", settings=settings
    ).run_dir
    assert frame_of(run).column("value").to_pylist() == ["{}"]


def test_reader_gives_the_checkpoints_that_are_kept(tmp_path):
    run = finished(tmp_path, checkpoint={"every": "1ms", "keep": 2})
    found = frame_of(run, what="checkpoints").to_pylist()
    assert len(found) == 2
    assert (found[-1]["events"], found[-1]["state"], found[-1]["is_final"]) == (50, 50, True)


def run_with_sink(folder):
    """Make the directory of a run with a Parquet sink, without running anything."""
    folder.mkdir(parents=True)
    (folder / "plan.yaml").write_text(json.dumps({"sinks": [{"spark": {"path": "out"}}]}))
    (folder / "out").mkdir()
    return folder


def put(path, values):
    pq.write_table(pa.table({"v": values}), path)
    return path


def test_committed_files_are_read_before_they_are_published(tmp_path):
    run = run_with_sink(tmp_path / "run")
    put(run / "out/part-000001-0.parquet", [1])
    staged = put(run / "out/_part-000002-0.g1.parquet.partial", [2])
    put(run / "out/_part-000003-0.g1.parquet.partial", [3])
    store = open_store(run / "checkpoints")
    store.begin()
    final = run / "out/part-000002-0.parquet"
    store.commit(checkpoint(1, files=()))
    store.commit(checkpoint(2, files=(StagedFile(str(staged), str(final), 1, "", 1),)))
    assert frame_of(run)["v"].to_pylist() == [1, 2]
    assert last_epoch(run) == 2
    parts = readers.reader({"run": str(run)}, readers.schema({"run": str(run)}))
    planned = parts.partitions()
    staged.rename(final)  # published between planning and reading
    assert [b["v"].to_pylist() for part in planned for b in parts.read(part)] == [[1], [2]]
    store.close()


def values_of(stream, start, end):
    return [batch["v"].to_pylist() for part in stream.partitions(start, end) for batch in stream.read(part)]


def test_stream_gives_each_epoch_once(tmp_path):
    run = run_with_sink(tmp_path / "run")
    store = open_store(run / "checkpoints")
    store.begin()
    put(run / "out/part-000001-0.parquet", [1])
    store.commit(checkpoint(1, files=()))
    options = {"run": str(run)}
    stream = readers.stream_reader(options, readers.schema(options))
    offset, seen = stream.initialOffset(), []
    for epoch in (1, 2, 3):
        if epoch > 1:
            put(run / f"out/part-{epoch:06d}-0.parquet", [epoch])
            store.commit(checkpoint(epoch, files=()))
        end = stream.latestOffset(offset)
        seen += [values_of(stream, offset, end) for _ in range(2)]  # Spark may plan a micro-batch twice
        offset = end
    store.close()
    assert seen == [[[1]], [[1]], [[2]], [[2]], [[3]], [[3]]]
    assert list(stream.read(stream.partitions(offset, offset)[0])) == []


def test_columns_of_several_types_get_a_type_that_holds_all(tmp_path):
    run = run_with_sink(tmp_path / "run")
    tables = [{"v": [1], "w": [{"a": 1}]}, {"v": [0.5]}, {"w": ["text"], "x": pa.nulls(1)}]
    for number, columns in enumerate(tables):
        pq.write_table(pa.table(columns), run / f"out/part-00000{number + 1}-0.parquet")
    assert frame_of(run).to_pylist() == [
        {"v": 1.0, "w": '{"a":1}'},
        {"v": 0.5, "w": None},
        {"v": None, "w": "text"},
    ]


def test_structs_are_merged_field_by_field():
    one, other = (pa.schema([("r", pa.struct([(name, pa.int64())]))]) for name in "ab")
    assert common_schema([one, other]).field("r").type == pa.struct([("a", pa.int64()), ("b", pa.int64())])


def test_wrong_options_name_the_right_values(tmp_path):
    with pytest.raises(UsageError, match="option"):
        readers.schema({})
    with pytest.raises(UsageError, match="not 'everything'"):
        readers.schema({"run": "x", "what": "everything"})
    with pytest.raises(UsageError, match="no option 'wath'"):
        readers.schema({"run": "x", "wath": "checkpoints"})
    with pytest.raises(UsageError, match="'s3a://runs/7' is an address"):
        readers.schema({"run": "s3a://runs/7"})
    with pytest.raises(NoSuchRunError, match="no run directory"):
        readers.schema({"run": str(tmp_path)})
    with pytest.raises(UsageError, match="no committed outputs yet"):
        readers.schema({"run": str(run_with_sink(tmp_path / "run"))})


def test_directory_of_a_plan_file_is_no_run_directory(tmp_path):
    (tmp_path / "plan.yaml").write_text("name: plan")
    (tmp_path / ".dgs").mkdir()
    with pytest.raises(NoSuchRunError, match="no run directory"):
        readers.schema({"path": str(tmp_path)})


@pytest.mark.parametrize("sink", ["jsonl", "csv", "parquet"])
def test_damaged_file_of_outputs_is_named(sink, tmp_path):
    run = finished(tmp_path, sinks=[{sink: {"path": str(tmp_path / "out")}}])
    [file] = output_files(run)
    file.path.write_bytes(file.path.read_bytes()[:-3] + b',"')
    with pytest.raises(CorruptFileError) as caught:
        frame_of(run)
    assert caught.value.path == file.path


def test_columns_that_checkpoints_do_not_have_are_named():
    with pytest.raises(UsageError, match="have no column 'size'"):
        readers.reader(
            {"run": "x", "what": "checkpoints"}, StructType().add("epoch", "long").add("size", "long")
        )


def test_run_without_files_says_so(tmp_path):
    run = finished(tmp_path, sinks=["none"])
    with pytest.raises(UsageError, match="no file sink"):
        output_files(run)


def test_spark_reads_a_run_and_streams_it(spark, tmp_path):
    run = finished(tmp_path, checkpoint={"every": "1ms"})
    options = {"run": str(run)}
    assert spark.read.format("dgs").options(**options).load().count() == 50
    told = spark.read.format("dgs").options(**options, what="checkpoints").load().select("epoch", "events")
    assert told.collect()[-1].events == 50
    query = (
        spark.readStream.format("dgs")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .options(path=str(tmp_path / "copy"), checkpointLocation=str(tmp_path / "offsets"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert pq.read_table(tmp_path / "copy").num_rows == 50


def test_spark_does_not_see_unpublished_files(spark, tmp_path):
    run = run_with_sink(tmp_path / "run")
    put(run / "out/part-000001-0.parquet", [1])
    Path(run / "out/_part-000002-0.g1.parquet.partial").write_bytes(b"half a file")
    assert spark.read.parquet(str(run / "out")).count() == 1
