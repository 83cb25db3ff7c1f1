"""The check of SPARK_HOME before anything starts."""

import pytest

from dgs.errors import SparkUnavailableError
from dgs.spark_bridge.session.java import check_home


def home_with(directory, *jars):
    for name in ("bin/spark-submit", *(f"jars/{jar}" for jar in jars)):
        file = directory / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return directory


def test_directory_without_spark_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "gone"))
    with pytest.raises(SparkUnavailableError, match=r"SPARK_HOME is .*gone.*unset SPARK_HOME"):
        check_home()


def test_home_of_another_spark_is_refused_with_both_versions(tmp_path, monkeypatch):
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setenv("SPARK_HOME", str(home_with(tmp_path, "spark-core_2.12-3.5.1.jar")))
    with pytest.raises(SparkUnavailableError, match=rf"Spark 3\.5\.1, and PySpark is {pyspark.__version__}"):
        check_home()


@pytest.mark.parametrize("jars", [(), ("spark-core.jar",), None])
def test_home_that_does_not_show_another_version_is_accepted(tmp_path, monkeypatch, jars):
    pyspark = pytest.importorskip("pyspark")
    same = f"spark-core_2.13-{pyspark.__version__}.jar"
    monkeypatch.setenv("SPARK_HOME", str(home_with(tmp_path, *((same,) if jars is None else jars))))
    check_home()
