"""Names that Spark would ignore in silence are told."""

import pytest

from dgs.errors import PlanFileError
from dgs.job.schema import SparkConfig, SparkSource
from dgs.spark_bridge.session.settings_advice import (
    check_settings,
    ignored_settings,
    tell,
    unknown_options,
    unknown_settings,
)

MADE_UP = {
    "spark.sql.catalog.lake": "x",
    "spark.hadoop.fs.s3a.endpoint": "x",
    "spark.mongodb.read.connection.uri": "x",
    "spark.app.name": "x",
    "spark.driver.memory": "2g",
}


def test_settings_that_look_misspelt_are_told(spark):
    config = SparkConfig(conf={"spark.sql.shufle.partitions": 7, **MADE_UP})
    [said] = unknown_settings(spark, config)
    assert "`spark.sql.shufle.partitions`" in said
    assert said.endswith("is `spark.sql.shuffle.partitions` meant?")


def test_settings_that_come_too_late_are_told(spark):
    config = SparkConfig(conf={"spark.driver.memory": "64g", "spark.ui.enabled": False})
    [said] = ignored_settings(spark, config)
    assert "`spark.driver.memory`" in said
    assert "spark.ui.enabled" not in said


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("heading", ": is `header` meant?"),
        ("maxFilePerTrigger", ": is `maxFilesPerTrigger` meant?"),
        ("zzz", "do not have"),
    ],
)
def test_options_that_files_do_not_have_are_told(spark, given, meant):
    options = {
        given: True,
        "HEADER": True,
        "pathGlobFilter": "*",
        "maxFilesPerTrigger": 1,
        "fs.s3a.retry.limit": 3,
    }
    [said] = unknown_options(spark, SparkSource(format="csv", options=options))
    assert f"`{given}`" in said
    assert said.endswith(meant)


def test_options_of_other_formats_are_theirs(spark):
    assert list(unknown_options(spark, SparkSource(format="kafka", options={"subscribe": "topic"}))) == []


def test_setting_that_an_embedded_spark_never_hears_of_is_refused():
    conf = {"hive.metastore.uris": "thrift://there"}
    with pytest.raises(PlanFileError, match=r"such as `spark\.hadoop\.hive\.metastore\.uris`"):
        check_settings(SparkConfig(conf=conf))
    check_settings(SparkConfig(conf=conf, remote="sc://server"))


@pytest.mark.parametrize("remote", ["localhost:15002", "http://server", ""])
def test_address_that_is_none_of_spark_connect_is_refused_before_anything_starts(remote):
    with pytest.raises(PlanFileError, match="begins with `sc://`"):
        check_settings(SparkConfig(remote=remote))


def test_spark_that_does_not_say_what_it_knows_is_no_error():
    said = []
    tell(said.append, unknown_options(object(), SparkSource(format="csv", options={"heading": True})))
    assert said == []
