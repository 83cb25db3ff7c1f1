"""Advice on a plan file for Spark: settings and file options that Spark would silently ignore, and missing packages.

Spark accepts any name, and third-party packages add their own. So only a name close to one that Spark documents draws a warning.

>>> list(misspelt(["spark.driver.memroy", "spark.mongodb.uri", "spark.executor.memory"], COMMON))
['`spark.driver.memroy`: is `spark.driver.memory` meant?']

If a data source needs a package besides Spark that is missing, the advice is a line for the plan file.

>>> print(absent("Failed to find data source: kafka. Please deploy the application as ...", version="4.3.0"))
this Spark has no data source 'kafka': put `spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0` under `spark: conf:`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from inspect import signature
from typing import Any

from dgs.errors import PlanFileError
from dgs.job.schema import SparkConfig, SparkSource

PREFIX = "spark."
SQL = "spark.sql."
CATALOGS = "spark.sql.catalog."
"""Prefix of catalog settings, with names that users make up."""

REMOTES = ("sc://", "local[")
"""Prefixes of Spark Connect addresses; `local` and `local[2]` start a server on this machine."""

COMMON = (
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.jars.packages",
    "spark.jars.repositories",
    "spark.ui.enabled",
)
"""Settings that users often give. Spark itself lists those of SQL."""

OF_STREAMS = ("cleanSource", "latestFirst", "maxBytesPerTrigger", "maxFileAge", "maxFilesPerTrigger")
"""Options of streams of files of any format."""

LIKE = 0.9
"""The least similarity to a known name that counts as a misspelling, from 0 to 1."""


def check_settings(config: SparkConfig) -> None:
    """Raise PlanFileError for a setting that an embedded Spark would not receive, and for an invalid server address."""
    if config.remote is not None and not (config.remote == "local" or config.remote.startswith(REMOTES)):
        problem = f"{config.remote!r} is no address of a server of Spark Connect, which begins with `sc://`: `sc://HOST:15002`"
        raise PlanFileError(where="`spark: remote:`", problem=problem)
    for name in () if config.remote is not None else config.conf:
        if not name.startswith(PREFIX):
            problem = (
                f"Spark has no setting {name!r}: names begin with `spark.`, those for Hadoop and Hive with `spark.hadoop.`, "
                f"such as `spark.hadoop.{name}`"
            )
            raise PlanFileError(where="`spark: conf:`", problem=problem)


def unknown_settings(spark: Any, config: SparkConfig) -> Iterator[str]:
    """Yield a sentence for each setting of a plan file that looks misspelt."""
    known, names = set(COMMON), [name for name in config.conf if not name.startswith(CATALOGS)]
    if any(name.startswith(SQL) and not spark.conf.isModifiable(name) for name in names):
        known.update(row.key for row in spark.sql("SET -v").collect())
    for said in misspelt(names, known):
        yield f"`spark: conf:` has a setting that Spark does not know, {said}"


def ignored_settings(spark: Any, config: SparkConfig) -> Iterator[str]:
    """Yield a sentence on the settings of a plan file that differ from those of a session already running."""
    differing = [name for name, value in config.conf.items() if spark.conf.get(name, None) != text(value)]
    if differing:
        names = ", ".join(f"`{name}`" for name in differing)
        yield f"Spark runs in this process already and is used as it is, without the plan file's {names}"


def unknown_options(source: SparkSource) -> Iterator[str]:
    """Yield a sentence for each file option that looks misspelt."""
    from pyspark.sql import DataFrameReader

    if source.format in ("csv", "json", "orc", "parquet", "text"):
        known = signature(getattr(DataFrameReader, source.format)).parameters
        for said in misspelt(source.options, {*OF_STREAMS, *known}):
            yield f"`options:` has one that files of format {source.format} do not have, {said}"


def misspelt(names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield a suggestion for each name that is close to a known one but not equal to it. Case does not count."""
    spelt = {one.lower(): one for one in known}
    for name in names:
        like = get_close_matches(name.lower(), spelt, n=1, cutoff=LIKE)
        if like and name.lower() not in spelt:
            yield f"`{name}`: is `{spelt[like[0]]}` meant?"


def text(value: Any) -> str:
    """Return a value of a plan file as text in Spark's form.

    >>> text(True), text(8)
    ('true', '8')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


SCALA = "2.13"
"""The Scala version Spark 4 is built with."""

PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",
    "avro": "org.apache.spark:spark-avro_{scala}:{version}",
    "delta": "io.delta:delta-spark_{scala}:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:VERSION",
}
"""Maven coordinates by format. VERSION stands for a version that the project has released for this Spark."""

SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
}
"""Further settings by format."""

_NOT_FOUND = re.compile(r"Failed to find (?:the )?data source: ([\w.-]*\w)")


def absent(text: str, *, version: str | None = None) -> str | None:
    """Return advice if an error text of Spark says that a data source is missing; None for other errors."""
    found = _NOT_FOUND.search(text)
    return None if found is None else without(found[1], version=version)


def without(source: str, *, version: str | None = None) -> str:
    """Return advice for a data source that Spark lacks. `version`: Spark's, by default that of the installed PySpark."""
    from pyspark import __version__ as installed

    version = version or installed
    missing = f"this Spark has no data source {source!r}"
    package = PACKAGES.get(source.lower())
    if package is None:
        return f"{missing}: if the name is right, put `spark.jars.packages: GROUP:ARTIFACT:VERSION` of its connector under `spark: conf:`"
    minor = version.rpartition(".")[0]
    settings = {"spark.jars.packages": package.format(scala=SCALA, version=version, minor=minor)}
    settings |= SETTINGS.get(source.lower(), {})
    lines = ", ".join(f"`{name}: {value}`" for name, value in settings.items())
    remark = f", with the VERSION for Spark {minor}" if package.endswith("VERSION") else ""
    return f"{missing}: put {lines} under `spark: conf:`{remark}"
