"""Helpers of the tests of tables."""

from contextlib import nullcontext

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings of a Spark that compiles little: tests end before the better compiler would pay."""


def entered(spark):
    """Enter a running session."""
    return nullcontext(spark)
