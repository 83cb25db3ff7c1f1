"""The check of SPARK_HOME, if it is set: the Spark there must match the installed PySpark.

>>> is_same("4.3.0", "4.3.1"), is_same("3.5.1", "4.3.0")
(True, False)
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dgs.errors import SparkUnavailableError

_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+[\w.-]*)\.jar")


def check_home() -> None:
    """Raise SparkUnavailableError if SPARK_HOME is set and Spark cannot start from there."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    if not (Path(home) / "bin" / "spark-submit").is_file():
        raise _unavailable(f"SPARK_HOME is {home!r}, and there is no bin/spark-submit")
    from pyspark import __version__ as ours

    found = version_in(Path(home))
    if found is not None and not is_same(found, ours):
        raise _unavailable(f"SPARK_HOME is {home}, which is Spark {found}, and PySpark is {ours}")


def version_in(home: Path) -> str | None:
    """Return the version of the Spark in a directory; None if its files do not tell."""
    names = (_CORE.fullmatch(path.name) for path in (home / "jars").glob("spark-core_*.jar"))
    return next((name[1] for name in names if name), None)


def is_same(one: str, other: str) -> bool:
    """Whether two versions work together: all but the last number is the same."""
    return one.split(".")[:2] == other.split(".")[:2]


def _unavailable(problem: str) -> SparkUnavailableError:
    advice = "unset SPARK_HOME, and the Spark that PySpark brings along is taken"
    return SparkUnavailableError(problem=f"{problem}: {advice}", log="spark/spark.log, once it starts")
