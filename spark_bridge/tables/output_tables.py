"""Output tables: names in Spark's catalog for outputs (`sinks: [{spark: {table: NAME}}]`), if the catalog outlives the session.

The hosts write and publish the files without the catalog; this module gives them the name. A name that belongs to something else
is refused before anything is computed. The table is created once there are outputs, and so columns; later columns are added at the
end. A failure after the start is reported and does not fail the run, whose outputs are committed.

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
from dgs.spark_bridge.session.any_thread import activate
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.session import is_given, is_hive, session
from dgs.spark_bridge.tables.epoch_table import create_table, described, quoted, same_place
from dgs.workers.runtime.job import Job
from dgs.workers.sinks.files.places import Place, sink_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKS_EVERY = 1.0
"""Seconds between two checks for first outputs."""

FORMATS = ("parquet", "hive", None)
"""Formats of tables that can read the files: Spark's own, Hive's over Parquet, and unknown."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OutputTable:
    """A name in the catalog and the place of the output files."""

    name: str
    place: Place

    @property
    def location(self) -> str:
        """The directory of the files."""
        return str(self.place.directory)

    def check(self, spark: SparkSession) -> None:
        """Raise PlanFileError if the name is taken by something else, or its schema does not exist."""
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
                f"table {self.name!r} has format {known.format} in Spark's catalog, and the outputs are Parquet: choose another name, "
                "or a catalog with Parquet tables"
            )

    def register(self, spark: SparkSession) -> bool:
        """Create the table over the files, or add their new columns to it; return whether files exist yet.

        Raises PlanFileError if columns have other types than those of the table, and errors of Spark.
        """
        if not self.place.finals():
            return False
        there = spark.read.option("mergeSchema", value=True).parquet(escaped(self.location)).schema
        known = described(spark, self.name)
        if known is None:
            create_table(spark, self.name, there.toDDL(), self.location)
            self.check(spark)  # some catalogs create an empty table of their own format instead
            return True
        types = {column.lower(): kind for column, kind in known.columns.items()}
        for column in there:
            kind = types.get(column.name.lower())
            if kind not in (None, column.dataType.simpleString()):
                self._refuse(
                    f"column {column.name!r} of table {self.name!r} is {kind} in Spark's catalog, and "
                    f"{column.dataType.simpleString()} in the files: `DROP TABLE {quoted(self.name)}` removes the name and keeps "
                    "the files, and the next run creates the table again"
                )
        new = type(there)([column for column in there if column.name.lower() not in types])
        if len(new):
            spark.sql(f"ALTER TABLE {quoted(self.name)} ADD COLUMNS ({new.toDDL()})")
        spark.catalog.refreshTable(self.name)
        return True

    def _refuse(self, problem: str) -> NoReturn:
        raise PlanFileError(where="`sinks:`", problem=problem)


def tables_of(sinks: Iterable[SinkConfig], base_dir: Path) -> list[OutputTable]:
    """Return the named tables that sinks write."""
    return [
        OutputTable(sink.details.table, sink_place(sink, output_dir=base_dir, base_dir=base_dir))
        for sink in sinks
        if sink.kind == "spark" and sink.details.table is not None
    ]


def outlives_session(config: SparkConfig) -> bool:
    """Return whether the catalog keeps its tables after the run's session: Spark's default catalog is in memory and does not.

    Catalogs that do: Hive's or another configured one, a server's, and that of a session which the user of this process started.
    """
    if config.remote is not None:
        return not config.remote.startswith("local")
    return is_hive(config) or "spark.sql.defaultCatalog" in config.conf or is_given()


@contextmanager
def registering(job: Job, notify: Notify) -> Iterator[None]:
    """Keep a job's output tables in the catalog up to date while the block runs, and at its end.

    Does nothing if the catalog ends with the session. Entering raises PlanFileError if a name belongs to something else,
    ResourceError if Spark is not available.
    """
    tables = tables_of(job.sinks, job.base_dir.absolute())
    if not tables or not outlives_session(job.spark):
        yield
        return
    work_dir = job.output_dir.absolute() / "spark"
    notify(f"Spark starts, to put {', '.join(table.name for table in tables)} into its catalog")
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
    """Register each table once it has outputs, from a thread, and all tables again at the end."""
    ended = threading.Event()

    def follow() -> None:
        activate(spark)
        waiting = list(tables)
        while waiting and not ended.wait(LOOKS_EVERY):
            found = [table for table in waiting if table.place.finals()]
            waiting = [table for table in waiting if table not in found]
            _register(found, spark, lambda _: None)  # errors are reported once, at the end

    thread = threading.Thread(target=follow, name="output-tables", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for name in _register(tables, spark, notify):
            notify(
                f"the run has no outputs, so table {name!r} has no columns yet and is not in Spark's catalog"
            )


def _register(tables: Iterable[OutputTable], spark: SparkSession, notify: Notify) -> list[str]:
    """Register tables; return the names without files that the catalog does not know."""
    unknown = []
    for table in tables:
        try:
            if not table.register(spark) and described(spark, table.name) is None:
                unknown.append(table.name)
        except Exception as error:  # noqa: BLE001 - the outputs are committed, with a name or without
            notify(
                f"outputs are committed to {table.location}, but are not in Spark's catalog: {first_line(error)}"
            )
    return unknown
