"""Text files read by Spark as the sources `csv` and `jsonl` read them: their nulls, encoding and form of times.

>>> java_pattern("%d.%m.%Y %H:%M"), java_pattern("%Y%m%d at %I %p")
('d.M.yyyy H:m', "yyyyMMdd 'at' hh a")
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

from dgs.job.schema import SparkSource

TEXT = frozenset(["csv", "json"])
"""Formats that have an encoding."""

_MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")

_CHARSETS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "iso8859-1": "ISO-8859-1",
    "ascii": "US-ASCII",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}
_LETTERS = {
    "Y": "yyyy", "y": "yy", "m": "MM", "d": "dd", "H": "HH", "I": "hh", "M": "mm", "S": "ss", "f": "SSSSSS",
    "p": "a", "b": "MMM", "B": "MMMM", "j": "DDD", "z": "XX",
}  # fmt: skip


def problems_of(source: SparkSource) -> Iterator[str]:
    """Yield the parts of a source's nulls, encoding and form of times that Spark cannot handle."""
    if source.nulls is not None and source.format != "csv":
        yield "`nulls:` are those of files of format csv"
    charset = _CHARSETS.get(codecs.lookup(source.encoding).name)
    if source.encoding != "utf-8" and source.format not in TEXT:
        yield "`encoding:` is that of files of format csv or json"
    elif charset is None:
        yield f"Spark reads no {source.encoding}: convert the files, or use a `csv` or `jsonl` source"
    mode = next((value for name, value in source.options.items() if name.lower() == "mode"), _MODES[0])
    if source.format in TEXT and str(mode).upper() not in _MODES:  # Spark would take it for PERMISSIVE
        yield f"`mode: {mode}` is none of {', '.join(_MODES)}"
    try:
        java_pattern(source.ts.format or "%Y")
    except ValueError as error:
        yield str(error)


def options_of(source: SparkSource) -> dict[str, str]:
    """Return the options for a text file: a wrong record is an error, unless the plan file says another `mode`."""
    if source.format not in TEXT:
        return {}
    options = {"mode": "FAILFAST", "encoding": _CHARSETS[codecs.lookup(source.encoding).name]}
    if source.format == "json":
        ends = {} if options["encoding"] == "UTF-8" else {"lineSep": "\n"}
        return {**options, **ends, "allowNonNumericNumbers": "false"}
    return {**options, "multiLine": "true"} if options["encoding"].startswith("UTF-16") else options


def all_texts(source: SparkSource) -> SparkSource:
    """Return the source, with all columns as text if `nulls` must be applied before values get other types."""
    if source.nulls is None:
        return source
    return source.model_copy(update={"columns": dict.fromkeys(source.columns, "string")})


def with_nulls(rows: Any, source: SparkSource) -> Any:
    """Return the rows of CSV files, with null for the texts in `nulls`, and for no others in columns of text.

    Spark's own option `nullValue` keeps its meaning.
    """
    has_option = any(name.lower() == "nullvalue" for name in source.options)
    if source.format != "csv" or (has_option and source.nulls is None):
        return rows
    from pyspark.sql import functions as sql

    for name, kind in rows.dtypes:
        if kind != "string":
            continue
        column = sql.col(_quoted(name))
        if "" not in (source.nulls or ()):
            column = sql.coalesce(column, sql.lit(""))
        if source.nulls:
            column = sql.when(~column.isin(source.nulls), column)
        if source.nulls is not None and name in source.columns:
            column = column.cast(source.columns[name])
        rows = rows.withColumn(name, column)
    return rows


def with_times(rows: Any, source: SparkSource, *, is_strict: bool = True) -> Any:
    """Return the rows with the texts of their time column as timestamps, by the form that the plan file gives.

    `is_strict`: a text of another form is an error, else null.
    """
    if source.ts.format is None or dict(rows.dtypes).get(source.ts.column) != "string":
        return rows
    from pyspark.sql import functions as sql

    text, form = sql.col(_quoted(source.ts.column)), java_pattern(source.ts.format)
    times = sql.to_timestamp(text, form) if is_strict else sql.try_to_timestamp(text, sql.lit(form))
    return rows.withColumn(source.ts.column, times)


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def java_pattern(form: str) -> str:
    """Return Java's pattern for a form of `strptime`. Raises ValueError for a directive that has none."""
    is_dense = re.search(r"%\w%\w", form) is not None
    pattern = ""
    for directive, other in re.findall(r"%(.)|([^%]+)", form):
        if other:
            pattern += re.sub(r"[A-Za-z]+", lambda found: f"'{found[0]}'", other)
        elif directive in _LETTERS:
            letters = _LETTERS[directive]
            has_width = is_dense or directive in "YyfpbBz"
            pattern += letters if has_width else letters[:1]
        else:
            raise ValueError(
                f"Spark reads no %{directive} in `format: {form}`: select the time with SQL instead"
            )
    return pattern
