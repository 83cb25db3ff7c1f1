"""The sink of lake tables: hosts write Parquet files, and one transaction for each checkpoint makes them visible.

No row passes through the process that started the run. That process commits the files of an epoch together with its number. So a commit
that is repeated after a crash changes nothing, and every version of the table is that of a checkpoint.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.errors import MissingPackageError, OutputUnwritableError
from dgs.job.schema_runtime import DeltaSink, IcebergSink
from dgs.model.outputs import OutputBatch
from dgs.workers.sinks.custom_sink import Generation, Sink
from dgs.workers.sinks.files.owned import (
    OccupiedOutputError,
    OthersOutputsError,
    OutputsChangedError,
    OutputsThereError,
    digest_of,
)
from dgs.workers.sinks.formats.identified import identified
from dgs.workers.sinks.lake.contract import DataFile, LakeTable, is_damage
from dgs.workers.sinks.lake.data_files import EpochFiles, cast_file
from dgs.workers.sinks.lake.delta_table import Delta
from dgs.workers.sinks.lake.iceberg_table import Iceberg
from dgs.workers.sinks.lake.lake_columns import (
    PartitionsDifferError,
    check_distinct,
    declared_schema,
    fitted_to,
    merged,
    of_lakes,
    shown,
    with_columns,
)
from dgs.workers.sinks.lake.written_files import changed, last_listed, note_written
from dgs.workers.storage.disk import refusing

LAKES: dict[str, tuple[str, type[DeltaSink]]] = {
    "delta": ("deltalake", DeltaSink),
    "iceberg": ("pyiceberg", IcebergSink),
}
"""The kinds of sinks here, with the package that each needs and its section of the plan file."""

_ODD = re.compile(r"[^A-Za-z0-9_]")
"""Characters that a table's name cannot take from a kind."""

_NAME = re.compile(r"part-(?P<run>.{8})-(?P<epoch>\d+)-\d+\.g\d+-.*\.parquet")


