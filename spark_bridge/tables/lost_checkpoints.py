"""Lost checkpoints, made again from the table of checkpoints.

The table has the newest state of a run as it was saved, with the record of what was committed then. Both are written back, so the run
resumes as from the directory that is lost. The table may lag behind it. Then outputs of later epochs may be published, and a run that
resumed before them would publish them twice; so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dgs import codec
from dgs.errors import CheckpointError
from dgs.job.schema import SinkConfig, SparkConfig, SparkTable
from dgs.spark_bridge.data_source.checkpoint_rows import LARGEST_SAVED, SCHEMA
from dgs.spark_bridge.data_source.run_files import epoch_of
from dgs.spark_bridge.session.session import Notify, session
from dgs.spark_bridge.tables.epoch_table import EpochTable
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.saved import RECORDS, state_name
from dgs.workers.sinks.files.places import LAKE_KINDS, output_places
from dgs.workers.storage.disk import make_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRESH = "Begin anew with `dgs run --fresh`"


class CheckpointTableError(CheckpointError):
    """The table of checkpoints cannot replace a lost directory of checkpoints."""

    code = "DGS526"
    template = "cannot make the checkpoints of run {run} again from table {table}: {problem}"
    fix = "{advice}"


@dataclass(frozen=True, slots=True)
class LostCheckpoints:
    """The checkpoints that a run has lost. `run`: its id; `name`: that of its directory; `directory`: where they were.

    `sinks`: of the run, with paths relative to `base_dir`; `output_dir`: for sinks without a path.
    """

    run: str
    name: str
    directory: Path
    sinks: Sequence[SinkConfig]
    base_dir: Path
    output_dir: Path

    def restore(self, config: SparkTable, spark: SparkConfig, *, notify: Notify) -> int:
        """Write the newest checkpoint of the table into the directory, and return its epoch.

        Raises CheckpointTableError if the table does not have it, or the sinks have later outputs; ResourceError without Spark.
        """
        table = EpochTable.of(config, self.base_dir)
        with session(spark, self.output_dir.absolute() / "spark", notify=notify) as found:
            epoch, saved = self._newest(table, found)
        if saved is None:
            problem = f"it has no state of epoch {epoch}, which is larger than {LARGEST_SAVED >> 20} MiB, or was saved by an older version"
            raise self._error(table, problem, FRESH)
        self._refuse_later_outputs(table, epoch)
        state, record = codec.decode(saved)
        directory = CheckpointDirectory(self.directory)
        make_directory(self.directory)
        directory.disk.write_new(self.directory / state_name(epoch), state)
        directory.disk.write_new(self.directory / RECORDS[0], record)
        committed = directory.committed()
        if committed is not None:  # the record names earlier states, too
            digest = directory.load(epoch).file_digest
            directory.write_record(replace(committed, states={epoch: digest}))
        return epoch

    def _newest(self, table: EpochTable, spark: SparkSession) -> tuple[int, bytes | None]:
        epochs = table.epochs(spark, SCHEMA, self.run)
        if not epochs:
            problem = "it has no checkpoint of this run; its rows are of other runs, or it has none"
            raise self._error(table, problem, f"Name the table of this run in its plan file. Or: {FRESH}")
        newest = max(epochs)
        frame = table.read(spark, SCHEMA)
        rows = frame.where((frame.run == self.run) & (frame.epoch == newest)).select("saved").collect()
        return newest, None if rows[0].saved is None else bytes(rows[0].saved)

    def _refuse_later_outputs(self, table: EpochTable, epoch: int) -> None:
        for place in output_places(
            self.sinks, output_dir=self.output_dir, base_dir=self.base_dir, run=self.run
        ):
            later = [path for path in place.finals() if epoch_of(path) > epoch]
            if later:
                problem = f"it ends with epoch {epoch}, and {later[0]} is a file of a later one"
                advice = f"Remove the files of later epochs ({len(later)}, from {later[0].name} on): the run makes them again. Or: {FRESH}"
                raise self._error(table, problem, advice)
        for sink in self.sinks:
            if sink.kind in LAKE_KINDS:
                from dgs.workers.sinks.lake.lake_sink import LakeSink

                there = LakeSink(sink.kind, sink.details, self.base_dir).last_epoch(self.run)
                if there > epoch:
                    problem = f"it ends with epoch {epoch}, and the sink {sink.kind!r} has outputs up to epoch {there}"
                    raise self._error(table, problem, FRESH)

    def _error(self, table: EpochTable, problem: str, advice: str) -> CheckpointTableError:
        return CheckpointTableError(run=self.name, table=str(table), problem=problem, advice=advice)
