"""The Java and the Spark of this machine, found and checked before Spark starts.

Java is at JAVA_HOME, else on the PATH, and 17 or newer.

>>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_402"'), major("no version here")
(17, 8, None)

If SPARK_HOME is set, the Spark there must match the installed PySpark.

>>> is_same("4.3.0", "4.3.1"), is_same("3.5.1", "4.3.0")
(True, False)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from dgs.errors import JavaMissingError, SparkUnavailableError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""


def find_java() -> Path:
    """Return the `java` that Spark will run. Raises JavaMissingError with the place searched and what was found there."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java, where = Path(home) / "bin" / "java", f"JAVA_HOME is {home}"
        if not java.is_file():
            raise JavaMissingError(problem=f"{where}, and there is no bin/java")
    else:
        found = shutil.which("java")
        if found is None:
            raise JavaMissingError(problem="JAVA_HOME is not set, and there is no `java` on the PATH")
        java, where = Path(found), f"`java` on the PATH is {found}"
    said = _version(java)
    version = major(said)
    if version is None or version < OLDEST:
        raise JavaMissingError(problem=f"{where}, which says {repr(said) if said else 'nothing'}")
    return java


def describe_java() -> str:
    """Return the path and the version line of the `java` that Spark will run. Raises JavaMissingError."""
    java = find_java()
    return f"{java}, {_version(java)}"


def major(text: str) -> int | None:
    """Return the major version in the output of `java -version` or in a file `release` (1.8 is 8); None if there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(match[1]) if match else None


def _version(java: Path) -> str:
    """Return the version line: from the file beside the binaries, which is cheap to read, else from Java itself."""
    release = java.resolve().parent.parent / "release"
    try:
        for line in release.read_text(encoding="utf-8").splitlines():
            if line.startswith("JAVA_VERSION="):
                return f"version {line.partition('=')[2]}"
    except (OSError, UnicodeDecodeError):
        pass
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - found above
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return next(iter((done.stderr or done.stdout).strip().splitlines()), "")


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
