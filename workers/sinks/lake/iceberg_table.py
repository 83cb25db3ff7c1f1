"""Tables of Iceberg, through the package `pyiceberg`: no Java.

The epoch of a run is a property of the table, which changes in the same transaction that adds the files. The summary of each
snapshot says run and epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dgs.workers.sinks.files.owned import OutputsChangedError
from dgs.workers.sinks.lake.contract import BEGUN, EPOCH, JOB, RUN, DataFile, LakeTable, lake_errors

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

CATALOG = "catalog.db"
"""The SQLite database of the default catalog, in the directory of the lake."""


class Iceberg(LakeTable):
    """An Iceberg table whose files lie in `directory/NAMESPACE/TABLE`. `catalog`: properties; by default a SQLite catalog there."""

    def __init__(self, directory: Path, name: str, catalog: Mapping[str, str]) -> None:
        self._directory = directory.absolute()
        namespace, _, table = name.rpartition(".")
        self._namespace, self._name = namespace or "default", table
        self._properties = dict(catalog)

    def __str__(self) -> str:
        return f"{self._namespace}.{self._name} in {self._directory}"

    @property
    def data(self) -> Path:
        """The directory `data` of the table."""
        return self._place / "data"

    def is_there(self) -> bool:
        """Return whether the catalog has the table."""
        if not self._properties and not (self._directory / CATALOG).exists():
            return False
        with lake_errors(self._directory), self._in_place():
            return self._catalog.table_exists(self._identifier)

    def job(self) -> str | None:
        """Return the job in the properties of the table."""
        with lake_errors(self._directory):
            return self._table().properties.get(JOB)

    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        with lake_errors(self._directory):
            found = schema_to_pyarrow(self._table().schema(), include_field_ids=False)
            return pa.schema([(field.name, _plain(field.type)) for field in found])

    def partitions(self) -> list[str]:
        """Return the columns of the partition spec; a field with a transform other than identity has a name of its own."""
        with lake_errors(self._directory):
            table = self._table()
            fields, columns = table.spec().fields, table.schema()
            return [
                columns.find_column_name(field.source_id) or field.name
                if str(field.transform) == "identity"
                else field.name
                for field in fields
            ]

    def committed(self, run: str) -> int | None:
        """Return the epoch in the properties of the table."""
        with lake_errors(self._directory):
            found = self._table().properties.get(_key(run))
            return None if found is None else int(found)

    def files(self) -> list[tuple[Path, int]]:
        """Return the files of the current snapshot."""
        with lake_errors(self._directory):
            tasks = self._table().scan().plan_files()
            return [
                (Path(task.file.file_path.removeprefix("file://")), task.file.file_size_in_bytes)
                for task in tasks
            ]

    def create(self, schema: pa.Schema, run: str, job: str | None, partition_by: Sequence[str]) -> None:
        """Make the table, or remove its rows and the columns that are not those of `schema`."""
        about = {_key(run): str(BEGUN), **({} if job is None else {JOB: job})}
        with lake_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            catalog = self._catalog
            if not catalog.table_exists(self._identifier):
                catalog.create_namespace_if_not_exists(self._namespace)
                place = f"file://{self._place}"
                with catalog.create_table_transaction(
                    self._identifier, schema=schema, location=place, properties=about
                ) as changes:
                    _partition(changes, partition_by)
                return
            table = self._table()
            with table.transaction() as changes:
                newest = table.current_snapshot()
                if newest is not None and newest.summary and newest.summary["total-records"] != "0":
                    changes.delete("True", snapshot_properties={RUN: run, EPOCH: str(BEGUN)})
                with changes.update_spec() as partitions:
                    for part in table.spec().fields:
                        partitions.remove_field(part.name)
                stay = {field.name for field in self.schema() if field in schema}
                with changes.update_schema(allow_incompatible_changes=True) as columns:
                    for field in table.schema().fields:
                        if field.name not in stay:
                            columns.delete_column(field.name)
                with changes.update_schema(allow_incompatible_changes=True) as columns:
                    columns.union_by_name(schema)
                _partition(changes, partition_by)
                changes.set_properties(about)

    def begin(self, run: str) -> None:
        """Set the property of the run."""
        with lake_errors(self._directory), self._table().transaction() as changes:
            changes.set_properties({_key(run): str(BEGUN)})

    def widen(self, schema: pa.Schema) -> None:
        """Add columns."""
        with lake_errors(self._directory):
            table = self._table()
            if set(schema.names) - {field.name for field in table.schema().fields}:
                with table.update_schema() as columns:
                    columns.union_by_name(schema)

    def append(self, files: Sequence[DataFile], run: str, epoch: int) -> None:
        """Add files in one transaction."""
        with lake_errors(self._directory), self._table().transaction() as changes:
            changes.add_files(
                [f"file://{self.data / file.name}" for file in files],
                snapshot_properties={RUN: run, EPOCH: str(epoch)},
                check_duplicate_files=False,
            )
            changes.set_properties({_key(run): str(epoch)})

    def newest_log(self) -> list[Path]:
        """Return the metadata, the list of manifests, and the manifests that the newest snapshot has added."""
        with lake_errors(self._directory):
            table = self._table()
            newest = table.current_snapshot()
            found = [table.metadata_location]
            if newest is not None:
                added = (
                    part.manifest_path
                    for part in newest.manifests(table.io)
                    if part.added_snapshot_id == newest.snapshot_id
                )
                found += [newest.manifest_list, *added]
            paths = [Path(name.removeprefix("file://")) for name in found]
            return [path for path in paths if path.is_file()]

    def suffixes(self) -> list[str]:
        """Return the rest of the table names in this namespace that begin with `NAME_`."""
        if not self._properties and not (self._directory / CATALOG).exists():
            return []
        with lake_errors(self._directory):
            catalog = self._catalog
            if not catalog.namespace_exists(self._namespace):
                return []
            names = [name[-1] for name in catalog.list_tables(self._namespace)]
            return [
                name.removeprefix(f"{self._name}_") for name in names if name.startswith(f"{self._name}_")
            ]

    @property
    def _place(self) -> Path:
        return self._directory / self._namespace / self._name

    @property
    def _identifier(self) -> tuple[str, str]:
        return self._namespace, self._name

    def _table(self) -> Table:
        with self._in_place():
            table = self._catalog.load_table(self._identifier)
        place = Path(table.location().removeprefix("file://"))
        if not self._properties and place.resolve() != self._place.resolve():
            raise self._is_elsewhere(f"its files are in {place}")
        return table

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._is_elsewhere(f"a file that it names is gone ({error})") from None

    def _is_elsewhere(self, problem: str) -> OutputsChangedError:
        reason = "the files of an Iceberg table name their places, so it cannot be moved or copied"
        return OutputsChangedError(where=self._place, problem=f"{problem}; {reason}")

    @cached_property
    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        own = {
            "type": "sql",
            "uri": f"sqlite:///{self._directory / CATALOG}",
            "warehouse": f"file://{self._directory}",
        }
        return load_catalog("dgs", **(self._properties or own))


def _partition(changes: Transaction, columns: Sequence[str]) -> None:
    """Divide the files of a table by the values of columns."""
    if columns:
        with changes.update_spec() as partitions:
            for name in columns:
                partitions.add_identity(name)


def _key(run: str) -> str:
    return f"dgs_run_{run}"


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow makes by default: Iceberg's texts and lists have the large types."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind
