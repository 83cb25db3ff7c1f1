"""PySpark's writers, adapted so that `format("dgs")` works in every thread and with its own mode.

Spark looks a Python data source up in the active session of the calling thread. A thread that has not made the session has none, though
the DataFrame that it writes has one. And Spark refuses a write without a mode before it asks the data source.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dgs.errors import UsageError

REFUSED = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
"""Spark's condition for a mode that a data source does not have."""

ADAPTED = "is_adapted_by_dgs"


def activate(spark: Any) -> None:
    """Make a session the active one of the calling thread."""
    if (java := getattr(spark, "_jsparkSession", None)) is not None:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java)  # noqa: SLF001 - PySpark does so inside


def adapt_writers() -> None:
    """Let the writers of DataFrames activate the session of their DataFrame. Those of Spark Connect need no active session."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer, name in ((DataFrameWriter, "save"), (DataStreamWriter, "start")):
        method = getattr(writer, name)
        if not hasattr(method, ADAPTED):
            setattr(writer, name, _activating(method))


def _activating(method: Callable[..., Any]) -> Callable[..., Any]:
    from pyspark.errors import AnalysisException

    @wraps(method)
    def adapted(writer: Any, *args: Any, **options: Any) -> Any:
        activate(writer._spark)  # noqa: SLF001 - it has no public name
        try:
            return method(writer, *args, **options)
        except AnalysisException as error:
            if error.getCondition() == REFUSED and '"dgs"' in str(error):
                message = 'format("dgs"): an event log keeps the rows it has: give .mode("append")'
                raise UsageError(message=message) from None
            raise

    setattr(adapted, ADAPTED, True)
    return adapted
