"""Outputs under a name of Spark's catalog: `sinks: [{spark: {table: NAME}}]`, where the catalog outlives the session.

The hosts write and publish the files, whatever the catalog knows; here the name is given to them. Before anything is computed, a
name that belongs to something else is refused. As soon as there are outputs, and so columns, the table is created; at the end it is
told of columns that came later. What fails after the beginning is said, and does not fail the run: its outputs are committed.

>>> outlives_session(SparkConfig()), outlives_session(SparkConfig(conf={"spark.sql.catalogImplementation": "hive"}))
(False, True)
>>> sinks = [SinkConfig(spark={"table": "clicks"}), SinkConfig(spark={"path": "out"})]
>>> [(table.name, str(table.place.directory)) for table in tables_of(sinks, Path("/data"))]
[('clicks', '/data/spark-warehouse/clicks')]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dgs.errors import DgsError, PlanFileError, SparkUnavailableError
from dgs.job.schema import SinkConfig, SparkConfig
from dgs.spark_bridge.ingest.queries import escaped
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.session import activate, is_given, is_hive, session
from dgs.spark_bridge.tables.epoch_table import create_table, described, quoted, same_place
from dgs.workers.runtime.job import Job
from dgs.workers.sinks.files.places import Place, sink_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKS_EVERY = 1.0
"""Seconds between two looks whether there are outputs yet."""

FORMATS = ("parquet", "hive", None)
"""Of tables that read the files: Spark's own, those of Hive over Parquet, and where the catalog does not say."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OutputTable:
    """A name in the catalog, and where the files of its outputs are."""

    name: str
    place: Place

    @property
    def location(self) -> str:
        """The directory of the files."""
        return str(self.place.directory)

    def check(self, spark: SparkSession) -> None:
        """Raise PlanFileError if the name is not free for these files, or in no schema that there is."""
        schema, _, _ = self.name.rpartition(".")
        if schema and not spark.catalog.databaseExists(schema):
            self._refuse(
                f"there is no schema {schema!r} in Spark's catalog: `CREATE SCHEMA {quoted(schema)}` makes it"
            )
        known = described(spark, self.name)
        if known is None:
            return
        if known.location is None:
            self._refuse(f"{self.name!r} is in Spark's catalog already, as a view: choose another name")
        if not same_place(known.location, self.location):
            self._refuse(
                f"table {self.name!r} is in Spark's catalog already, with files at {known.location}, and the outputs go to "
                f"{self.location}: choose another name, or `DROP TABLE {quoted(self.name)}`"
            )
        if known.format not in FORMATS:
            self._refuse(
                f"table {self.name!r} is one of {known.format} in Spark's catalog, and the outputs are Parquet: choose another name, "
                "or a catalog that has tables of Parquet"
            )

    def register(self, spark: SparkSession) -> bool:
        """Give the name to the files, and columns that are new to the table; return whether there are files yet.

        Raises PlanFileError if columns have other types than those of the table, and errors of Spark.
        """
        if not self.place.finals():
            return False
        there = spark.read.option("mergeSchema", value=True).parquet(escaped(self.location)).schema
        known = described(spark, self.name)
        if known is None:
            create_table(spark, self.name, there.toDDL(), self.location)
            self.check(spark)  # some catalogs make a table of their own kind of it, which is empty
            return True
        types = {column.lower(): kind for column, kind in known.columns.items()}
        for column in there:
            kind = types.get(column.name.lower())
            if kind not in (None, column.dataType.simpleString()):
                self._refuse(
                    f"column {column.name!r} of table {self.name!r} is {kind} in Spark's catalog, and "
                    f"{column.dataType.simpleString()} in the files: `DROP TABLE {quoted(self.name)}` forgets the name and keeps "
                    "the files, and the next run gives it to them again"
                )
        new = type(there)([column for column in there if column.name.lower() not in types])
        if len(new):
            spark.sql(f"ALTER TABLE {quoted(self.name)} ADD COLUMNS ({new.toDDL()})")
        spark.catalog.refreshTable(self.name)
        return True

    def _refuse(self, problem: str) -> NoReturn:
        raise PlanFileError(where="`sinks:`", problem=problem)


def tables_of(sinks: Iterable[SinkConfig], base_dir: Path) -> list[OutputTable]:
    """Return the tables with a name that sinks write."""
    return [
        OutputTable(sink.details.table, sink_place(sink, output_dir=base_dir, base_dir=base_dir))
        for sink in sinks
        if sink.kind == "spark" and sink.details.table is not None
    ]


def outlives_session(config: SparkConfig) -> bool:
    """Return whether what the catalog is told is known when the session of the run is over: Spark's own is in memory.

    That is so for a catalog of Hive or another one that is configured, for a server's, and for that of a session which the user
    of this process has.
    """
    if config.remote is not None:
        return not config.remote.startswith("local")
    return is_hive(config) or "spark.sql.defaultCatalog" in config.conf or is_given()


@contextmanager
def registering(job: Job, notify: Notify) -> Iterator[None]:
    """Keep the names of a job's output tables known to the catalog while the block runs, and at its end.

    Nothing is done where the catalog forgets. Entering raises PlanFileError if a name belongs to something else, ResourceError
    if Spark is not to be had.
    """
    tables = tables_of(job.sinks, job.base_dir.absolute())
    if not tables or not outlives_session(job.spark):
        yield
        return
    work_dir = job.output_dir.absolute() / "spark"
    notify(f"Spark starts, for its catalog to know {', '.join(table.name for table in tables)}")
    with session(job.spark, work_dir, notify=notify) as spark:
        try:
            for table in tables:
                table.check(spark)
        except DgsError:
            raise
        except Exception as error:
            raise SparkUnavailableError(problem=first_line(error), log=work_dir / "spark.log") from error
        with _registrar(tables, spark, notify):
            yield


@contextmanager
def _registrar(tables: Sequence[OutputTable], spark: SparkSession, notify: Notify) -> Iterator[None]:
    """Register each table once it has outputs, from a thread, and all of them in the end."""
    ended = threading.Event()

    def follow() -> None:
        activate(spark)
        waiting = list(tables)
        while waiting and not ended.wait(LOOKS_EVERY):
            found = [table for table in waiting if table.place.finals()]
            waiting = [table for table in waiting if table not in found]
            _register(found, spark, lambda _: None)  # what goes wrong is said once, in the end

    thread = threading.Thread(target=follow, name="output-tables", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for name in _register(tables, spark, notify):
            notify(
                f"the run has no outputs, so that table {name!r} has no columns yet: Spark's catalog does not know it"
            )


def _register(tables: Iterable[OutputTable], spark: SparkSession, notify: Notify) -> list[str]:
    """Register tables; return the names that have no files and that the catalog does not know."""
    unknown = []
    for table in tables:
        try:
            if not table.register(spark) and described(spark, table.name) is None:
                unknown.append(table.name)
        except Exception as error:  # noqa: BLE001 - the outputs are there, with a name or without
            notify(
                f"outputs are committed to {table.location}, but not known to Spark's catalog: {first_line(error)}"
            )
    return unknown