class LakeSink(Sink):
    """Writes outputs to one table, or to one table per kind. `job`: the job that the outputs are of.

    Raises MissingPackageError.
    """

    def __init__(self, kind: str, config: DeltaSink, base_dir: Path, job: Path | None = None) -> None:
        package = LAKES[kind][0]
        if find_spec(package) is None:
            raise MissingPackageError(feature=f"the sink {kind!r}", package=package)
        self._kind, self._config = kind, config
        self._directory = base_dir / config.path
        self._job = None if job is None else os.path.relpath(job.resolve(), self._directory.resolve())
        self._names = config.identity_columns()
        self._name = config.table if isinstance(config, IcebergSink) else ""
        self._catalog = config.catalog if isinstance(config, IcebergSink) else {}
        self._tables: dict[str, LakeTable] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._open: dict[tuple[str, int], EpochFiles] = {}
        self._generation, self._host = Generation("", 0, 0), 0

    # What a new run finds

    def check_free(self) -> None:
        """Check that a new run may write. Raises OccupiedOutputError, OutputsThereError or OthersOutputsError."""
        try:
            self._check_free()
        except OutputUnwritableError as error:
            if not is_damage(error):
                raise
            raise OccupiedOutputError(path=self._directory, names=error.problem) from error

    def _check_free(self) -> None:
        mode = self._config.mode
        only = self._table("")
        if self._config.by is None and mode != "append" and not only.is_there():
            names = sorted(path.name for path in only.data.glob("part-*.parquet"))
            if names:
                raise OccupiedOutputError(path=only.data, names=shown(names[:3]))
        for table in self._existing():
            there, place = table.job(), self._directory.resolve()
            if mode == "error":
                raise OutputsThereError(where=place, names=str(table))
            if mode != "append" and there is None:
                raise OccupiedOutputError(path=place, names=str(table))
            if mode is None and there != self._job:
                whose = os.path.normpath(place / str(there))
                raise OthersOutputsError(where=place, job=whose, names=str(table))
            if mode == "append":
                self._check_partitions(table)

    def check_kept(self, run: str, epoch: int, held: Mapping[str, int] | None = None) -> None:
        """Check that tables have what a run has committed to them up to an epoch. Raises OutputsChangedError.

        `held`: the last epoch of each kind of outputs. Checkpoints of older versions do not record it.
        """
        with self._naming_damage():
            self._check_kept(run, epoch)
            for kind, least in (held or {}).items():
                table = self._table(kind)
                done = table.committed(run) if table.is_there() else None
                if done is None:
                    raise self._unknown(table)
                if done < least:
                    raise OutputsChangedError(where=table.data, problem=older(done, least))

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Raise OutputsChangedError if a table of the run cannot be read because of its content."""
        try:
            yield
        except OutputUnwritableError as error:
            if not is_damage(error):
                raise
            raise OutputsChangedError(where=self._directory, problem=error.problem) from error

    def _check_kept(self, run: str, epoch: int) -> None:
        only = self._table("")
        if self._config.by is None and not (only.is_there() and only.committed(run) is not None):
            raise self._unknown(only)
        for table in self._existing():
            self._check_partitions(table)
            done, least = table.committed(run) or 0, last_listed(table.data, run)
            if not least <= done <= epoch:
                raise OutputsChangedError(
                    where=table.data, problem=older(done, least if done < least else epoch)
                )
            for path, size in table.files():
                if path.is_relative_to(table.data) and not _has_size(path, size):
                    raise OutputsChangedError(where=table.data, problem=f"{path.name} is gone or damaged")
            if (damage := changed(table.data, run)) is not None:
                raise OutputsChangedError(where=table.data, problem=damage)

    def _unknown(self, table: LakeTable) -> OutputsChangedError:
        return OutputsChangedError(where=self._directory, problem=f"{table} knows nothing of the run")

    def _check_partitions(self, table: LakeTable) -> None:
        there, wanted = table.partitions(), self._config.partition_by
        if there != wanted:
            raise PartitionsDifferError(table=str(table), there=shown(there), wanted=shown(wanted))

    def last_epoch(self, run: str) -> int:
        """Return the last epoch that a run has committed to a table, 0 before the first."""
        return max((table.committed(run) or 0 for table in self._existing()), default=0)

    # What the runtime calls: see `Sink`

    def place(self) -> str:
        """Return the directory of the tables."""
        return f"{self._kind} {self._directory.resolve()} {self._name}".rstrip()

    def begin(self, generation: Generation) -> None:
        """Begin a run in the table, or remove the files that no checkpoint has."""
        self._generation = generation
        if generation.epoch == 0:
            for table in self._existing() if self._config.by else [self._table("")]:
                self._begin(table, generation.run)
        for table in self._existing():
            _remove_uncommitted(table, generation)

    def _begin(self, table: LakeTable, run: str) -> None:
        if table.is_there() and (self._config.mode == "append" or table.committed(run) is not None):
            if table.committed(run) is None:
                table.begin(run)
            return
        schema = table.schema() if table.is_there() else self._declared
        table.create(schema, run, self._job, self._config.partition_by)

    def open(self, generation: Generation, host: int) -> None:
        """Open the sink in a host."""
        self._generation, self._host = generation, host

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Write outputs to a file of their epoch. Raises ColumnClashError, ColumnTypeError."""
        for kind, part in self._parts(batch):
            files = self._open.get((kind, epoch)) or self._begin_files(kind, epoch)
            files.write(identified(part, epoch, self._names).values)

    def stage(self, epoch: int) -> Any:
        """Make the files of an epoch durable."""
        kinds = sorted(kind for kind, of in self._open if of == epoch)
        found = [(kind, self._open[kind, epoch].finish()) for kind in kinds]
        for kind in kinds:
            del self._open[kind, epoch]
        run = self._generation.run
        return [(run, kind, max(epoch, 1), [tuple(file) for file in files]) for kind, files in found] or None

    def publish(self, staged: Sequence[Any]) -> None:
        """Add the files of each epoch to the tables, in one transaction each."""
        found: dict[tuple[str, int, str], list[DataFile]] = defaultdict(list)
        for run, kind, epoch, files in (part for parts in staged for part in parts):
            found[run, epoch, kind] += [DataFile(*file) for file in files]
        for (run, epoch, kind), files in sorted(found.items()):
            with self._naming_damage():
                self._add(self._table(kind), files, run, epoch)

    def close(self) -> None:
        """Do nothing: `stage` has closed all files."""
        return

    def abort(self) -> None:
        """Close open files."""
        for files in self._open.values():
            files.abort()

    # Tables

    def _add(self, table: LakeTable, files: Sequence[DataFile], run: str, epoch: int) -> None:
        done = table.committed(run) if table.is_there() else None
        if done is not None and done >= epoch:
            return
        if done is None and (self._config.by is None or last_listed(table.data, run)):
            raise self._unknown(table)  # made when the run began, or already has rows of the run
        is_new = not table.is_there() or (done == 0 and self._config.mode != "append")
        schema = self._declared if is_new else table.schema()
        for file in files:
            path = table.data / file.name
            with refusing(path):
                if not _has_size(path, file.size) or file.digest not in ("", digest_of(path)):
                    raise OutputsChangedError(where=table.data, problem=f"{file.name} is gone or damaged")
                schema = merged(schema, pq.read_schema(path), is_new=is_new)
        cast = [cast_file(table.data, file, schema, table=str(table)) for file in files]
        if is_new:
            table.create(schema, run, self._job, self._config.partition_by)
        else:
            table.widen(schema)
        note_written(table.data, {table.data / file.name: file.digest for file in cast}, run=run, epoch=epoch)
        table.append(cast, run, epoch)
        note_written(table.data, dict.fromkeys(table.newest_log(), ""), run=run, epoch=epoch)

    @property
    def _declared(self) -> pa.Schema:
        return declared_schema(self._names.items(), self._config.columns)

    def _table(self, kind: str) -> LakeTable:
        """Return the table of a kind; the only one if all kinds share it."""
        suffix = _ODD.sub(lambda found: f"_{ord(found[0]):x}_", kind)
        if suffix not in self._tables:
            is_delta = self._kind == "delta"
            self._tables[suffix] = Delta(self._directory / suffix) if is_delta else self._iceberg(suffix)
        return self._tables[suffix]

    def _iceberg(self, suffix: str) -> Iceberg:
        name = f"{self._name}_{suffix}" if suffix else self._name
        return Iceberg(self._directory, name, self._catalog)

    def _existing(self) -> Iterator[LakeTable]:
        if self._config.by is None:
            found = [self._table("")]
        elif self._kind == "delta":
            folders = sorted(self._directory.iterdir()) if self._directory.is_dir() else []
            found = [self._table(folder.name) for folder in folders if folder.is_dir()]
        else:
            found = [self._table(suffix) for suffix in self._iceberg("").suffixes()]
        yield from (table for table in found if table.is_there())

    # Files of this host

    def _parts(self, batch: OutputBatch) -> Iterator[tuple[str, OutputBatch]]:
        kinds = [tag.kind for tag in batch.tags]
        if self._config.by is None or len(set(kinds)) == 1 or batch.codes is None:
            yield "" if self._config.by is None else kinds[0], batch
            return
        for kind in dict.fromkeys(kinds):
            chosen = pa.array([name == kind for name in kinds]).take(pa.array(batch.codes))
            part = batch.take(chosen.to_numpy(zero_copy_only=False).nonzero()[0])
            if len(part):
                yield kind, part

    def _begin_files(self, kind: str, epoch: int) -> EpochFiles:
        table, run = self._table(kind), self._generation.run
        if kind not in self._schemas:
            goes_on = table.is_there() and (self._config.mode == "append" or bool(table.committed(run)))
            self._schemas[kind] = table.schema() if goes_on else self._declared
        name = f"part-{run[:8]}-{epoch:06d}-{self._host}.g{self._generation.number}"
        files = EpochFiles(table.data, name, self._shape(kind, str(table)), self._config.partition_by)
        self._open[kind, epoch] = files
        return files

    def _shape(self, kind: str, name: str) -> Callable[[pa.Table], pa.Table]:
        def shaped(table: pa.Table) -> pa.Table:
            made = fitted_to(of_lakes(table), self._schemas[kind], name=name)
            self._schemas[kind] = merged(self._schemas[kind], made.schema, is_new=False)
            check_distinct(self._schemas[kind], table=name)
            return with_columns(made, self._schemas[kind], self._config.partition_by)

        return shaped


def older(done: int, committed: int) -> str:
    """Return the problem of a table that is not at the epoch that is committed."""
    return f"it is at epoch {done} of the run, which has committed epoch {committed}"


def _has_size(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


def kinds_in(staged: Any) -> list[str]:
    """Return the kinds of outputs in what a lake has staged."""
    return [kind for _, kind, _, _ in staged]


def lake_sink(kind: str, args: Mapping[str, Any], base_dir: Path, job: Path | None = None) -> LakeSink:
    """Return the sink of a section `delta` or `iceberg`."""
    return LakeSink(kind, LAKES[kind][1].model_validate(dict(args)), base_dir, job)


def _remove_uncommitted(table: LakeTable, generation: Generation) -> None:
    """Remove the files that hosts of lost generations have written for epochs that were not committed."""
    with refusing(table.data):
        for path in table.data.glob(f"part-{generation.run[:8]}-*.parquet"):
            found = _NAME.fullmatch(path.name)
            if found is not None and int(found["epoch"]) > max(generation.epoch, 0):
                path.unlink(missing_ok=True)
