"""The committed outputs of a run, as files by epoch and as tables of one schema. Needs no Spark.

A file is committed if its sink has published it, or if the record of the run names it, even before it gets its final name. Files
of a run without checkpoints count as epoch 1.

>>> epoch_of(Path("part-000007-3.parquet")), epoch_of(Path("part-3-1.parquet"))
(7, 1)
>>> common_schema([pa.schema([("a", pa.int64())]), pa.schema([("a", pa.float64()), ("b", pa.bool_())])])
a: double
b: bool
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.errors import CorruptFileError, NoSuchRunError, UsageError
from dgs.job import private_files
from dgs.job.document import read
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import FileSink, SinkConfig
from dgs.spark_bridge.data_source.pushdown import Condition, matching, row_groups
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.saved import Committed, located
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.files.places import FILE_KINDS, Place, sink_place
from dgs.workers.sinks.formats.arrow_tables import table_of, text_of
from dgs.workers.sinks.formats.spark_columns import readable

ROWS = 65_536
"""Rows read at a time."""

NO_COLUMNS: Mapping[str, int] = MappingProxyType({})

PREFERRED = ("spark", "parquet", "jsonl", "csv")
"""Kinds of sinks, in the order of preference: the first ones record types best."""

_ALONE = arrow_csv.ReadOptions(use_threads=False)
"""One thread finds the types of columns: with several, Arrow failed once to read a right file."""

_LINES = arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
"""An empty line is a null in the only column."""

_VALUES = arrow_csv.ConvertOptions(
    null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
)
"""The sink writes nulls as nothing and quotes text; `nan` is a number."""

_NAME = re.compile(r"part-(?:(\d{6,})-)?\d+(?:-\d+)?\.\w+")


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A committed file. `staged`: its name until it is published. Absolute paths."""

    epoch: int
    final: str
    staged: str | None = None

    @property
    def path(self) -> Path:
        """The file's current path."""
        final = Path(self.final)
        return final if self.staged is None or final.exists() else Path(self.staged)

    @property
    def is_numbered(self) -> bool:
        """Whether the name says the epoch: files of a run without checkpoints do not."""
        found = _NAME.fullmatch(Path(self.final).name)
        return found is not None and found[1] is not None


def epoch_of(path: Path) -> int:
    """Return the epoch of a file of outputs, from its name."""
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found is not None and found[1] is not None else 1


def committed(run: Path) -> Committed | None:
    """Return the record of a run's commits, None if it keeps none. Raises NoSuchRunError."""
    return CheckpointDirectory(_directory(run).checkpoints).committed()


def last_epoch(run: Path) -> int:
    """Return the last committed epoch of a run, 0 before the first."""
    record = committed(run)
    if record is not None and record.checkpoint.epoch:
        return record.checkpoint.epoch
    return max((file.epoch for file in output_files(run)), default=0)


def output_files(run: Path) -> list[OutputFile]:
    """Return the committed files of a run, sorted by epoch and name. Raises NoSuchRunError, UsageError if it has no file sink."""
    place, record = output_place(run), committed(run)
    there = {str(path): OutputFile(epoch_of(path), str(path)) for path in place.finals()}
    named = () if record is None else record.checkpoint.files
    for file in located(named, _directory(run).base_dir):
        if not isinstance(file, StagedFile):
            continue
        final = Path(file.final)
        if final.parent == place.directory and final.match(f"{place.stem}-*.{place.suffix}"):
            there.setdefault(file.final, OutputFile(epoch_of(final), file.final, file.path))
    return sorted(there.values(), key=lambda file: (file.epoch, file.final))


def epoch_column(run: Path) -> str | None:
    """Return the name of the column with the epoch of each output, None if outputs have none. Raises as `output_place`."""
    found: str | None = _output_sink(run).details.identity_columns().get("epoch")
    return found


def output_place(run: Path) -> Place:
    """Return the place where a run publishes its outputs. Raises NoSuchRunError, UsageError if it has no file sink."""
    directory, sink = _directory(run), _output_sink(run)
    base = directory.path
    # unlike a path, its place does not change when a run directory is moved
    if sink.kind == "spark" and sink.details.table is not None:
        base = directory.base_dir
    found = sink_place(sink, output_dir=directory.path, base_dir=base)
    return Place(found.directory.resolve(), found.suffix, mark=found.mark)


