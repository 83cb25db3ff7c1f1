"""Readers of runs as data frames: the batch and the stream reader of the data source `dgs`.

`spark.read.format("dgs").option("run", directory)` gives the committed outputs of a run, `.option("what", "checkpoints")` the
checkpoints that are kept. As a stream, the offset is the epoch: a micro-batch holds whole epochs, all committed since the one
before. Rows are Arrow from the file to Spark. Conditions of a query on epochs leave out files before a task is planned for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dgs.errors import CorruptFileError, UsageError
from dgs.spark_bridge.data_source.checkpoint_rows import SHOWN, row_of_saved, state_text, table_of_rows
from dgs.spark_bridge.data_source.pushdown import Condition, condition_of, matching
from dgs.spark_bridge.data_source.run_files import (
    OutputFile,
    committed,
    epoch_column,
    last_epoch,
    output_files,
    schema_of,
    tables,
)
from dgs.spark_bridge.data_source.run_options import (
    CHECKPOINTS,
    EPOCH_COLUMN,
    OUTPUTS,
    Wanted,
    noted,
    with_noted,
)
from dgs.spark_bridge.data_source.typed_rows import POSITIONS, kind_of, typed
from dgs.workers.checkpoints.directory import CheckpointDirectory

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # PySpark before 4.2 has no limits: a micro-batch takes everything
    SupportsTriggerAvailableNow: type = object  # type: ignore[no-redef]

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

EPOCH = "epoch"


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """One file of outputs."""

    file: OutputFile


@dataclass(frozen=True)
class EpochPartition(InputPartition):
    """The checkpoint of one epoch."""

    epoch: int


def schema(options: Mapping[str, str]) -> StructType:
    """Return the schema of the data that the options ask for. Raises UsageError, also if a run has no outputs yet."""
    wanted = Wanted.of(options)
    if wanted.what == CHECKPOINTS:
        return noted(from_arrow_schema(_of_checkpoints(wanted.path)), options)
    found = schema_of(output_files(wanted.path))
    if not len(found):
        message = f"run {wanted.run} has no committed outputs yet: wait for some, or give a schema"
        raise UsageError(message=message)
    if wanted.epoch_column is not None:
        if wanted.epoch_column in found.names:
            message = f"outputs of run {wanted.run} have a column {wanted.epoch_column!r}: give `{EPOCH_COLUMN}` another name"
            raise UsageError(message=message)
        found = found.append(pa.field(wanted.epoch_column, pa.int64()))
    return noted(from_arrow_schema(found), options)


def reader(options: Mapping[str, str], schema: StructType) -> RunReader:
    """Return a reader of the data committed so far. Raises UsageError."""
    return RunReader(options, schema)


def stream_reader(options: Mapping[str, str], schema: StructType) -> RunStreamReader:
    """Return a reader of the data committed so far and later. Raises UsageError."""
    return RunStreamReader(options, schema)


class _Reading:
    """The common part of both readers. `schema`: of the data frame."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._wanted = Wanted.of(with_noted(options, schema))
        self._schema = schema
        self._conditions: list[Condition] = []
        absent = sorted(set(schema.names) - set(SHOWN.names))
        if self._wanted.what == CHECKPOINTS and absent:
            message = f"checkpoints have no column {absent[0]!r}; their columns are {', '.join(SHOWN.names)}"
            raise UsageError(message=message)

    def _parts(self, after: int, last: int) -> list[InputPartition]:
        """Return the parts of the epochs above `after` up to `last` in which rows may meet all conditions."""
        if self._wanted.what == OUTPUTS:
            column = self._wanted.epoch_column or epoch_column(self._wanted.path)
            files = [file for file in output_files(self._wanted.path) if after < file.epoch <= last]
            return [
                FilePartition(file)
                for file in files
                if not file.is_numbered or self._may_meet(column, file.epoch)
            ]
        epochs = [epoch for epoch in self._epochs() if after < epoch <= last]
        return [EpochPartition(epoch) for epoch in epochs if self._may_meet(EPOCH, epoch)]

    def _epochs(self) -> list[int]:
        """Return the epochs of which there is something to read."""
        if self._wanted.what == OUTPUTS:
            return sorted({file.epoch for file in output_files(self._wanted.path)})
        record = committed(self._wanted.path)
        return sorted({} if record is None else record.states)

    def _may_meet(self, column: str | None, epoch: int) -> bool:
        return not any(one.column == column and one.excludes(epoch, epoch) for one in self._conditions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part that meet all conditions."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        if isinstance(partition, FilePartition):
            epoch = {name: partition.file.epoch for name in (self._wanted.epoch_column,) if name is not None}
            yield from tables(partition.file, schema, self._conditions, constants=epoch)
        elif isinstance(partition, EpochPartition):
            for batch in _checkpoint(self._wanted.path, partition.epoch, schema):
                yield from matching(pa.Table.from_batches([batch]), self._conditions).to_batches()


class RunReader(_Reading, DataSourceReader):
    """Reads the data that is committed when the query is planned."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Keep the filters that are conditions, and return the others to Spark."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for one in filters:
            condition = condition_of(one, schema)
            if condition is None:
                yield one
            else:
                self._conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        """Return a part per file, or per checkpoint. Raises UsageError if the wanted epoch is not committed."""
        last, wanted = last_epoch(self._wanted.path), self._wanted.epoch
        if wanted is not None and wanted > last:
            message = f"epoch {wanted} of run {self._wanted.run} is not committed: the last one is {last}"
            raise UsageError(message=message)
        return self._parts(0, last if wanted is None else wanted) or [InputPartition(None)]


class RunStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads epoch after epoch as it is committed."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._end: int | None = self._wanted.epoch

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset before the first epoch."""
        return {EPOCH: 0}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return the limit of a micro-batch. Spark has no limit of epochs, and passes this one back."""
        most = self._wanted.per_trigger
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End at the last epoch that is committed now."""
        self._end = self._last()

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the last epoch of the next micro-batch."""
        after = 0 if start is None else start[EPOCH]
        last = max(self._last(), after)
        most = getattr(limit, "max_files", None)
        if most is not None:
            waiting = [epoch for epoch in self._epochs() if after < epoch <= last]
            last = waiting[most - 1] if len(waiting) > most else last
        return {EPOCH: last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the parts of the epochs above `start` up to `end`."""
        return self._parts(start[EPOCH], end[EPOCH]) or [InputPartition(None)]

    def _last(self) -> int:
        last = last_epoch(self._wanted.path)
        return last if self._end is None else min(last, self._end)


def _of_checkpoints(run: Path) -> pa.Schema:
    """Return the columns of the checkpoints of a run: the newest kept state gives the type of all states."""
    from dgs.job.run_directory import RunDirectory

    record, state = committed(run), None
    if record is not None and record.states:
        with suppress(CorruptFileError):  # the run has deleted it, or reading its row raises the error
            state = CheckpointDirectory(RunDirectory(run).checkpoints).load(max(record.states)).state
    types = {"state": kind_of(None if state is None else state_text(state)), "positions": POSITIONS}
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in SHOWN])


def _checkpoint(run: Path, epoch: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from dgs.job.run_directory import RunDirectory

    place = RunDirectory(run).checkpoints
    try:
        saved = CheckpointDirectory(place).load(epoch)
    except CorruptFileError:
        if (record := committed(run)) is None or epoch in record.states:
            raise
        return  # the run has deleted it since the query was planned
    row = row_of_saved(saved, saved.manifest.run, name=run.name)
    yield from typed(table_of_rows([row]), schema).to_batches()
