"""Failures of Spark queries as errors of dgs: problem and stream, with file and row as far as Spark knows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dgs.errors import DgsError, MalformedRowError, SparkQueryError, UsageError
from dgs.spark_bridge.data_source.log_options import quoted
from dgs.spark_bridge.ingest.queries import FILES, Query, resolved, told
from dgs.spark_bridge.ingest.text_files import TEXT
from dgs.spark_bridge.session.java_errors import LOST, is_of_lost_java, sentence, text_of
from dgs.spark_bridge.session.settings_advice import absent

LONGEST = 60
"""The most characters of a record in an error."""

_ADVICE = {
    "TIMESTAMP(NANOS": (
        ". Spark reads no times with nanoseconds: write them with microseconds (in pandas `to_parquet(..., coerce_timestamps='us')`), or read "
        "them as integers with `spark: {conf: {spark.sql.legacy.parquet.nanosAsLong: true}}` and `ts: {column: ..., unit: ns}`"
    ),
    "COLUMN_ALREADY_EXISTS": (
        ". Spark takes upper for lower case: let it tell them apart with `spark: {conf: {spark.sql.caseSensitive: true}}`, and give them "
        "names under `select:` that differ in more"
    ),
    "is not a valid Spark SQL Data Source": ". If it is a source of streams only, say `trigger: 5s`",
    "No FileSystem for scheme": ". Its package belongs under `spark: {conf: {spark.jars.packages: ...}}`",
    "S3AFileSystem not found": ". Put `org.apache.hadoop:hadoop-aws:VERSION` under `spark: {conf: {spark.jars.packages: ...}}`",
    "TIME(MILLIS": ". Spark reads no times of day in milliseconds: write them with microseconds",
    "UNSUPPORTED_TIME_TYPE": ". Spark reads times of day with `spark: {conf: {spark.sql.timeType.enabled: true}}`",
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH": (
        ". The files have several types of this column: name one that holds all values under `columns:`, and another `log:` if rows are in it"
    ),
}
"""Advice by a part of Spark's message, if the message itself has none."""

_WRONG = "__wrong_record"
_WRONG_INPUT = re.compile(
    r"FAILED_READ_FILE\.(NO_HINT|CANNOT_READ_FILE_FOOTER)|MALFORMED_(CSV_)?RECORD|CAST_INVALID_INPUT|CANNOT_PARSE_TIMESTAMP"
)
"""The classes of Spark's errors on files and cells that cannot be read."""


def explained(
    error: BaseException, stream: str, query: Query, *, spark: Any = None, base_dir: Path | None = None
) -> DgsError:
    """Return the error of dgs for the error that ended the query of a stream."""
    if isinstance(error, MalformedRowError) and "column" in error.facts:
        return _located(error, stream, query, spark, base_dir)
    if isinstance(error, UsageError):
        return SparkQueryError(stream=stream, problem=str(error).removeprefix('format("dgs"): '))
    if isinstance(error, DgsError):
        return error
    if is_of_lost_java(error):
        return SparkQueryError(stream=stream, problem=LOST)
    text = text_of(error)
    said = absent(text) or sentence(text)
    if _WRONG_INPUT.search(said):
        record = _wrong_record(query, spark, base_dir)
        return MalformedRowError(stream=stream, row="?", problem=record or said)
    return SparkQueryError(stream=stream, problem=f"{said}{_advice(said, query, base_dir)}")


def _wrong_record(query: Query, spark: Any, base_dir: Path | None) -> str | None:
    """Return a description of the first record of text files that does not fit the columns, if Spark can still find it."""
    source = query.source
    is_typed = bool(source.columns) and source.nulls is None  # else a null would be taken for a wrong cell
    if spark is None or base_dir is None or source.format not in TEXT or not is_typed:
        return None
    try:
        kept = source.model_copy(update={"columns": {**source.columns, _WRONG: "string"}})
        reader = told(spark.read, kept).option("mode", "PERMISSIVE")
        rows = reader.option("columnNameOfCorruptRecord", _WRONG).load(resolved(str(source.path), base_dir))
        with_file = rows.selectExpr("*", "_metadata.file_name AS __file")
        found = with_file.where(f"{_WRONG} IS NOT NULL").take(1)
    except Exception:  # noqa: BLE001 - the error is known; only its place is missing
        return None
    if not found:
        return None
    record = str(found[0][_WRONG])
    short = record if len(record) <= LONGEST else f"{record[:LONGEST]}..."
    return f"the record {short!r} in {unquote(found[0]['__file'])} does not fit the `columns:`, or is damaged"


def _advice(said: str, query: Query, base_dir: Path | None) -> str:
    """Return advice on an error of Spark that gives none, as the end of its sentence."""
    if "UNABLE_TO_INFER_SCHEMA" in said:
        path = query.source.path
        place = path if path is None or "://" in path or base_dir is None else base_dir / path
        return f": put a file into {place or 'the directory'} that has the columns, or name them under `columns:`"
    return next((advice for part, advice in _ADVICE.items() if part in said), "")


def _located(
    error: MalformedRowError, stream: str, query: Query, spark: Any, base_dir: Path | None
) -> DgsError:
    """Return the error with the file and the row, if Spark can still find them."""
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
        wrong = selected.where(f"{quoted(column)} IS NULL")
        needing = query.required.get(column)
        if source.key is not None and needing is not None and column not in (source.key, source.ts.column):
            wrong = wrong.where(wrong[quoted(source.key)].cast("string").isin(needing))
        found = wrong.select("__file", "__row").take(1)
    except Exception:  # noqa: BLE001 - the error is known; only its place is missing
        return None
    return (str(found[0][0]), found[0][1]) if found else None
