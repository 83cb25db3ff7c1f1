"""A Spark of our own: one JVM, a quiet child of this process that ends when it is stopped.

PySpark alone lets the JVM write to our stderr from the start, and keeps it running until the interpreter ends.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import dgs
from dgs.errors import SparkUnavailableError
from dgs.errors.hidden_values import all_hidden, masked
from dgs.job import private_files
from dgs.own_folders import OwnFolder
from dgs.spark_bridge.session import class_archive
from dgs.spark_bridge.session.callbacks import only_from_this_user
from dgs.spark_bridge.session.java_errors import is_of_lost_java, sentence
from dgs.spark_bridge.session.reachability import is_on_this_machine
from dgs.workers.storage.disk import make_directory

UMASK = "spark.hadoop.fs.permissions.umask-mode"
"""Hadoop's own umask, which it uses in place of the process's."""

STOPS_WITHIN = 10.0
"""Seconds that the JVM has to end before it is killed."""

WRITES_WITHIN = 300.0
"""Seconds for a JVM to end if it writes an archive of its classes."""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
"""

COMPILING = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=500000 -XX:Tier4MinInvocationThreshold=60000 "
    "-XX:Tier4CompileThreshold=1500000 -XX:Tier4BackEdgeThreshold=4000000"
)
"""Options with which Java's optimizing compiler waits a hundred times as long: by default it does half of the work while Spark starts."""

PREFIX = "dgs-spark-"
"""The beginning of the names of directories of sockets."""

LONGEST_OF_SOCKETS = 60
"""The most bytes in the path of a directory of sockets: Spark adds 42, and some systems take 103."""

SMALL_HEAP = "1g"
"""The memory of an embedded Spark, unless the plan file gives another."""

COLLECTING = "-XX:+UseSerialGC -Xmn320m -XX:MetaspaceSize=256m"
"""The collector of a small heap: a concurrent one takes a tenth of the work while Spark starts. With room for new objects and for classes
it collects three times instead of ten until a million rows are read."""

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

_WHY = re.compile(
    r"(?:Exception in thread \S+ (?:[a-z]\w*\.)*\w+: |(?=Invalid |Unrecognized |Too small )|.*ERROR (?=DiskBlockManager: .*dir in ))(.+)"
)


class Embedded:
    """A running Spark. `spark`: its session. `log`: the file for its output."""

    def __init__(self, master: str, settings: Mapping[str, str], work_dir: Path, *, log: Path) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        make_directory(work_dir / "temporary")
        self._ends_within = (
            WRITES_WITHIN if any(class_archive.WRITES in text for text in settings.values()) else STOPS_WITHIN
        )
        conf, shown = (SparkConf(loadDefaults=False).setMaster(master) for _ in range(2))
        self._sockets = OwnFolder(PREFIX)
        settings = {**_of_sockets(self._sockets.path), **settings} if is_on_this_machine(master) else settings
        for name, value in _with_logging(_with_umask(settings), work_dir).items():
            conf.set(name, value)
            if masked(value) == value:  # everybody can read the command line of a process
                shown.set(name, value)
        here = _here(master, settings) | home_of_links(master, work_dir)
        threading.Thread(target=_import_converters, daemon=True, name="dgs-spark-imports").start()
        with _environment(here), masked_log(log) as output:
            launch: Any = launch_gateway
            try:
                self._gateway = launch(shown, {"stdout": output, "stderr": output})
            except BaseException:
                self._sockets.remove()
                raise
            try:
                only_from_this_user(self._gateway)
                self._context = SparkContext(conf=conf, gateway=self._gateway)
                end_quietly(self._context._accumulatorServer)  # noqa: SLF001 - it has no public name
                self.spark: Any = SparkSession(self._context)
                if is_on_this_machine(master):
                    _leave_out_checksums(self._context)
                _remove_at_the_end(self._context, self._sockets.path)
            except Exception as error:
                # before the JVM ends, since a Java error asks it for its text
                problem, is_lost = sentence(str(error)), is_of_lost_java(error)
                self._end()
                if is_lost:
                    raise
                raise SparkUnavailableError(problem=problem, log=work_dir / "spark.log") from None
            except BaseException:
                self._end()
                raise

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The JVM."""
        process: subprocess.Popen[bytes] = self._gateway.proc
        return process

    def stop(self) -> None:
        """Stop the session and the JVM, dead or alive."""
        with contextlib.suppress(Exception):  # the JVM may have ended
            self.spark.stop()
        with contextlib.suppress(Exception):
            self._context.stop()
        self._end()

    def _end(self) -> None:
        from pyspark import SparkContext

        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()  # the JVM ends when its standard input does
        try:
            self.process.wait(self._ends_within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._sockets.remove()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that the next session starts a JVM of its own
        SparkContext._active_spark_context = None  # noqa: SLF001 - a JVM that died leaves it behind


def _import_converters() -> None:
    """Import, while the JVM starts, the modules that PySpark's first call of Java imports: pandas and others take a third of a second."""
    with contextlib.suppress(ImportError):
        importlib.import_module("pyspark.testing.utils")


