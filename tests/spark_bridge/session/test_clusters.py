"""Spark on a cluster: settings, environment, the package for its executors, and a first job without executors."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dgs.job import private_files
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session import executors
from dgs.spark_bridge.session.embedded import UMASK, _here, _with_umask
from dgs.spark_bridge.session.executors import NoExecutorError, await_executor, packed, python_problem
from dgs.spark_bridge.session.session import PARTITIONS, settings

CLUSTER = "spark://master:7077"
OF_THIS_MACHINE = {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir", PARTITIONS}


def test_cluster_finds_the_driver_by_rules_of_its_own_and_has_its_own_directories_and_cores():
    assert settings(SparkConfig(), Path("/run")).keys() >= OF_THIS_MACHINE
    found = settings(SparkConfig(master=CLUSTER, conf={"spark.driver.host": "here.example"}), Path("/run"))
    assert found.keys() & OF_THIS_MACHINE == {"spark.driver.host"}
    assert found["spark.driver.host"] == "here.example"


@pytest.mark.parametrize(
    ("given", "conf", "expected"),
    [
        (None, {}, sys.executable),
        ("/opt/python", {}, "/opt/python"),
        ("/opt/python", {"spark.pyspark.python": "/opt/other"}, "/opt/other"),
    ],
)
def test_executors_of_a_cluster_have_the_python_that_the_user_names(monkeypatch, given, conf, expected):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    if given is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", given)
    found = _here(CLUSTER, conf)
    assert (found["PYSPARK_PYTHON"], found["PYSPARK_DRIVER_PYTHON"]) == (expected, sys.executable)
    assert "SPARK_LOCAL_IP" not in found
    local = _here("local[*]", conf)
    assert (local["PYSPARK_PYTHON"], local["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")


def test_spark_makes_files_for_the_group_only_where_the_plan_file_does():
    try:
        assert _with_umask({}) == {}
        private_files.allow("007")
        assert _with_umask({}) == {UMASK: "007"}
        assert _with_umask({UMASK: "022"}) == {UMASK: "022"}
    finally:
        private_files.allow(private_files.OWNER_ONLY)


def test_python_without_dgs_imports_it_from_the_archive(tmp_path):
    place = packed(tmp_path / "sent" / "dgs.zip")
    code = "import sys; sys.path[:0] = sys.argv[1:]; import dgs.workers.event_log as found; print(found.__file__)"
    packages = [path for path in sys.path if path.endswith("site-packages")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(place), *packages],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{place}/dgs/workers/event_log/")


OF_THE_ARCHIVE = """
import sys
sys.path[:0] = sys.argv[1:]
import dgs
from dgs.query.mrql.mrql_parser import _grammar

class Sum(dgs.Program):
    depends = dgs.Dependence(("v", "v", dgs.ALWAYS))
    def init(self): return 0
    def update(self, state, event, emit):
        emit(state + event.payload)
        return state + event.payload

_grammar()
streams = {"s": [(dgs.kind("v")(), ts, ts) for ts in range(5)]}
print(dgs.__file__, list(dgs.run(Sum(), streams=streams, runtime={"kind": "local", "compile": "require"}).outputs))
"""


def test_files_of_the_package_are_read_from_the_archive(tmp_path):
    """The loops of a compiled update have the source of their compiler in their names; MRQL has a grammar."""
    place, script = packed(tmp_path / "sent" / "dgs.zip"), tmp_path / "script.py"
    script.write_text(OF_THE_ARCHIVE)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script), str(place), *packages],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == f"{place}/dgs/__init__.py [0, 1, 3, 6, 10]\n", done.stderr


class Waiting:
    """A session whose jobs wait until they are cancelled."""

    def __init__(self):
        cancelled = threading.Event()
        conf = {"spark.driver.host": "here", "spark.driver.port": "7"}
        self.sparkContext = SimpleNamespace(
            master=CLUSTER, cancelAllJobs=cancelled.set, getConf=lambda: SimpleNamespace(get=conf.get)
        )
        self.range = lambda *_: SimpleNamespace(count=cancelled.wait)


def test_first_job_that_gets_no_executor_is_an_error_with_the_address_of_the_driver():
    with pytest.raises(
        NoExecutorError, match=r"no executor of spark://master:7077 .* the driver is at here:7"
    ):
        await_executor(Waiting(), within=0.01)


def test_missing_packages_of_executors_are_named(spark, tmp_path, monkeypatch):
    await_executor(spark)
    assert python_problem(spark, tmp_path) is None
    monkeypatch.setattr(executors, "NEEDED", ("numpy", "no_such_package"))
    assert python_problem(spark, tmp_path).endswith("has no no_such_package")