def _output_sink(run: Path) -> SinkConfig:
    directory = _directory(run)
    written = read(directory.plan_file).data.get("sinks") or []
    sinks = [SinkConfig.model_validate(sink) for sink in written]
    if not sinks:
        sinks = [SinkConfig(jsonl=FileSink(path=str(directory.outputs)))]
    files = sorted(
        (sink for sink in sinks if sink.kind in FILE_KINDS), key=lambda sink: PREFERRED.index(sink.kind)
    )
    if not files:
        raise UsageError(message=f"the outputs of run {run} are not in files: it has no file sink")
    return files[0]


def schema_of(files: Iterable[OutputFile]) -> pa.Schema:
    """Return a common schema of all files. Parquet files have one; text files are read to find it."""
    return common_schema(_schema(file.path) for file in files)


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return all columns of the schemas: numbers of two types get the wider type, other differing types become text."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            types[field.name] = _common(types.get(field.name, field.type), field.type)
    return pa.schema(list(types.items()))


def tables(
    file: OutputFile,
    schema: pa.Schema,
    conditions: Sequence[Condition] = (),
    *,
    constants: Mapping[str, int] = NO_COLUMNS,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that meet all conditions, in the given schema: absent columns are null; values in a text column are JSON.

    `constants`: columns that have one value in the whole file.
    """
    for table in _tables(file.path, schema, conditions):
        columns = [
            pa.array([constants[field.name]] * len(table), field.type)
            if field.name in constants
            else _fitted(table, field)
            for field in schema
        ]
        found = matching(pa.table(columns, schema=schema), conditions)
        yield from (batch for batch in found.to_batches(max_chunksize=ROWS) if len(batch))


def _directory(run: Path) -> RunDirectory:
    directory = RunDirectory(run)
    is_of_plan = (run / ".dgs").is_dir() and not directory.about()
    if is_of_plan or not directory.plan_file.is_file():
        problem = f"{run} is no run directory" if run.exists() else f"there is no {run}"
        raise NoSuchRunError(problem=problem, advice="Name the directory of a run: `.dgs/runs/ID`")
    return directory


def _schema(path: Path) -> pa.Schema:
    if ".parquet" in path.name:
        with _whole(path):
            return readable(pq.read_schema(path).empty_table()).schema
    return common_schema(table.schema for table in _tables(path))


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Raise CorruptFileError with the path if a file cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:  # includes errors of Arrow and JSON
        raise CorruptFileError(path=path, problem=str(error)) from error


def _tables(
    path: Path, schema: pa.Schema | None = None, conditions: Sequence[Condition] = ()
) -> Iterator[pa.Table]:
    """Yield the rows of a file; of Parquet only columns of `schema`, and no row groups in which no row meets the conditions."""
    with _whole(path):
        if ".parquet" in path.name:
            yield from _of_parquet(path, schema, conditions)
        elif ".csv" in path.name:
            yield readable(arrow_csv.read_csv(path, _ALONE, _LINES, _VALUES))
        else:
            yield from map(readable, _of_lines(path))


def _of_parquet(path: Path, schema: pa.Schema | None, conditions: Sequence[Condition]) -> Iterator[pa.Table]:
    private_files.check_file(path)
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        wanted = names if schema is None else [name for name in names if name in schema.names] or names[:1]
        groups = row_groups(file, conditions, schema) if schema is not None else None
        for batch in file.iter_batches(batch_size=ROWS, row_groups=groups, columns=wanted):
            yield readable(pa.Table.from_batches([batch]))


def _of_lines(path: Path) -> Iterator[pa.Table]:
    with open(path, encoding="utf-8", opener=private_files.opener) as file:
        values: list[Any] = []
        for line in file:
            values.append(json.loads(line))
            if len(values) == ROWS:
                yield table_of(values)
                values = []
        if values:
            yield table_of(values)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(common_schema([pa.schema(list(one)), pa.schema(list(other))]))
    numbers = (pa.types.is_integer, pa.types.is_floating)
    if all(any(is_number(kind) for is_number in numbers) for kind in (one, other)):
        return pa.float64() if pa.types.is_floating(one) or pa.types.is_floating(other) else pa.int64()
    return pa.string()


def _fitted(table: pa.Table, field: pa.Field) -> Any:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    column = table.column(field.name)
    if column.type == field.type:
        return column
    if pa.types.is_string(field.type):
        values = column.to_pylist()
        return pa.array([None if value is None else text_of(value) for value in values], pa.string())
    if pa.types.is_struct(field.type):
        return pa.array(column.to_pylist(), field.type)
    return column.cast(field.type)
