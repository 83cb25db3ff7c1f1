"""Lost checkpoints are restored from the table of checkpoints, or the run is refused and nothing changes."""

import json
import shutil
import time
from itertools import accumulate

import pyarrow.parquet as pq
import pytest

import dgs
from dgs.errors import CheckpointRefusedError, UsageError
from dgs.spark_bridge.data_source.checkpoint_rows import SCHEMA
from dgs.spark_bridge.tables.lost_checkpoints import CheckpointTableError

COUNT = 200


class Sums(dgs.Program):
    """Emits the sum so far at each event. It fails at an event while a file `broken` exists."""

    kinds = (dgs.kind("n"),)

    def __init__(self, broken):
        self.broken = broken

    def init(self):
        return {"total": 0}

    def update(self, state, event, emit):
        time.sleep(0.0005)  # checkpoints are due
        if event.ts == COUNT // 2 and self.broken.exists():
            raise ValueError
        total = state["total"] + event.payload
        emit({"ts": event.ts, "total": total})
        return {"total": total}


class Others(Sums):
    """Another program."""

    version = 2


STREAMS = {"s": [("n", ts, ts) for ts in range(COUNT)]}


@pytest.fixture
def failed(spark, tmp_path):
    """The directory of a run that has failed in the middle and lost its checkpoints."""
    settings = {
        "runtime.batch_rows": 10,
        "checkpoint": {"every": "1ms", "spark": {"path": str(tmp_path / "saved")}},
        "sinks": [{"jsonl": {"path": str(tmp_path / "out")}}],
    }
    (tmp_path / "broken").touch()
    with pytest.raises(dgs.DgsError, match="ValueError"):
        dgs.run(
            Sums(tmp_path / "broken"),
            streams=STREAMS,
            runtime="local",
            settings=settings,
            run_dir=tmp_path / "run",
        )
    (tmp_path / "broken").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    return tmp_path / "run"


def resumed(run, program=Sums, **options):
    return dgs.resume(run, program=program(run.parent / "broken"), streams=STREAMS, **options)


def test_run_resumes_from_the_table_and_repeats_nothing(failed):
    before = pq.read_table(failed.parent / "saved").to_pylist()
    assert {row["name"] for row in before} == {"run"}
    resumed(failed, from_table=True)
    texts = [file.read_text() for file in (failed.parent / "out").glob("part-*.jsonl")]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    found = sorted((row["ts"], row["total"]) for row in rows)
    assert found == list(enumerate(accumulate(range(COUNT))))
    after = pq.read_table(failed.parent / "saved").sort_by("epoch").to_pylist()
    assert [row["epoch"] for row in after] == list(range(1, len(after) + 1))
    assert (after[-1]["events"], after[-1]["run"]) == (COUNT, before[0]["run"])


def test_table_of_other_runs_is_refused(failed):
    settings = {"checkpoint.spark.path": str(failed.parent / "others")}
    with pytest.raises(CheckpointTableError, match="no checkpoint of this run"):
        resumed(failed, settings=settings, from_table=True)
    assert not (failed / "checkpoints").exists()


def test_outputs_of_epochs_that_the_table_lacks_are_named(failed):
    newest = max((failed.parent / "out").glob("part-*.jsonl"))
    later = newest.with_name("part-000999-0.jsonl")
    shutil.copy(newest, later)
    with pytest.raises(CheckpointTableError, match=f"{later} is a file of a later one"):
        resumed(failed, from_table=True)
    assert not (failed / "checkpoints").exists()


def test_state_of_another_program_is_refused(failed):
    with pytest.raises(CheckpointRefusedError, match="of Sums"):
        resumed(failed, Others, from_table=True)


def test_checkpoints_that_are_there_are_not_replaced(failed):
    resumed(failed, from_table=True)
    with pytest.raises(UsageError, match="without --from-table"):
        resumed(failed, from_table=True)


def test_table_with_a_name_from_an_earlier_version_gets_the_new_columns(spark, tmp_path):
    from dgs.job.schema import SparkTable
    from dgs.spark_bridge.data_source.checkpoint_rows import table_of_rows
    from dgs.spark_bridge.tables.epoch_table import EpochTable

    earlier = table_of_rows([]).select([name for name in SCHEMA.names if name not in ("name", "saved")])
    spark.createDataFrame(earlier).write.option("path", str(tmp_path / "older")).saveAsTable("older")
    try:
        EpochTable.of(SparkTable(table="older"), tmp_path).epochs(spark, SCHEMA, "r1")
        assert spark.table("older").columns == SCHEMA.names
    finally:
        spark.sql("DROP TABLE older")
