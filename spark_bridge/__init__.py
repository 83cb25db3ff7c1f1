"""The bridge to Spark: source streams from Spark, checkpoints in Spark tables, outputs as a Spark data source."""

from spark_bridge.queries import prepared
from spark_bridge.session import register

__all__ = ["prepared", "register"]
