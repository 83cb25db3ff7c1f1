"""The Spark session of this process: started for its first user, stopped after its last.

Spark is embedded (`local[*]`) unless the plan file names a master, or the address of a Spark Connect server. An embedded Spark
listens on the loopback interface only, and keeps its files and its log `spark.log` in the given directory.

>>> config = SparkConfig(conf={"spark.driver.memory": "2g"})
>>> dict(settings(config, Path("/runs/7")))["spark.driver.memory"], settings(config, Path("/runs/7"))["spark.driver.host"]
('2g', '127.0.0.1')
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dgs.errors import DgsError, MissingPackageError, SparkUnavailableError, UsageError
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.any_thread import activate, adapt_writers
from dgs.spark_bridge.session.embedded import SMALL_HEAP, Embedded, end_of, why_java_ended
from dgs.spark_bridge.session.executors import ExecutorPythonError, await_executor, python_problem
from dgs.spark_bridge.session.java import check_home, find_java
from dgs.spark_bridge.session.java_errors import first_line, is_of_lost_java, silence_loggers
from dgs.spark_bridge.session.reachability import check_answers, is_on_this_machine
from dgs.spark_bridge.session.settings_advice import check_settings, ignored_settings, text, unknown_settings

LOOPBACK = "127.0.0.1"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"

CONNECT_PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "zstandard": "zstandard",
    "google.rpc": "googleapis-common-protos",
}


Notify = Callable[[str], None]


def _unheard(_sentence: str) -> None:
    """Ignore a sentence."""


@dataclass
class _Current:
    """The session of this process. `users`: open blocks of `session(...)`; `embedded`: the JVM, if it is ours.

    `python_problem`: why the executors of a cluster cannot run our Python code. `has_dgs`: the data source is registered.
    """

    spark: Any
    config: SparkConfig
    users: int
    embedded: Embedded | None
    is_ours: bool
    python_problem: str | None = None
    has_dgs: bool = False


_lock = threading.RLock()
_current: _Current | None = None


def check_installed(config: SparkConfig) -> None:
    """Check that a session can start, without starting anything.

    Raises MissingPackageError, JavaMissingError, SparkUnavailableError, SparkUnreachableError, PlanFileError.
    """
    check_settings(config)
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            raise MissingPackageError(feature="Spark", package=package)
    if config.remote is None or _starts_server(config.remote):
        find_java()
        check_home()
    if config.remote is not None:
        for module, package in CONNECT_PACKAGES.items():
            if not _is_there(module):
                raise MissingPackageError(feature="Spark Connect", package=package)
    check_answers(config)


@contextmanager
def session(
    config: SparkConfig, work_dir: Path, *, notify: Notify = _unheard, with_dgs: bool = True
) -> Iterator[Any]:
    """Give the SparkSession of this process; start it if there is none.

    `with_dgs`: with the data source `dgs`. Spark starts a Python process to register it, so a session that does not need it may lack it.
    `work_dir`: absolute directory for temporary files, warehouse and log of a session started here.
    A session that the user of this process has started is used as it is, and not stopped.
    `notify` gets a sentence for each setting without effect.

    Raises MissingPackageError, JavaMissingError, SparkUnavailableError, PlanFileError; UsageError if a session with another
    master runs.
    """
    current = _entered(config, work_dir, notify=notify, with_dgs=with_dgs)
    try:
        activate(current.spark)
        yield current.spark
    finally:
        _left(current)


def is_given() -> bool:
    """Return whether the session of this process is the user's own, which outlives our use of it."""
    with _lock:
        if _current is not None:
            return not _current.is_ours
        return "pyspark" in sys.modules and _running() is not None


