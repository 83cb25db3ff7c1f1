"""What went wrong in a Spark query, in words of dgs: what, in which stream, and in which file and row as far as Spark knows.

>>> text = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [CAST_INVALID_INPUT] The value 'x' is no number. Correct it"
>>> sentence(text)
"[CAST_INVALID_INPUT] The value 'x' is no number. Correct it"
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dgs.errors import DgsError, MalformedRowError, SparkQueryError, UsageError
from dgs.spark_bridge.ingest.queries import FILES, Query, quoted, resolved, told
from dgs.spark_bridge.session.connectors import absent

_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
_NO_ANSWER = re.compile(r"Py4JNetworkError: .*|Py4JError: An error occurred while calling \S+\s*", re.DOTALL)
"""Where Java has answered, it has said more than this."""

LOST = (
    "its Java process is gone: it was killed, or had too little memory (`spark: {conf: {spark.driver.memory: ...}}`); what it said "
    "is in spark/spark.log in the directory of the run, which can go on"
)
_WRAPPINGS = ("Job aborted", "Writing job aborted", "FAILED_EXECUTE", "PYTHON_DATA_SOURCE_ERROR")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_CLASS = re.compile(r"^(?:[a-z]\w*\.)+(\w+: )")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)\b.*|(?:\w+\.)+[A-Z]\w*: .*)$", re.MULTILINE)
_BY_WORKER = "An exception was thrown from the Python worker"
_ROOT = re.compile(r"^\s*(?:Caused by|pyspark\.\S+|dgs\.errors\.\w+): (.*)$", re.MULTILINE)


def explained(
    error: BaseException, stream: str, query: Query, *, spark: Any = None, base_dir: Path | None = None
) -> DgsError:
    """Return the error of dgs for what ended the query of a stream."""
    if isinstance(error, MalformedRowError) and "column" in error.facts:
        return _located(error, stream, query, spark, base_dir)
    if isinstance(error, UsageError):
        return SparkQueryError(stream=stream, problem=str(error).removeprefix('format("dgs"): '))
    if isinstance(error, DgsError):
        return error
    if is_of_lost_java(error):
        return SparkQueryError(stream=stream, problem=LOST)
    text = str(error) or type(error).__name__
    said = absent(text) or sentence(text)
    return SparkQueryError(stream=stream, problem=f"{said}{_advice(said, query, base_dir)}")


def is_of_lost_java(error: BaseException | None) -> bool:
    """Whether an error, or what has led to it, is that nobody is at the other end any more."""
    while error is not None:
        if isinstance(error, ConnectionError) or _NO_ANSWER.fullmatch(f"{type(error).__name__}: {error}"):
            return True
        error = error.__cause__ or error.__context__
    return False


def sentence(text: str) -> str:
    """Return what Spark says, without what is around it: stack traces, plans, the ids of the query."""
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
    return bare if " " in bare else _CLASS.sub(r"\1", said)  # the name of a host says nothing by itself


def _advice(said: str, query: Query, base_dir: Path | None) -> str:
    """Return what to do about an error of Spark that does not say so itself, as the end of its sentence."""
    if "UNABLE_TO_INFER_SCHEMA" in said:
        path = query.source.path
        place = path if path is None or "://" in path or base_dir is None else base_dir / path
        return f": there must be a file in {place or 'the directory'} that tells the columns; or say them under `columns:`"
    return ""


def _located(
    error: MalformedRowError, stream: str, query: Query, spark: Any, base_dir: Path | None
) -> DgsError:
    """Return the error with the file and the row, if Spark can still say which they are."""
    column = str(error.facts["column"])
    place = _place(column, query, spark, base_dir)
    if place is None:
        return MalformedRowError(
            stream=stream, row=error.row, problem=f"{error.problem} (numbered within its task)"
        )
    file, row = place
    problem = f"column {column!r} is null in {unquote(file)}"
    return MalformedRowError(stream=stream, row="?" if row is None else row, problem=problem)


def _place(column: str, query: Query, spark: Any, base_dir: Path | None) -> tuple[str, int | None] | None:
    source = query.source
    if spark is None or base_dir is None or source.format not in FILES or source.path is None:
        return None
    try:
        rows = told(spark.read, source).load(resolved(source.path, base_dir))
        if source.where is not None:
            rows = rows.where(source.where)
        number = "_metadata.row_index" if source.format == "parquet" else "CAST(NULL AS BIGINT)"
        selected = rows.selectExpr(
            *(source.select or ["*"]), "_metadata.file_path AS __file", f"{number} AS __row"
        )
        found = selected.where(f"{quoted(column)} IS NULL").select("__file", "__row").take(1)
    except Exception:  # noqa: BLE001 - this only tells where; that it is wrong is known
        return None
    return (str(found[0][0]), found[0][1]) if found else None
