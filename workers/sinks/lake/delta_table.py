"""Tables of Delta Lake, through the package `deltalake`: no Java.

The epoch of a run is the version of a transaction of the application `dgs:RUN`, so Delta itself refuses it a second time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.workers.sinks.lake.contract import BEGUN, EPOCH, JOB, RUN, DataFile, LakeTable, lake_errors

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


BOUNDED = frozenset([pa.int64(), pa.string()])
"""Types of columns whose bounds go into the Delta log; other types have several forms there."""


class Delta(LakeTable):
    """A Delta table in a directory of this machine, which also has its data files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._newest: DeltaTable | None = None

    def __str__(self) -> str:
        return str(self._path)

    @property
    def data(self) -> Path:
        """The directory of the table."""
        return self._path

    def is_there(self) -> bool:
        """Return whether the directory has a Delta log."""
        from deltalake import DeltaTable

        with lake_errors(self._path):
            return self._path.is_dir() and DeltaTable.is_deltatable(str(self._path))

    def job(self) -> str | None:
        """Return the job in the properties of the table."""
        with lake_errors(self._path):
            return self._table().metadata().configuration.get(JOB)

    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        with lake_errors(self._path):
            return pa.schema(self._table().schema().to_arrow())

    def partitions(self) -> list[str]:
        """Return the partition columns in the metadata."""
        with lake_errors(self._path):
            return list(self._table().metadata().partition_columns)

    def committed(self, run: str) -> int | None:
        """Return the version of the run's last transaction."""
        with lake_errors(self._path):
            return self._table().transaction_version(_application(run))

    def files(self) -> list[tuple[Path, int]]:
        """Return the files of the newest version."""
        with lake_errors(self._path):
            found = pa.table(self._table().get_add_actions())
            names = map(unquote, found.column("path").to_pylist())
            sizes = found.column("size_bytes").to_pylist()
            return [(self._path / name, size) for name, size in zip(names, sizes, strict=True)]

    def create(self, schema: pa.Schema, run: str, job: str | None, partition_by: Sequence[str]) -> None:
        """Make the table, or a new version of it without rows."""
        from deltalake import DeltaTable, Schema

        with lake_errors(self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            self._newest = DeltaTable.create(
                str(self._path),
                Schema.from_arrow(schema),
                mode="overwrite",
                partition_by=list(partition_by),
                configuration={} if job is None else {JOB: job},
                commit_properties=_properties(run, BEGUN),
                raise_if_key_not_exists=False,
            )

    def begin(self, run: str) -> None:
        """Commit a transaction without rows."""
        self._write([], run, BEGUN)

    def widen(self, schema: pa.Schema) -> None:
        """Add columns."""
        from deltalake import Schema

        with lake_errors(self._path):
            table = self._table()
            known = {field.name for field in table.schema().fields}
            new = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
            if new:
                table.alter.add_columns(new)

    def append(self, files: Sequence[DataFile], run: str, epoch: int) -> None:
        """Commit files."""
        from deltalake.transaction import AddAction

        partitions = self.partitions()

        def added(file: DataFile) -> AddAction:
            path = self._path / file.name
            written = int(path.stat().st_mtime * 1000)
            values = dict(zip(partitions, file.partition, strict=True))
            return AddAction(file.name, file.size, values, written, True, json.dumps(statistics_of(path)))

        with lake_errors(self._path):
            self._write([added(file) for file in files], run, epoch)

    def newest_log(self) -> list[Path]:
        """Return the entry of the newest version."""
        with lake_errors(self._path):
            return [self._path / "_delta_log" / f"{self._table().version():020}.json"]

    def _write(self, actions: list[Any], run: str, epoch: int) -> None:
        with lake_errors(self._path):
            table = self._table()
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=_properties(run, epoch),
            )

    def _table(self) -> DeltaTable:
        """Return the table as it is now. Only new entries of its log are read."""
        from deltalake import DeltaTable

        if self._newest is None:
            self._newest = DeltaTable(str(self._path))
        else:
            self._newest.update_incremental()
        return self._newest


def statistics_of(path: Path) -> dict[str, Any]:
    """Return a file's statistics for the Delta log, by which readers skip files: the rows, and the bounds of its plain columns.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.parquet"
    >>> pq.write_table(pa.table({"ts": [3, 1], "key": ["x", None], "list": [[1], [2]]}), path)
    >>> statistics_of(path)["minValues"], statistics_of(path)["maxValues"], statistics_of(path)["nullCount"]
    ({'ts': 1, 'key': 'x'}, {'ts': 3, 'key': 'x'}, {'ts': 0, 'key': 1})
    """
    footer = pq.read_metadata(path)
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    types = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    for i in range(footer.num_columns):
        column = footer.schema.column(i)
        is_plain = column.max_definition_level <= 1 and column.max_repetition_level == 0
        if not is_plain or types.get(column.path) not in BOUNDED:
            continue
        chunks = [footer.row_group(group).column(i) for group in range(footer.num_row_groups)]
        parts = [chunk.statistics for chunk in chunks]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[column.path] = sum(part.null_count for part in parts)
        if all(
            part.has_min_max or part.null_count == chunk.num_values
            for part, chunk in zip(parts, chunks, strict=True)
        ):
            bounds = [(part.min, part.max) for part in parts if part.has_min_max]
            if bounds:
                low[column.path], high[column.path] = (
                    min(least for least, _ in bounds),
                    max(most for _, most in bounds),
                )
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _application(run: str) -> str:
    return f"dgs:{run}"


def _properties(run: str, epoch: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    about = {RUN: run, EPOCH: str(epoch)}
    return CommitProperties(custom_metadata=about, app_transactions=[Transaction(_application(run), epoch)])
