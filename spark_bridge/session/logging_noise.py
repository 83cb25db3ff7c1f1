"""Log filters that stop PySpark and Py4J from repeating on stderr, with stack traces, the errors they raise.

>>> silence_loggers(is_silent=True)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
False
>>> silence_loggers(is_silent=False)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
True
"""

from __future__ import annotations

import logging
from pathlib import PurePath

ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver")
"""Loggers of PySpark for errors of queries and of functions that it calls, which it raises too."""


def silence_loggers(*, is_silent: bool) -> None:
    """Keep PySpark and Py4J from writing errors to stderr if `is_silent`, because dgs reports them; else allow it again."""
    from pyspark.logger import PySparkLogger

    for name in ERROR_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL if is_silent else logging.WARNING)
    root = logging.getLogger()  # Py4J logs here that Java is gone
    if is_silent:
        root.addFilter(is_of_others)
    else:
        root.removeFilter(is_of_others)


def is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a record is not one of Py4J.

    >>> [is_of_others(logging.makeLogRecord({"pathname": f"/{name}/java_gateway.py"})) for name in ("py4j", "mine")]
    [False, True]
    """
    return "py4j" not in PurePath(record.pathname).parts