def settings(config: SparkConfig, work_dir: Path) -> dict[str, str]:
    """Return the settings of an embedded session: ours, overridden by the plan file's. A cluster has directories and cores of its own."""
    on_this_machine = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.local.dir": str(work_dir / "temporary"),
        PARTITIONS: str(max(2, os.cpu_count() or 1)),
    }
    ours = {
        **(on_this_machine if is_on_this_machine(config.master) else {}),
        "spark.app.name": "dgs",
        "spark.driver.memory": SMALL_HEAP,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.sql.session.timeZone": "UTC",  # as everywhere in dgs: times without a zone are UTC
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    if is_hive(config):  # Hive keeps its own warehouse, which outlives a run
        del ours["spark.sql.warehouse.dir"]
    return ours | {name: text(value) for name, value in config.conf.items()}


def is_hive(config: SparkConfig) -> bool:
    """Return whether an embedded session uses a Hive catalog, which outlives it."""
    return config.conf.get("spark.sql.catalogImplementation") == "hive"


def _entered(config: SparkConfig, work_dir: Path, *, notify: Notify, with_dgs: bool) -> _Current:
    global _current  # noqa: PLW0603 - Spark itself allows one session per process
    with _lock:
        if _current is None:
            check_installed(config)
            _current = _started(config, work_dir, with_dgs=with_dgs)
            looks = unknown_settings if _current.is_ours else ignored_settings
            _tell(notify, looks(_current.spark, config))
            if _current.python_problem is not None:
                notify(f"{ExecutorPythonError(problem=_current.python_problem)} Rows are read without it.")
        elif (_current.config.master, _current.config.remote) != (config.master, config.remote):
            message = f"Spark runs in this process already, with other settings than these: {config}"
            raise UsageError(message=message)
        elif _current.config is not config:
            _tell(notify, ignored_settings(_current.spark, config))
        if with_dgs and not _current.has_dgs:
            register(_current.spark)
            _current.has_dgs = True
        _current.users += 1
        return _current


def _tell(notify: Notify, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        notify(sentence)


def _left(current: _Current) -> None:
    global _current  # noqa: PLW0603 - see above
    with _lock:
        current.users -= 1
        if current.users:
            return
        _current = None
        if current.is_ours:
            silence_loggers(is_silent=False)
        _stop(current)


def _started(config: SparkConfig, work_dir: Path, *, with_dgs: bool) -> _Current:
    log = work_dir / "spark.log"
    found, since = None, end_of(log)
    try:
        found = _found(config, work_dir, log)
        if with_dgs or not found.is_ours:
            register(found.spark)
            found.has_dgs = True
    except Exception as error:
        # before the JVM ends, since a Java error asks it for its text
        problem = first_line(error).rstrip(".")
        if found is not None:
            _stop(found)
        if isinstance(error, DgsError):
            raise
        if "JAVA_GATEWAY_EXITED" in problem or is_of_lost_java(error):
            problem = why_java_ended(log, since=since) or problem
        raise SparkUnavailableError(problem=problem, log=log) from error
    if found.is_ours:
        silence_loggers(is_silent=True)
    return found


def _found(config: SparkConfig, work_dir: Path, log: Path) -> _Current:
    """Return the session for these settings, started unless it runs."""
    if config.remote is not None:
        current = _Current(_remote(config, config.remote, work_dir), config, 0, None, is_ours=True)
        if not _starts_server(config.remote):
            current.python_problem = python_problem(current.spark, work_dir)
        return current
    if (running := _running()) is not None:
        return _Current(running, config, 0, None, is_ours=False)
    embedded = Embedded(config.master, settings(config, work_dir), work_dir, log=log)
    current = _Current(embedded.spark, config, 0, embedded, is_ours=True)
    if not is_on_this_machine(config.master):
        try:
            _begin_on_cluster(current, work_dir)
        except BaseException:
            embedded.stop()
            raise
    return current


def _begin_on_cluster(current: _Current, work_dir: Path) -> None:
    """Wait for the executors, send them our code if they lack it, and use their number of cores for shuffles."""
    spark = current.spark
    await_executor(spark)
    current.python_problem = python_problem(spark, work_dir)
    if PARTITIONS not in current.config.conf:
        spark.conf.set(PARTITIONS, str(max(2, spark.sparkContext.defaultParallelism)))


def check_python() -> None:
    """Raise ExecutorPythonError if the executors of this process's session cannot run our Python code."""
    if _current is not None and _current.python_problem is not None:
        raise ExecutorPythonError(problem=_current.python_problem)


def _stop(current: _Current) -> None:
    if current.embedded is not None:
        current.embedded.stop()
    elif current.is_ours:
        current.spark.stop()


def register(spark: Any) -> None:
    """Make `format("dgs")` known to a session, and let it filter rows itself. A session from `session(...)` knows it already."""
    from dgs.spark_bridge.data_source.format import DgsDataSource

    with _this_interpreter(spark):
        spark.dataSource.register(DgsDataSource)
    adapt_writers()
    spark.conf.set(PUSHDOWN, "true")  # Spark before 4.1 ignores it


@contextmanager
def _this_interpreter(spark: Any) -> Iterator[None]:
    """Register with this interpreter, if Spark runs on this machine and PYSPARK_PYTHON names none.

    Otherwise Spark runs the data source in the `python3` of the PATH, which may lack our packages in a virtual environment that
    is not activated.
    """
    is_classic = getattr(spark, "_jsparkSession", None) is not None
    if not is_classic or not spark.sparkContext.master.startswith("local") or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def _running() -> Any:
    """Return the session that the user of this process has started; None without one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:  # noqa: SLF001 - it has no public name
        return None
    return SparkSession.builder.getOrCreate()


def _remote(config: SparkConfig, address: str, work_dir: Path) -> Any:
    """Return a session of a Spark Connect server; `local[...]` starts one in a JVM of our own."""
    from pyspark.sql import SparkSession

    secure_environment()
    builder = SparkSession.builder.remote(address)
    chosen = settings(config, work_dir) if _starts_server(address) else config.conf
    for name, value in chosen.items():
        builder = builder.config(name, text(value))
    return builder.getOrCreate()


def secure_environment() -> None:
    """Make Spark's processes run this interpreter and listen on the loopback interface."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def _starts_server(remote: str) -> bool:
    return remote.startswith("local")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
