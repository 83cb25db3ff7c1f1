"""Helpers of the tests of tables."""

from contextlib import nullcontext

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings of a Spark that compiles little: tests are over before the better compiler has paid for itself."""


def entered(spark):
    """Return a running session as a context."""
    return nullcontext(spark)
