"""Errors of Java and Spark as one sentence each, and the test for a lost JVM.

>>> text = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [CAST_INVALID_INPUT] The value 'x' is no number. Correct it"
>>> sentence(text)
"[CAST_INVALID_INPUT] The value 'x' is no number. Correct it"

Log filters stop PySpark and Py4J from repeating on stderr, with stack traces, the errors they raise.

>>> silence_loggers(is_silent=True)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
False
>>> silence_loggers(is_silent=False)
>>> logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
True
"""

from __future__ import annotations

import logging
import re
from pathlib import PurePath

_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
_NO_ANSWER = re.compile(r"Py4JNetworkError: .*|Py4JError: An error occurred while calling \S+\s*", re.DOTALL)
"""Errors without a message from Java: it did not answer."""

LOST = (
    "its Java process is gone: it was killed, or had too little memory (`spark: {conf: {spark.driver.memory: ...}}`); its log "
    "is spark/spark.log in the directory of the run, which can be resumed"
)
_WRAPPINGS = (
    "TASK_WRITE_FAILED",
    "Job aborted",
    "Writing job aborted",
    "FAILED_EXECUTE",
    "PYTHON_DATA_SOURCE_ERROR",
)
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_CLASS = re.compile(r"^(?:[a-z]\w*\.)+(\w+: )")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)\b.*|(?:\w+\.)+[A-Z]\w*: .*)$", re.MULTILINE)
_BY_WORKER = "An exception was thrown from the Python worker"
_ROOT = re.compile(r"^\s*(?:Caused by|pyspark\.\S+|dgs\.errors\.\w+): (.*)$", re.MULTILINE)


def is_of_lost_java(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that the JVM has gone."""
    while error is not None:
        if isinstance(error, ConnectionError) or _NO_ANSWER.fullmatch(f"{type(error).__name__}: {error}"):
            return True
        error = error.__cause__ or error.__context__
    return False


def text_of(error: BaseException) -> str:
    """Return the message of an error, and below it those of the causes that Spark keeps for it; its type if there is none."""
    found = [str(error)]
    while (cause := getattr(error, "_cause", None)) is not None:
        error = cause
        found.append(str(error))
    return "\n".join(filter(None, found)) or type(error).__name__


def sentence(text: str) -> str:
    """Return the message of Spark without stack traces, plans and query ids."""
    lines = [line.strip() for line in _WRAPPING.sub("", text.strip()).splitlines()]
    first = next((line for line in lines if line), "")
    if first.startswith("An error occurred while calling") and len(lines) > 1:
        first = lines[1].removeprefix(":").strip()
    causes = [line for line in _ROOT.findall(text) if line]
    if causes and any(wrapping in first for wrapping in _WRAPPINGS):
        first = causes[-1]
    elif (first.endswith(_TRACEBACK) or _BY_WORKER in first) and (raised := _RAISED.findall(text)):
        first = f"{first.removesuffix(_TRACEBACK).rstrip()} {raised[-1]}"
    said = _STATE.sub("", first).rstrip(" .")
    bare = _CLASS.sub("", said)
    return bare if " " in bare else _CLASS.sub(r"\1", said)  # a bare host name says nothing


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or of the cause that Spark keeps for it; its type if the message is empty."""
    while (cause := getattr(error, "_cause", None)) is not None:
        error = cause
    return next((line for line in str(error).strip().splitlines() if line.strip()), type(error).__name__)


ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver")
"""Loggers of PySpark for errors of queries and functions, which it also raises."""


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
