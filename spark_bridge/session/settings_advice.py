"""Settings and file options in a plan file that Spark would silently ignore: a warning, with a suggestion.

Spark lists the settings it reads itself; settings of third-party packages cannot be listed. So only two kinds of settings draw a
warning: a name close to a known one, and an unknown name in a family of Spark's own.

>>> known = frozenset({"spark.driver.memory", "spark.driver.cores", "spark.sql.shuffle.partitions"})
>>> for name in ("spark.driver.memroy", "spark.driver.heap", "spark.sql.catalog.mine", "spark.mongodb.uri", "spark.driver.memory"):
...     print(remark(name, known))
is `spark.driver.memory` meant?
it may have no effect
None
None
None
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from itertools import accumulate
from typing import Any

from dgs.errors import PlanFileError
from dgs.job.schema import SparkConfig, SparkSource

PREFIX = "spark."

REMOTES = ("sc://", "local[")
"""Prefixes of Spark Connect addresses; `local` and `local[2]` start a server on this machine."""

OF_OTHERS = (
    "spark.app.",
    "spark.databricks.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.kafka.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
    "spark.yarn.",
)
"""Families of settings with names that users make up, or that Spark does not list."""

WIDE = ("spark", "spark.sql")
"""Families that many packages add settings to."""

LIKE = 0.9
"""The least similarity to a known name that counts as a misspelling, from 0 to 1."""

OPTIONS = {
    "csv": "org.apache.spark.sql.catalyst.csv.CSVOptions",
    "json": "org.apache.spark.sql.catalyst.json.JSONOptions",
    "orc": "org.apache.spark.sql.execution.datasources.orc.OrcOptions",
    "parquet": "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions",
    "text": "org.apache.spark.sql.execution.datasources.text.TextOptions",
}
"""The classes that know the options of a format."""

ANY_FILES = "org.apache.spark.sql.execution.datasources.FileIndexOptions"

OF_FILES = frozenset(
    (
        "archivePathFilter",
        "cleanSource",
        "discardCachedInputRatio",
        "fileNameOnly",
        "ignoreCorruptFiles",
        "latestFirst",
        "maxBytesPerTrigger",
        "maxCachedFiles",
        "maxFileAge",
        "maxFilesPerTrigger",
        "path",
        "sourceArchiveDir",
    )
)
"""Options of files, and of streams of files, that none of these classes lists."""


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
    """Yield a sentence for each setting of a plan file that a session started with it does not know."""
    known = known_settings(spark) if config.conf else frozenset()
    for name in config.conf if known else ():
        if (said := remark(name, known)) is not None:
            yield f"`{name}` under `spark: conf:` is no setting that Spark lists: {said}"


def ignored_settings(spark: Any, config: SparkConfig) -> Iterator[str]:
    """Yield a sentence on the settings of a plan file that differ from those of a session already running."""
    differing = [name for name, value in config.conf.items() if spark.conf.get(name, None) != text(value)]
    if differing:
        names = ", ".join(f"`{name}`" for name in differing)
        yield f"Spark runs in this process already and is used as it is, without the plan file's {names}"


def unknown_options(spark: Any, source: SparkSource) -> Iterator[str]:
    """Yield a sentence for each file option that Spark does not know. Names with dots are Hadoop's."""
    name = OPTIONS.get(source.format or "")
    if name is None or not source.options:
        return
    known = OF_FILES.union(_options(spark, name), _options(spark, ANY_FILES))
    spelt = {option.lower(): option for option in known}
    for option in source.options:
        if option.lower() not in spelt and "." not in option:
            like = max(
                get_close_matches(option.lower(), spelt),
                key=lambda one: _begin_alike(one, option),
                default=None,
            )
            meant = f": is `{spelt[like]}` meant?" if like else ""
            yield f"Spark ignores `{option}` under `options:`, which files of format {source.format} do not have{meant}"


def known_settings(spark: Any) -> frozenset[str]:
    """Return the names of Spark's own settings. Raises if Spark does not list them (see `tell`)."""
    entries = _companion(spark, "org.apache.spark.internal.config.ConfigEntry")
    return frozenset(map(str, entries.knownConfigs().keySet()))


def remark(name: str, known: Iterable[str]) -> str | None:
    """Return a remark on a setting that is not known; None if none is due."""
    known = frozenset(known)
    if name in known or name.startswith(OF_OTHERS):
        return None
    like = get_close_matches(name, known, n=1, cutoff=LIKE)
    if like:
        return f"is `{like[0]}` meant?"
    family = name.rpartition(".")[0]
    if family not in WIDE and any(other.rpartition(".")[0] == family for other in known):
        return "it may have no effect"
    return None


def text(value: Any) -> str:
    """Return a value of a plan file as text in Spark's form.

    >>> text(True), text(8)
    ('true', '8')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _begin_alike(one: str, other: str) -> int:
    """Return the length of the common prefix, case ignored: misspellings seldom start with a word's first letters."""
    return sum(accumulate((a == b for a, b in zip(one.lower(), other.lower(), strict=False)), min))


def _options(spark: Any, name: str) -> list[str]:
    found = _companion(spark, name).getAllOptions()
    return list(spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found))  # noqa: SLF001 - as in PySpark


def _companion(spark: Any, name: str) -> Any:
    """Return the Scala object of a class."""
    package, _, last = name.rpartition(".")
    place = spark._jvm  # noqa: SLF001 - as in PySpark
    for part in package.split("."):
        place = getattr(place, part)
    return getattr(getattr(place, f"{last}$"), "MODULE$")


def tell(notify: Callable[[str], None], sentences: Iterable[str]) -> None:
    """Pass on all sentences; none if Spark does not list what it knows, as a server or a later version may not."""
    found: list[str] = []
    with suppress(Exception):
        found.extend(sentences)
    for sentence in found:
        notify(sentence)
