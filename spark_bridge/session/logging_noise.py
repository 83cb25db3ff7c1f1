"""Errors of Spark are told once, by whoever has them: PySpark and Py4J write them to stderr too, with all their stack traces.

>>> tell_errors_once(is_told=True)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
False
>>> tell_errors_once(is_told=False)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
True
"""

from __future__ import annotations

import logging
from pathlib import PurePath

ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Where PySpark logs the errors of queries, which it raises too."""


def tell_errors_once(*, is_told: bool) -> None:
    """Keep PySpark and Py4J from writing errors to stderr, if they are told elsewhere; or let them again."""
    from pyspark.logger import PySparkLogger

    for name in ERROR_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL if is_told else logging.WARNING)
    root = logging.getLogger()  # where Py4J logs that Java is gone
    if is_told:
        root.addFilter(is_of_others)
    else:
        root.removeFilter(is_of_others)


def is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a record is not one of Py4J.

    >>> [is_of_others(logging.makeLogRecord({"pathname": f"/{name}/java_gateway.py"})) for name in ("py4j", "mine")]
    [False, True]
    """
    return "py4j" not in PurePath(record.pathname).parts
