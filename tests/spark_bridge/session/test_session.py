"""Sessions: requirements are checked before the start, and files stay in the given directory."""

import errno
import os
import stat
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from dgs.errors import JavaMissingError, MissingPackageError, SparkUnavailableError, UsageError
from dgs.job.schema import SparkConfig
from dgs.own_folders import remove_left
from dgs.spark_bridge.session import embedded
from dgs.spark_bridge.session import session as sessions
from dgs.spark_bridge.session.embedded import Embedded, end_of, end_quietly, home_of_links, why_java_ended
from dgs.spark_bridge.session.java import find_java
from dgs.spark_bridge.session.session import CONNECT_PACKAGES, check_installed, session, settings

ROOT = Path(__file__).parents[3]


def fake_java(directory, version):
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("version", "is_found"), [("17.0.1", True), ("21", True), ("1.8.0_402", False), ("11.0.2", False)]
)
def test_java_of_java_home_must_be_new_enough(tmp_path, monkeypatch, version, is_found):
    java = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if is_found:
        assert find_java() == java
    else:
        with pytest.raises(JavaMissingError, match=version) as caught:
            find_java()
        assert caught.value.exit_code == 4


def test_java_is_searched_on_the_path(tmp_path, monkeypatch):
    java = fake_java(tmp_path, "17.0.1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    assert find_java() == java


def test_absent_java_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissingError, match=r"17 or newer.*openjdk-17.*JAVA_HOME"):
        find_java()


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_absent_package_is_named(monkeypatch, package):
    find = sessions.find_spec
    monkeypatch.setattr(sessions, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingPackageError, match=package):
        check_installed(SparkConfig())


def test_spark_connect_needs_packages_of_its_own(monkeypatch):
    find = sessions.find_spec
    monkeypatch.setattr(sessions, "find_spec", lambda name: None if name in CONNECT_PACKAGES else find(name))
    with pytest.raises(MissingPackageError, match="grpcio"):
        check_installed(SparkConfig(remote="sc://localhost"))


def test_settings_of_the_plan_file_win(tmp_path):
    found = settings(
        SparkConfig(conf={"spark.ui.enabled": True, "spark.sql.session.timeZone": "CET"}), tmp_path
    )
    assert (found["spark.ui.enabled"], found["spark.sql.session.timeZone"]) == ("true", "CET")


def test_users_share_the_session_of_the_process_and_leave_it_running(spark, tmp_path):
    with session(SparkConfig(), tmp_path) as first, session(SparkConfig(), tmp_path) as second:
        assert first is second is spark
    assert spark.range(2).count() == 2
    assert list(tmp_path.iterdir()) == []


def test_session_of_another_master_is_refused(spark, tmp_path):
    with pytest.raises(UsageError, match="other settings"), session(SparkConfig(master="local[7]"), tmp_path):
        pass


@pytest.mark.parametrize(("error", "is_told"), [(EOFError(), False), (ValueError(), True)])
def test_java_that_hangs_up_is_no_error_but_other_failures_are(error, is_told):
    told = []
    server = SimpleNamespace(handle_error=lambda *what: told.append(what))
    end_quietly(server)

    def handle():
        raise error

    try:
        handle()
    except (EOFError, ValueError):
        server.handle_error("request", "client")
    assert told == ([("request", "client")] if is_told else [])


