"""Warnings for names that Spark would silently ignore."""

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
def test_misspelt_settings_draw_a_warning(spark, given, meant):
    [said] = unknown_settings(spark, SparkConfig(conf={given: 7, **MADE_UP}))
    assert said.endswith(f"`{given}`: is `{meant}` meant?")


def test_settings_without_effect_on_a_running_session_draw_a_warning(spark):
    config = SparkConfig(conf={"spark.driver.memory": "64g", "spark.ui.enabled": False})
    [said] = ignored_settings(spark, config)
    assert "`spark.driver.memory`" in said
    assert "spark.ui.enabled" not in said


@pytest.mark.parametrize(
    ("given", "meant"), [("headr", "header"), ("maxFilePerTrigger", "maxFilesPerTrigger")]
)
def test_misspelt_options_draw_a_warning(given, meant):
    options = {given: True, "HEADER": True, "pathGlobFilter": "*", "maxFilesPerTrigger": 1, "zzz": 3}
    [said] = unknown_options(SparkSource(format="csv", options=options))
    assert said.endswith(f"`{given}`: is `{meant}` meant?")


def test_options_of_other_formats_draw_no_warning():
    assert list(unknown_options(SparkSource(format="kafka", options={"headr": "topic"}))) == []


def test_setting_that_does_not_reach_an_embedded_spark_is_refused():
    conf = {"hive.metastore.uris": "thrift://there"}
    with pytest.raises(PlanFileError, match=r"such as `spark\.hadoop\.hive\.metastore\.uris`"):
        check_settings(SparkConfig(conf=conf))
    check_settings(SparkConfig(conf=conf, remote="sc://server"))


@pytest.mark.parametrize("remote", ["localhost:15002", "http://server", ""])
def test_invalid_spark_connect_address_is_refused_before_anything_starts(remote):
    with pytest.raises(PlanFileError, match="begins with `sc://`"):
        check_settings(SparkConfig(remote=remote))
