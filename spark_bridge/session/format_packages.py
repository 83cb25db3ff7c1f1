"""Data sources that need a package besides Spark: advice on the plan file if the package is missing.

>>> print(absent("Failed to find data source: kafka. Please deploy the application as ...", version="4.3.0"))
this Spark has no data source 'kafka': put `spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0` under `spark: conf:`
"""

from __future__ import annotations

import re

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
