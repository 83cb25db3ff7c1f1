"""Formats that Spark reads with a package of its own: what to put into the plan file where it is absent.

>>> print(absent("Failed to find data source: kafka. Please deploy the application as ...", version="4.3.0"))
this Spark has no data source 'kafka': put `spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0` under `spark: conf:`
"""

from __future__ import annotations

import re

SCALA = "2.13"
"""What Spark 4 is built with."""

PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",
    "avro": "org.apache.spark:spark-avro_{scala}:{version}",
    "delta": "io.delta:delta-spark_{scala}:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:VERSION",
}
"""By format, as Maven calls them. VERSION is one that its project has made for this Spark."""

SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
}
"""What a format needs besides."""

_NOT_FOUND = re.compile(r"Failed to find (?:the )?data source: ([\w.-]*\w)")


def absent(text: str, *, version: str | None = None) -> str | None:
    """Return what to do about an error of Spark if it says that a data source is not there; None if it says something else."""
    found = _NOT_FOUND.search(text)
    return None if found is None else without(found[1], version=version)


def without(source: str, *, version: str | None = None) -> str:
    """Return what to do where Spark lacks a data source. `version`: of Spark, by default of the PySpark that is installed."""
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
