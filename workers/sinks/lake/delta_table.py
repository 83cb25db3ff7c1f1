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

from dgs.workers.sinks.lake.contract import BEGUN, EPOCH, JOB, RUN, DataFile, LakeTable, lake_errors

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


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

    def create(self, schema: pa.Schema, run: str, job: str | None) -> None:
        """Make the table, or a new version of it without rows."""
        from deltalake import DeltaTable, Schema

        with lake_errors(self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            self._newest = DeltaTable.create(
                str(self._path),
                Schema.from_arrow(schema),
                mode="overwrite",
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

        def added(file: DataFile) -> AddAction:
            written = int((self._path / file.name).stat().st_mtime * 1000)
            return AddAction(file.name, file.size, {}, written, True, json.dumps({"numRecords": file.rows}))

        with lake_errors(self._path):
            self._write([added(file) for file in files], run, epoch)

    def _write(self, actions: list[Any], run: str, epoch: int) -> None:
        with lake_errors(self._path):
            table = self._table()
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=_properties(run, epoch)
            )

    def _table(self) -> DeltaTable:
        """Return the table as it is now. Of its log only what is new is read."""
        from deltalake import DeltaTable

        if self._newest is None:
            self._newest = DeltaTable(str(self._path))
        else:
            self._newest.update_incremental()
        return self._newest


def _application(run: str) -> str:
    return f"dgs:{run}"


def _properties(run: str, epoch: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    about = {RUN: run, EPOCH: str(epoch)}
    return CommitProperties(custom_metadata=about, app_transactions=[Transaction(_application(run), epoch)])
