"""Epoch tables: tables that Spark writes, to which the epochs of runs are appended, each once.

A table is a directory of files; a table with a name is also in Spark's catalog. By default the catalog is in memory and forgets
names with the session: then the name is created again over the files, in `spark-warehouse/NAME` beside the plan file. If the
catalog knows the name, it also decides the place. Needs no Spark until a table is used.

>>> from dgs.job.schema import SparkTable
>>> EpochTable.of(SparkTable(path="progress"), Path("/data"))
EpochTable(name=None, location='/data/progress', format='parquet')
>>> EpochTable.of(SparkTable(table="dgs_checkpoints"), Path("/data")).location
'/data/spark-warehouse/dgs_checkpoints'
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dgs.errors import PlanFileError
from dgs.job.schema import SparkTable
from dgs.spark_bridge.ingest.queries import escaped
from dgs.spark_bridge.session.settings_advice import SETTINGS, without
from dgs.workers.sinks.files.places import table_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN, EPOCH = "run", "epoch"
CATALOG = "spark.sql.catalog.spark_catalog"
NOTHING_THERE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


@dataclass(frozen=True, slots=True)
class EpochTable:
    """A table with columns `run` and `epoch`, to which whole epochs are appended. `name`: in the catalog; `location`: of the files."""

    name: str | None
    location: str
    format: str = "parquet"

    @classmethod
    def of(cls, config: SparkTable, base_dir: Path) -> EpochTable:
        """Return the table of a section of the plan file."""
        if config.path is not None and "://" in config.path:  # an object store: used unchanged
            return cls(None, config.path, config.format)
        return cls(config.table, str(table_place(config, base_dir)), config.format)

    def __str__(self) -> str:
        return self.name or self.location

    def epochs(self, spark: SparkSession, schema: pa.Schema, run: str) -> frozenset[int]:
        """Return the epochs of a run that are in the table; a table with a name is created if it does not exist.

        Raises PlanFileError if the catalog knows something else by that name.
        """
        from pyspark.errors import AnalysisException

        self._check_format(spark)
        if self.name is not None:
            self._know(spark, self.name, schema)
        try:
            frame = self.read(spark)
            rows = frame.where(frame[RUN] == run).select(EPOCH).distinct().collect()
        except AnalysisException as error:
            if error.getCondition() not in NOTHING_THERE:
                raise
            return frozenset()
        return frozenset(int(row[EPOCH]) for row in rows)

    def append(self, spark: SparkSession, rows: pa.Table) -> None:
        """Append rows as one file, whole or not at all.

        The caller appends rows of one run at a time, in the order of epochs, and only rows that the table lacks. Delta also detects
        repeats by itself: the last epoch is the version of the run's transaction.
        """
        frame = spark.createDataFrame(rows).coalesce(1)
        writing = frame.write.format(self.format).mode("append").options(**self._transaction(rows))
        if self.name is None:
            writing.save(self.location)
        else:
            writing.insertInto(self.name)

    def read(self, spark: SparkSession, schema: pa.Schema | None = None) -> DataFrame:
        """Return the table as it is now. `schema`: the columns to read of a table of Parquet files without a name.

        Some files may lack some columns.
        """
        if self.name is None:
            from pyspark.sql.pandas.types import from_arrow_schema

            place = self.location if "://" in self.location else escaped(self.location)
            reading = spark.read.format(self.format)
            if schema is not None and self.format == "parquet":
                reading = reading.schema(from_arrow_schema(schema))
            return reading.load(place)
        spark.catalog.refreshTable(self.name)
        return spark.table(self.name)

    def _know(self, spark: SparkSession, name: str, schema: pa.Schema) -> None:
        known = described(spark, name)
        if known is None:
            columns = spark.createDataFrame(schema.empty_table()).schema.toDDL()
            create_table(spark, name, columns, self.location, self.format)
        elif list(known.columns) == schema.names[: len(known.columns)] and EPOCH in known.columns:
            self._add_columns(spark, name, schema, len(known.columns))  # columns of a later version
        else:  # Spark appends columns by position
            problem = (
                f"{name!r} is in Spark's catalog already, with other columns ({', '.join(known.columns)})"
            )
            raise PlanFileError(where="`checkpoint:`", problem=f"{problem}: choose another name")

    def _add_columns(self, spark: SparkSession, name: str, schema: pa.Schema, there: int) -> None:
        new = pa.schema(list(schema)[there:])
        if len(new):
            columns = spark.createDataFrame(new.empty_table()).schema.toDDL()
            spark.sql(f"ALTER TABLE {quoted(name)} ADD COLUMNS ({columns})")

    def _check_format(self, spark: SparkSession) -> None:
        has_delta = spark.conf.get(CATALOG, "") == SETTINGS["delta"][CATALOG]
        if self.format == "delta" and not has_delta:
            raise PlanFileError(where="`checkpoint:`", problem=without("delta"))

    def _transaction(self, rows: pa.Table) -> Mapping[str, str]:
        if self.format != "delta":
            return {}
        run, epoch = (rows.column(name)[-1].as_py() for name in (RUN, EPOCH))
        return {"txnAppId": f"dgs-{run}", "txnVersion": str(epoch)}


@dataclass(frozen=True, slots=True)
class Described:
    """A table or view in the catalog: column types by name, location of the files (None: it is a view), and their format."""

    columns: Mapping[str, str]
    location: str | None
    format: str | None


def described(spark: SparkSession, name: str) -> Described | None:
    """Return the catalog's description of a table or view, None if it does not exist."""
    if not spark.catalog.tableExists(name):
        return None
    columns = {field.name: field.dataType.simpleString() for field in spark.table(name).schema}
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted(name)}").collect()
    details = {row["col_name"]: row["data_type"] for row in rows[len(columns) :]}
    kind = details.get("Provider")
    return Described(columns, details.get("Location"), kind and kind.lower())


def create_table(spark: SparkSession, name: str, columns: str, location: str, kind: str = "parquet") -> None:
    """Create a table in the catalog over files at a location. `columns`: in DDL."""
    place = location.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({columns}) USING {kind} LOCATION '{place}'")


def quoted(name: str) -> str:
    """Return a name, quoted for SQL.

    >>> quoted("sales.my-clicks")
    '`sales`.`my-clicks`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in name.split("."))


def same_place(one: str, other: str) -> bool:
    """Return whether two locations are the same directory.

    >>> same_place("file:/data/out", "/data/./out/"), same_place("file:///data/out", "/data/out"), same_place("s3://data/out", "/data/out")
    (True, True, False)
    """
    paths = [re.sub("^file:/+", "/", place) for place in (one, other)]
    return one == other or (
        not any(":/" in path for path in paths) and len({*map(os.path.realpath, paths)}) == 1
    )


def missing_from(rows: Sequence[Mapping[str, Any]], known: frozenset[int]) -> list[Mapping[str, Any]]:
    """Return the rows whose epochs are not known, in the order of epochs, each epoch once.

    >>> [row["epoch"] for row in missing_from([{"epoch": 3}, {"epoch": 2}, {"epoch": 3}, {"epoch": 1}], frozenset([1]))]
    [2, 3]
    """
    found = {int(row[EPOCH]): row for row in rows}
    return [found[epoch] for epoch in sorted(found) if epoch not in known]
