"""Readers of runs as data frames: the batch and the stream reader of the data source `dgs`.

`spark.read.format("dgs").option("run", directory)` gives the committed outputs of a run, `.option("what", "checkpoints")` the
checkpoints that are kept. As a stream, the offset is the epoch: a micro-batch holds whole epochs, all committed since the one
before. Rows are Arrow from the file to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dgs.errors import CorruptFileError, UsageError
from dgs.job.units import local_path
from dgs.spark_bridge.data_source.checkpoint_rows import SCHEMA, row_of_saved, table_of_rows
from dgs.spark_bridge.data_source.run_files import (
    OutputFile,
    committed,
    last_epoch,
    output_files,
    schema_of,
    tables,
)
from dgs.workers.checkpoints.directory import CheckpointDirectory

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OUTPUTS, CHECKPOINTS = "outputs", "checkpoints"
EPOCH = "epoch"
KNOWN = frozenset(("run", "what", "path", "checkpointlocation"))
"""Options from users and from Spark; the path is that of `load(PATH)`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The data to read: `outputs` or `checkpoints` (`what`) of a run."""

    run: str
    what: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Wanted:
        """Return the data that the options of a reader ask for. Raises UsageError."""
        unknown = sorted(name for name in options if name.lower() not in KNOWN)
        if unknown:
            message = (
                f"the data source `dgs` has no option {unknown[0]!r} for reading; there are `run` and `what`"
            )
            raise UsageError(message=message)
        run, what = options.get("run", options.get("path")), options.get("what", OUTPUTS)
        if run is None:
            raise UsageError(message='the data source `dgs` reads runs: give `.option("run", DIRECTORY)`')
        if what not in (OUTPUTS, CHECKPOINTS):
            message = f"the data source `dgs` reads `{OUTPUTS}` or `{CHECKPOINTS}` of a run, not {what!r}"
            raise UsageError(message=message)
        try:
            return cls(str(Path(local_path(run)).absolute()), what)
        except ValueError as error:
            raise UsageError(message=f"option `run` of the data source `dgs`: {error}") from None

    @property
    def path(self) -> Path:
        """The directory of the run."""
        return Path(self.run)


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """One file of outputs."""

    file: OutputFile


@dataclass(frozen=True)
class EpochPartition(InputPartition):
    """The checkpoint of one epoch."""

    epoch: int


def schema(options: Mapping[str, str]) -> StructType:
    """Return the schema of the data that the options ask for. Raises UsageError, also if a run has no outputs yet to show it."""
    wanted = Wanted.of(options)
    if wanted.what == CHECKPOINTS:
        return from_arrow_schema(SCHEMA)
    found = schema_of(output_files(wanted.path))
    if not len(found):
        message = f"run {wanted.run} has no committed outputs yet: wait for some, or give a schema"
        raise UsageError(message=message)
    return from_arrow_schema(found)


def reader(options: Mapping[str, str], schema: StructType) -> RunReader:
    """Return a reader of the data committed so far. Raises UsageError."""
    return RunReader(options, schema)


def stream_reader(options: Mapping[str, str], schema: StructType) -> RunStreamReader:
    """Return a reader of the data committed so far and later. Raises UsageError."""
    return RunStreamReader(options, schema)


class _Reading:
    """The common part of both readers. `schema`: of the data frame."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._wanted = Wanted.of(options)
        self._schema = schema
        absent = sorted(set(schema.names) - set(SCHEMA.names))
        if self._wanted.what == CHECKPOINTS and absent:
            message = f"checkpoints have no column {absent[0]!r}; their columns are {', '.join(SCHEMA.names)}"
            raise UsageError(message=message)

    def _parts(self, after: int, last: int) -> list[InputPartition]:
        """Return the parts of the epochs above `after` up to `last`; an empty list without any."""
        if self._wanted.what == OUTPUTS:
            files = output_files(self._wanted.path)
            return [FilePartition(file) for file in files if after < file.epoch <= last]
        record = committed(self._wanted.path)
        states = sorted({} if record is None else record.states)
        return [EpochPartition(epoch) for epoch in states if after < epoch <= last]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        if isinstance(partition, FilePartition):
            yield from tables(partition.file, schema)
        elif isinstance(partition, EpochPartition):
            yield from _checkpoint(self._wanted.path, partition.epoch, schema)


class RunReader(_Reading, DataSourceReader):
    """Reads the data that is committed when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return a part per file, or per checkpoint."""
        return self._parts(0, last_epoch(self._wanted.path)) or [InputPartition(None)]


class RunStreamReader(_Reading, DataSourceStreamReader):
    """Reads epoch after epoch as it is committed."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset before the first epoch."""
        return {EPOCH: 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        """Return the last committed epoch."""
        last = last_epoch(self._wanted.path)
        return {EPOCH: last if start is None else max(last, start[EPOCH])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the parts of the epochs above `start` up to `end`."""
        return self._parts(start[EPOCH], end[EPOCH]) or [InputPartition(None)]


def _checkpoint(run: Path, epoch: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from dgs.job.run_directory import RunDirectory

    place = RunDirectory(run).checkpoints
    try:
        saved = CheckpointDirectory(place).load(epoch)
    except CorruptFileError:
        if (record := committed(run)) is None or epoch in record.states:
            raise
        return  # the run has deleted it since the query was planned
    row = row_of_saved(saved, saved.manifest.run)
    table = table_of_rows([row])
    yield from pa.table({field.name: table[field.name].cast(field.type) for field in schema}).to_batches()
