"""The archive of Spark's classes: its path, when it is valid, and that Java loads classes from it."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from zipfile import ZipFile

import pytest

from dgs.job.schema import SparkConfig
from dgs.spark_bridge.ingest.training import prepare
from dgs.spark_bridge.session import class_archive
from dgs.spark_bridge.session.embedded import home_of_links
from dgs.spark_bridge.session.session import session


@pytest.fixture(autouse=True)
def a_cache(tmp_path, monkeypatch):
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
    (folder / "with jars of its own" / "home" / "jars").mkdir(parents=True)
    (folder / "with jars of its own" / "home" / "bin").symlink_to(tmp_path / "gone")
    (folder / "begun").mkdir()
    class_archive.remove_stale()
    assert sorted(path.name for path in folder.iterdir()) == ["begun", "kept"]


def test_home_has_all_jars_and_copies_of_some_without_their_services(tmp_path):
    installed, work, place = tmp_path / "installed", tmp_path / "work", class_archive.place()
    installed.mkdir()
    service = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
    for jar in ("spark-mllib_2.13-4.3.0.jar", "spark-mllib-local_2.13-4.3.0.jar"):
        with ZipFile(installed / jar, "w") as file:
            for name in (service, "org/apache/spark/ml/Model.class"):
                file.writestr(name, name)
    place.mkdir(parents=True)
    home_of_links("local[*]", work)
    assert (place / "home" / "jars").is_symlink()
    class_archive.make_jars(place / "home", installed)
    home_of_links("local[*]", work)
    jars = {path.name: path for path in (place / "home" / "jars").iterdir()}
    assert sorted(jars) == sorted(path.name for path in installed.iterdir())
    assert jars["spark-mllib-local_2.13-4.3.0.jar"].samefile(installed / "spark-mllib-local_2.13-4.3.0.jar")
    with ZipFile(jars["spark-mllib_2.13-4.3.0.jar"]) as copy:
        assert copy.namelist() == ["org/apache/spark/ml/Model.class"]
        assert copy.read("org/apache/spark/ml/Model.class") == b"org/apache/spark/ml/Model.class"


def test_session_without_java_has_no_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive.prepared() is None
    assert class_archive.option() == ""


def count_and_sum(conf, work):
    """Use Spark in a session of this process."""
    with session(SparkConfig(conf=conf), work) as spark:
        return spark.range(3).count(), spark.range(3).selectExpr("sum(id + 1) as n").first().n


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["cache", "a cache"])
def test_second_session_takes_spark_from_the_archive(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    # this process may have a session
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    archive = pool.submit(prepare).result()
    assert archive == class_archive.place() / "classes.jsa"
    assert sorted(path.name for path in archive.parent.iterdir()) == ["classes.jsa", "home"]
    loaded = tmp_path / "loaded.txt"
    conf = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}
    assert pool.submit(count_and_sum, conf, tmp_path / "work").result() == (3, 6)
    pool.shutdown()
    found = loaded.read_text()
    assert " org.apache.spark.SparkContext source: shared objects file (top)\n" in found
    compiler = " org.codehaus.janino.SimpleCompiler source: "
    # Java's limit
    assert f"{compiler}shared objects file (top)\n" in found or (" " in cache and compiler in found)
    assert " scala.reflect.runtime.package$ " not in found
