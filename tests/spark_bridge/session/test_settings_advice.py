"""Names that Spark would ignore in silence are told."""

import pytest

from dgs.errors import PlanFileError
from dgs.job.schema import SparkConfig, SparkSource
from dgs.spark_bridge.session.settings_advice import (
    check_settings,
    ignored_settings,
    unknown_options,
    unknown_settings,
)

MADE_UP = {
    "spark.sql.catalog.lake": "x",
    "spark.sql.extensions": "x",
    "spark.hadoop.fs.s3a.endpoint": "x",
    "spark.mongodb.read.connection.uri": "x",
    "spark.app.name": "x",
    "spark.driver.memory": "2g",
}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("spark.sql.shufle.partitions", "spark.sql.shuffle.partitions"),
        ("spark.driver.memroy", "spark.driver.memory"),
    ],
)
def test_settings_that_look_misspelt_are_told(spark, given, meant):
    [said] = unknown_settings(spark, SparkConfig(conf={given: 7, **MADE_UP}))
    assert said.endswith(f"`{given}`: is `{meant}` meant?")


def test_settings_that_come_too_late_are_told(spark):
    config = SparkConfig(conf={"spark.driver.memory": "64g", "spark.ui.enabled": False})
    [said] = ignored_settings(spark, config)
    assert "`spark.driver.memory`" in said
    assert "spark.ui.enabled" not in said


@pytest.mark.parametrize(
    ("given", "meant"), [("headr", "header"), ("maxFilePerTrigger", "maxFilesPerTrigger")]
)
def test_options_that_look_misspelt_are_told(given, meant):
    options = {given: True, "HEADER": True, "pathGlobFilter": "*", "maxFilesPerTrigger": 1, "zzz": 3}
    [said] = unknown_options(SparkSource(format="csv", options=options))
    assert said.endswith(f"`{given}`: is `{meant}` meant?")


def test_options_of_other_formats_are_theirs():
    assert list(unknown_options(SparkSource(format="kafka", options={"headr": "topic"}))) == []


def test_setting_that_an_embedded_spark_never_hears_of_is_refused():
    conf = {"hive.metastore.uris": "thrift://there"}
    with pytest.raises(PlanFileError, match=r"such as `spark\.hadoop\.hive\.metastore\.uris`"):
        check_settings(SparkConfig(conf=conf))
    check_settings(SparkConfig(conf=conf, remote="sc://server"))


@pytest.mark.parametrize("remote", ["localhost:15002", "http://server", ""])
def test_address_that_is_none_of_spark_connect_is_refused_before_anything_starts(remote):
    with pytest.raises(PlanFileError, match="begins with `sc://`"):
        check_settings(SparkConfig(remote=remote))
