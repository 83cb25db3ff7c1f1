"""The archive of Spark's classes: where it is, when it counts, and that Java takes classes from it."""

import pytest

from dgs.job.schema import SparkConfig
from dgs.spark_bridge.ingest.training import prepare
from dgs.spark_bridge.session import class_archive
from dgs.spark_bridge.session.embedded import home_of_links
from dgs.spark_bridge.session.session import session


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_archive_counts_once_it_is_there_and_spark_has_its_home_beside_it(tmp_path):
    work = tmp_path / "work"
    assert class_archive.prepared() is None
    assert class_archive.option() == ""
    assert home_of_links("local[*]", work) == {"SPARK_HOME": str(work / "home")}
    place = class_archive.place()
    place.mkdir(parents=True)
    assert home_of_links("local[*]", work) == {"SPARK_HOME": str(place / "home")}
    assert class_archive.option() == ""
    (place / "classes.jsa").touch()
    assert class_archive.option() == f'"-XX:SharedArchiveFile={place}/classes.jsa"'


def test_archive_is_another_for_another_pyspark(monkeypatch):
    before = class_archive.place()
    monkeypatch.setattr("pyspark.__version__", "4.0.99")
    assert class_archive.place() != before


def test_archives_of_removed_installations_go_and_others_stay(tmp_path):
    folder = class_archive.place().parent
    for name, installed in (("kept", tmp_path), ("stale", tmp_path / "gone")):
        (folder / name / "home").mkdir(parents=True)
        (folder / name / "home" / "jars").symlink_to(installed)
        (folder / name / "classes.jsa").touch()
    (folder / "begun").mkdir()
    class_archive.remove_stale()
    assert sorted(path.name for path in folder.iterdir()) == ["begun", "kept"]


def test_session_without_java_has_no_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive.prepared() is None
    assert class_archive.option() == ""


@pytest.mark.slow
def test_second_session_takes_spark_from_the_archive(tmp_path):
    archive = prepare()
    assert archive == class_archive.place() / "classes.jsa"
    assert sorted(path.name for path in archive.parent.iterdir()) == ["classes.jsa", "home"]
    loaded = tmp_path / "loaded.txt"
    conf = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}
    with session(SparkConfig(conf=conf), tmp_path / "work") as spark:
        assert spark.range(3).count() == 3
    assert " org.apache.spark.SparkContext source: shared objects file (top)\n" in loaded.read_text()