@pytest.fixture
def without_archive(tmp_path, monkeypatch):
    """Hide the archive of Spark's classes of this machine, if there is one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("without_archive")
def test_home_links_to_the_pyspark_of_this_interpreter_and_replaces_older_links(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "bin").symlink_to(tmp_path / "gone")
    (tmp_path / "home" / "jars").symlink_to(tmp_path / "other")
    for _ in range(2):
        assert home_of_links("local[*]", tmp_path) == {"SPARK_HOME": str(tmp_path / "home")}
    found = {link.name: link.resolve() for link in (tmp_path / "home").iterdir()}
    pyspark = Path(find_spec("pyspark").origin).parent.resolve()
    assert found == {"bin": pyspark / "bin", "jars": pyspark / "jars"}


@pytest.mark.usefixtures("without_archive")
def test_spark_finds_its_own_home_if_links_are_impossible(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert home_of_links("local[*]", tmp_path) == {}


def test_given_home_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert home_of_links("local[*]", tmp_path) == {}


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be it.\n\tat a.b(C)\n',
            "Master must be it",
        ),
        (
            "Invalid heap size: 1x\nError: Could not create the Java Virtual Machine.\n",
            "Invalid heap size: 1x",
        ),
        (
            "2026-11-22 00:30:43 ERROR DiskBlockManager: Failed to create local dir in /full. Ignoring this directory.\n...\n",
            "DiskBlockManager: Failed to create local dir in /full. Ignoring this directory",
        ),
        ("WARNING: nothing\n", None),
        (None, None),
    ],
)
def test_reason_of_the_end_of_java_is_read_from_its_log(tmp_path, log, why):
    if log is not None:
        (tmp_path / "spark.log").write_text(log)
    assert why_java_ended(tmp_path / "spark.log") == why


def test_reason_of_the_end_of_java_ignores_earlier_runs(tmp_path):
    log = tmp_path / "spark.log"
    assert end_of(log) == 0
    log.write_text("Invalid heap size: 1x\n")
    since = end_of(log)
    assert why_java_ended(log, since=since) is None
    with log.open("a") as file:
        file.write("Too small maximum heap\n")
    assert why_java_ended(log, since=since) == "Too small maximum heap"


def test_unusable_session_is_stopped_with_its_reason(monkeypatch, tmp_path):
    stopped = []

    class OfJavaError(Exception):
        """An error whose text needs Java to run."""

        def __str__(self):
            assert not stopped
            return "many is no number"

    monkeypatch.setattr(sessions, "_running", lambda: None)
    monkeypatch.setattr(sessions, "_current", None)
    monkeypatch.setattr(sessions, "check_installed", lambda config: None)
    embedded = SimpleNamespace(spark=None, stop=lambda: stopped.append(True))
    monkeypatch.setattr(sessions, "Embedded", lambda *given, **named: embedded)

    def register(spark):
        error = ValueError("while instantiating")
        error._cause = OfJavaError()
        raise error

    monkeypatch.setattr(sessions, "register", register)
    with pytest.raises(SparkUnavailableError, match="many is no number"), session(SparkConfig(), tmp_path):
        pass
    assert stopped == [True]


def test_setting_that_spark_refuses_at_its_start_is_reported_before_java_ends(monkeypatch, tmp_path):
    stopped = []

    class OfJavaError(Exception):
        """An error that has its text only while Java runs."""

        def __str__(self):
            if stopped:
                raise ConnectionRefusedError
            return "File file:/nowhere does not exist"

    class FailingContext:
        def __init__(self, **_):
            raise OfJavaError

    process = SimpleNamespace(stdin=None, wait=lambda _: None)
    gateway = SimpleNamespace(
        shutdown=lambda: stopped.append(True), proc=process, _create_callback_server=None
    )
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_: gateway)
    monkeypatch.setattr("pyspark.SparkContext", FailingContext)
    with pytest.raises(SparkUnavailableError, match="nowhere does not exist"):
        Embedded("local[1]", {}, tmp_path, log=tmp_path / "spark.log")
    assert stopped


QUIET = """
import sys
from importlib.util import find_spec
from pathlib import Path
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
with session(SparkConfig(master="local[1]"), Path(sys.argv[1])) as spark:
    spark.sql("CREATE TABLE t (a INT) USING parquet")
    assert spark.range(2).count() == 2
    for wrong in (lambda: spark.range(2).where("nothing > 0"), lambda: spark.range(2).repartition("nothing")):
        try:
            wrong()
        except Exception as error:
            assert "nothing" in str(error)
"""


@pytest.mark.slow
def test_session_is_quiet_and_leaves_nothing_in_the_working_directory(spark, tmp_path):
    (tmp_path / "cwd").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(tmp_path / "work")],
        cwd=tmp_path / "cwd",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list((tmp_path / "cwd").iterdir()) == []
    assert (tmp_path / "work" / "spark.log").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
with session(SparkConfig(master="local[1]"), Path(sys.argv[1])) as spark:
    print(spark.conf.get("spark.python.unix.domain.socket.dir"), flush=True)
    if sys.argv[2] == "both killed":
        java = spark._jvm.java.lang.ProcessHandle.current().pid()
        os.kill(java, signal.SIGKILL)
    if sys.argv[2] != "ends":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["ends", "killed", "both killed"])
def test_sockets_of_a_session_are_gone_when_it_ends_or_is_killed(tmp_path, end):
    command = [sys.executable, "-c", KILLED, str(tmp_path), end]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    place = Path(done.stdout.strip())
    assert place.name.startswith("dgs-spark-")
    if end == "both killed":
        assert place.exists()
        os.utime(place, (0, 0))
        remove_left(embedded.PREFIX, 1e9)  # as the next start does
    patience = time.monotonic() + 60
    while place.exists() and time.monotonic() < patience:  # Java ends after this process's child
        time.sleep(0.05)
    assert not place.exists()


def test_python_processes_of_spark_are_reached_by_sockets_that_only_this_user_can_open(spark):
    place = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert stat.S_IMODE(place.stat().st_mode) == stat.S_IRWXU
    rows = spark.range(3).mapInArrow(lambda batches: batches, "id bigint")
    assert sorted(row.id for row in rows.collect()) == [0, 1, 2]
    assert any(stat.S_ISSOCK(path.stat().st_mode) for path in place.iterdir())


def test_sockets_with_long_paths_are_left_to_tcp():
    assert embedded._of_sockets(Path("/tmp/dgs-spark-x"))["spark.python.unix.domain.socket.enabled"] == "true"
    assert embedded._of_sockets(Path("/tmp") / ("long" * 20)) == {}
