"""The training run of Java for Spark: a small query, after which Java writes an archive of the classes that it has loaded."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.job import private_files
from dgs.job.schema import SparkConfig, StreamConfig
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.spark_bridge.session import class_archive
from dgs.spark_bridge.session.session import check_installed, session
from dgs.workers.event_log import failure

_OPTIONS = "spark.driver.extraJavaOptions"


def prepare() -> Path | None:
    """Make the archive of `dgs.spark_bridge.session.class_archive` anew, and return it; None if this Java writes none.

    Raises JavaMissingError, MissingPackageError, SparkUnavailableError, SparkQueryError.
    """
    check_installed(SparkConfig())
    import pyspark

    archive = class_archive.place() / class_archive.ARCHIVE
    private_files.make_directory(archive.parent)
    class_archive.remove_stale()
    if "SPARK_HOME" not in os.environ:
        with suppress(OSError):  # a file system without links: Spark uses its own home
            class_archive.make_jars(
                archive.parent / "home", Path(pyspark.__file__).parent / class_archive.JARS
            )
    archive.unlink(missing_ok=True)  # with an archive, Java would use it and write none
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        directory = Path(name)
        draft = directory / class_archive.ARCHIVE
        config = SparkConfig(conf={_OPTIONS: f'"{class_archive.WRITES}{draft}"'})
        with session(config, directory / "spark") as spark:
            _train(spark, directory)
        if not draft.is_file():
            return None
        draft.replace(archive)
    return archive


def _train(spark: object, directory: Path) -> None:
    rows = pa.table({"stream": ["a", "b"] * 50, "ts": range(100), "v": range(100)})
    (directory / "in").mkdir()
    for number in range(2):
        pq.write_table(rows, directory / "in" / f"{number}.parquet")
    source = {"spark": {"query": "q", "key": "stream", "format": "parquet", "path": "in"}}
    streams = [
        StreamConfig.model_validate({"id": id_, "tags": {"kind": "n"}, "source": source})
        for id_ in ("a", "b")
    ]
    [query] = queries_of(streams, unit="ms")
    feed = Feed(query, directory / "log", base_dir=directory)
    feed.begin()
    feed.run(spark, threading.Event())
    if (error := failure.found(directory / "log" / "a")) is not None:
        raise error