def _leave_out_checksums(context: Any) -> None:
    """Keep Hadoop from writing a checksum file beside each file: Parquet has checksums, and Hadoop runs `chmod` for each file."""
    files = context._jvm.org.apache.hadoop.fs.FileSystem  # noqa: SLF001 - PySpark has no public way to Hadoop
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)  # noqa: SLF001


def _of_sockets(directory: Path) -> dict[str, str]:
    """Return settings with which Spark and its Python processes talk through sockets in a directory, if their paths are not too long.

    Through TCP a task waits 40 ms for its rows: Java writes them in small parts, and the kernel waits before it acknowledges the first.
    """
    if len(os.fsencode(directory)) > LONGEST_OF_SOCKETS:
        return {}
    name = "spark.python.unix.domain.socket"  # Spark before 4.1 ignores it
    return {f"{name}.enabled": "true", f"{name}.dir": str(directory)}


def _remove_at_the_end(context: Any, directory: Path) -> None:
    """Let the JVM remove a directory when it ends, in case that this process is killed."""
    jvm = context._jvm  # noqa: SLF001 - PySpark has no public way to Java
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(str(directory)))


def end_of(log: Path) -> int:
    """Return the current length of a log in bytes: a resumed run appends to its own."""
    return log.stat().st_size if log.exists() else 0


def why_java_ended(log: Path, *, since: int = 0) -> str | None:
    """Return the line of the log, from byte `since` on, that says why Java ended before a session existed; None without one."""
    try:
        lines = log.read_bytes()[since:].decode(errors="replace").splitlines()
    except OSError:
        return None
    said = [found[1] for line in lines if (found := _WHY.match(line))]
    return said[-1].rstrip(". ") if said else None


def end_quietly(server: Any) -> None:
    """Keep PySpark's accumulator server from printing a traceback when the JVM, which we stop, hangs up first."""
    report = server.handle_error

    def handle_error(request: Any, client: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            report(request, client)

    server.handle_error = handle_error


def _with_logging(settings: Mapping[str, str], work_dir: Path) -> dict[str, str]:
    """Return the settings with those of the logger, which Java must know before it loads its first class."""
    properties = work_dir / "log4j2.properties"
    private_files.write(properties, LOGGING)
    name = "spark.driver.extraJavaOptions"
    given = settings.get(name, "")
    is_small = settings.get("spark.driver.memory") == SMALL_HEAP and not _COLLECTOR.search(given)
    own = f'-Dlog4j2.configurationFile={properties.as_uri()} "-Djava.io.tmpdir={work_dir / "temporary"}" -XX:-UsePerfData {COMPILING}{f" {COLLECTING}" * is_small} {class_archive.option()}'
    return {**settings, name: f"{own} {given}".strip()}


@contextlib.contextmanager
def masked_log(log: Path) -> Iterator[IO[bytes]]:
    """Yield the file that Spark's output goes to. If there are secrets, the output goes through a thread that masks them line by line."""
    with open(log, "ab", opener=private_files.opener) as output:
        if not all_hidden():
            yield output
            return
    out, into = os.pipe()
    thread = threading.Thread(target=_copy_masked, args=(out, log), daemon=True, name="dgs-spark-log")
    thread.start()
    with open(into, "wb") as pipe:  # noqa: PTH123 - a descriptor
        yield pipe


def _copy_masked(out: int, log: Path) -> None:
    with open(out, "rb") as lines, log.open("ab", buffering=0) as output:
        for line in lines:
            output.write(masked(line.decode(errors="replace")).encode())


def _here(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's environment variables: this interpreter and its import path, and on this machine the loopback interface.

    Executors of a cluster use the Python of PYSPARK_PYTHON or of the setting, if there is one.
    """
    root = str(Path(dgs.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "")
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    on_cluster = {"PYSPARK_PYTHON": python or sys.executable}
    on_this_machine = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }
    return {
        **(on_this_machine if is_on_this_machine(master) else on_cluster),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(part for part in (root, known) if part),
    }


def _with_umask(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the umask of files that Spark's tasks make, if the plan file lets the group in."""
    mask = private_files.mask()
    return {**({} if mask == private_files.OWNER_ONLY else {UMASK: mask}), **settings}


def home_of_links(master: str, work_dir: Path) -> dict[str, str]:
    """Return a Spark home without Spark's PySpark archive, so that Python workers import the installed PySpark.

    Python recompiles modules from an archive in every process: half a second for each of the five processes of a first query.
    """
    import pyspark

    if "SPARK_HOME" in os.environ or not master.startswith("local"):
        return {}
    home = (class_archive.prepared() or work_dir) / "home"
    try:
        make_directory(home)
        for name in ("bin", class_archive.JARS):
            if not (home / name).is_dir() or (home / name).is_symlink():  # not our own folder of jars
                _link(home / name, Path(pyspark.__file__).parent / name)
    except OSError:  # a file system without links: Spark finds its own home
        return {}
    return {"SPARK_HOME": str(home)}


def _link(link: Path, place: Path) -> None:
    """Make a link to a place. A link of an earlier start may point to another PySpark, or to none."""
    if not (link.is_symlink() and link.readlink() == place):
        link.unlink(missing_ok=True)
        link.symlink_to(place)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Any:
    """Set environment variables while the block runs: Spark reads them when it starts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
