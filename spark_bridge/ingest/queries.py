"""The Spark queries that plan.yaml describes: the streams of each, its settings, and its DataFrame.

>>> one = {"spark": {"format": "parquet", "path": "in/*.parquet", "query": "q", "key": "stream"}}
>>> streams = [StreamConfig(id=i, tags={"kind": "n"}, source=one) for i in ("a", "b")]
>>> [(query.name, query.stream_ids) for query in queries_of(streams, unit="ms")]
[('q', ('a', 'b'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from dgs.errors import PlanFileError, UsageError
from dgs.job.schema import ColumnRef, SortWithin, SparkSource, StreamConfig, TagConfig
from dgs.job.units import TimeUnit
from dgs.spark_bridge.data_source.log_options import listed, quoted
from dgs.spark_bridge.ingest import text_files
from dgs.spark_bridge.ingest.casts import argument, either, tolerant
from dgs.spark_bridge.session.settings_advice import text

FILE, ROW, VALUE = "dead_letter_file", "dead_letter_row", "dead_letter_value"
"""Columns of dead letters: the file and the row in it, if Spark knows them, and the value whose cast fails."""

HIDDEN = "__dgs_"
"""The prefix of our own columns."""

FAILED = f"{HIDDEN}cast_"
"""Columns that say whether a cast failed."""

FILES = frozenset(["parquet", "orc", "csv", "json", "text", "avro"])
"""File formats: Spark needs the columns of their streams in advance, and a batch read finds them."""

BYTES_AT_ONCE = 256 << 20
"""The most bytes of files in a micro-batch, unless the options of the source bound its files or bytes."""

_BOUNDS = frozenset(["maxfilespertrigger", "maxbytespertrigger"])

STREAMS = frozenset(["kafka", "delta", "iceberg", "rate", "rate-micro-batch"])
"""Formats that are read as streams even if only the existing data is wanted."""


@dataclass(frozen=True)
class Query:
    """One query of Spark and the streams that its rows go to. `unit`: of integers in its time column. `skips`: `on_error: skip`."""

    name: str
    source: SparkSource
    streams: tuple[StreamConfig, ...]
    unit: TimeUnit
    skips: bool = False

    @property
    def stream_ids(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(stream.id for stream in self.streams)

    @property
    def is_bounded(self) -> bool:
        """Whether it reads the existing data and ends."""
        return self.source.trigger == "available_now"

    @property
    def is_stream(self) -> bool:
        """Whether Spark reads it as a stream and remembers its position."""
        return not self.is_bounded or self.source.format in FILES | STREAMS

    @property
    def required(self) -> dict[str, list[str]]:
        """The columns that tags are made of, each with the streams in which it must not be null."""
        found: dict[str, list[str]] = {}
        for stream in self.streams:
            tag = stream.tags
            parts = (tag.kind, tag.key) if isinstance(tag, TagConfig) else ()
            for column in dict.fromkeys(part.column for part in parts if isinstance(part, ColumnRef)):
                found.setdefault(column, []).append(stream.id)
        return found

    @property
    def malformed(self) -> Literal["stop", "drop", "dead_letter"]:
        """The policy for rows that cannot be events."""
        return self.source.on_malformed or ("dead_letter" if self.skips else "stop")

    @property
    def late(self) -> dict[str, Literal["stop", "drop", "dead_letter"]]:
        """The streams whose late rows do not enter the log, and the policy for these rows."""
        policies = {stream.id: stream.on_disorder for stream in self.streams}
        found = {id_: policy.late for id_, policy in policies.items() if isinstance(policy, SortWithin)}
        return {id_: late for id_, late in found.items() if late != "stop"}

    @property
    def selected(self) -> tuple[list[str], dict[str, str]]:
        """The expressions that make the rows, and for the text of each CAST in them that may fail the condition under which it fails."""
        if self.malformed == "stop":
            return self.source.select, {}
        tried = [tolerant(expression) for expression in self.source.select]
        failures = reduce(either, (conditions for _, conditions in tried), dict[str, str]())
        return [expression for expression, _ in tried], failures

    @property
    def max_delay(self) -> int:
        """The most that rows of later micro-batches may be late, in nanoseconds; by default the range that `sort_within` reorders."""
        policies = [stream.on_disorder for stream in self.streams]
        sorted_within = [policy.sort_within for policy in policies if isinstance(policy, SortWithin)]
        return self.source.max_delay or max(sorted_within, default=0)

    @property
    def description(self) -> dict[str, Any]:
        """The settings that decide the rows and their order: a log takes rows of one description only."""
        said = self.source.model_dump(
            mode="json", exclude={"trigger", "max_delay", "log", "query", "on_malformed"}
        )
        new = {"nulls": None, "encoding": "utf-8"}  # older logs do not have these
        said = {part: value for part, value in said.items() if part not in new or value != new[part]}
        said["ts"] = {
            part: value for part, value in said["ts"].items() if part != "format" or value is not None
        }
        return {"streams": list(self.stream_ids), **said}

    def options(self, log: Path) -> dict[str, str]:
        """Return the options of `format("dgs")`."""
        source = self.source
        where = {"stream": self.streams[0].id} if source.key is None else {"key": source.key}
        given = {
            **where,
            "log": str(log),
            "streams": ",".join(self.stream_ids),
            "ts": source.ts.column,
            "order_by": listed(source.order_by),
            "max_delay": f"{self.max_delay}ns" if self.max_delay else "0",
            "unit": source.ts.unit or self.unit,
            "required": listed(self.required),
            "query": f"batch-{self.name}",
        }
        return {name: value for name, value in given.items() if value}


def queries_of(streams: Sequence[StreamConfig], *, unit: TimeUnit, skips: bool = False) -> list[Query]:
    """Return the queries of the streams of a plan file, checked. `skips`: `on_error: skip`. Raises PlanFileError."""
    found: dict[str, list[StreamConfig]] = {}
    for stream in streams:
        if stream.source.kind == "spark":
            found.setdefault(_source(stream).query or stream.id, []).append(stream)
    return [replace(_query(name, members, unit), skips=skips) for name, members in found.items()]


def frame(spark: Any, query: Query, *, base_dir: Path) -> Any:
    """Return the rows of a query as a DataFrame, streaming if the query is a stream. Raises errors of Spark."""
    return shaped(whole(spark, query, base_dir=base_dir), query)


def whole(spark: Any, query: Query, *, base_dir: Path) -> Any:
    """Return all rows that a query reads, before `where` and `select`. Raises errors of Spark."""
    source = query.source
    rows = spark.sql(source.sql) if source.sql is not None else _loaded(spark, query, base_dir)
    return text_files.with_nulls(rows, source)


def shaped(rows: Any, query: Query, *, knows_files: bool = True) -> Any:
    """Return the rows that `where` and `select` of a query make. `knows_files`: Spark can still say which file a row is from."""
    source = query.source
    if source.where is not None:
        rows = rows.where(source.where)
    if "_metadata" in map(str.lower, rows.columns):  # a column of the files hides Spark's own
        knows_files = False
    select, failures = query.selected
    hidden = [f"{condition} AS {FAILED}{i}" for i, condition in enumerate(failures.values())]
    if query.malformed == "dead_letter" and failures:
        values = (
            f"WHEN {fails} THEN TRY_CAST({argument(cast)} AS STRING)" for cast, fails in failures.items()
        )
        hidden += [f"CASE {' '.join(values)} END AS {VALUE}"]
    if "dead_letter" in (query.malformed, *query.late.values()) and source.format in FILES and knows_files:
        hidden += [f"_metadata.file_path AS {FILE}"]
        hidden += [f"_metadata.row_index AS {ROW}"] if source.format == "parquet" else []
    rows = rows.selectExpr(*(select or ["*"]), *hidden) if select or hidden else rows
    _check_names(rows.columns[: len(rows.columns) - len(hidden)])
    return text_files.with_times(rows, source, is_strict=query.malformed == "stop")


def is_of_rows(column: str) -> bool:
    """Return whether a column belongs to the rows, and is not one of ours."""
    return not column.lower().startswith(HIDDEN) and column.lower() not in (FILE, ROW, VALUE)


def _check_names(columns: Sequence[str]) -> None:
    """Raise UsageError if a column of the rows has the name of one of ours, and would be left out of the log."""
    for name in columns:
        if not is_of_rows(name):
            advice = (
                f"name the columns under `select:`, and this one as {quoted(name)} AS ..., if it is needed"
            )
            raise UsageError(message=f"the name of column {name!r} is one that dgs gives itself: {advice}")


def told(reader: Any, source: SparkSource) -> Any:
    """Return Spark's reader with the source's format, options and columns."""
    given = {name: text(value) for name, value in source.options.items()}
    reader = reader.format(source.format).options(**{**text_files.options_of(source), **given})
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in source.columns.items())
    return reader.schema(columns) if columns else reader


def bounds_of(source: SparkSource) -> dict[str, str]:
    """Return the option that bounds the micro-batches of files, if the source's own options do not."""
    if source.format not in FILES or any(name.lower() in _BOUNDS for name in source.options):
        return {}
    return {"maxBytesPerTrigger": str(BYTES_AT_ONCE)}


def _loaded(spark: Any, query: Query, base_dir: Path) -> Any:
    source = text_files.all_texts(query.source)
    path = [] if source.path is None else [resolved(source.path, base_dir)]
    if not query.is_stream:
        return told(spark.read, source).load(*path)
    reader = told(spark.readStream, source).options(**bounds_of(source))
    if source.format not in FILES or not path:
        return reader.load(*path)
    if not source.columns:
        reader = reader.schema(told(spark.read, source).load(*path).schema)
    return reader.load(_as_glob(path[0]))


def prepared(rows: Any, *, key: str | None = None, streams: int | Sequence[str] = 0) -> Any:
    """Return the DataFrame with the rows of each stream in one task, if its `key` column names several streams.

    `streams`: their names, then each has a task of its own; or their number, 0 if unknown, then some tasks may get several. Without a
    `key` no row moves: the tasks sort their own rows, and the commit merges them.
    Raises UsageError.
    """
    if key is None:
        return rows
    column = quoted(key)  # unquoted, a dot would select a field of a record
    if isinstance(streams, str) or (isinstance(streams, int) and streams < 0):
        raise UsageError(message=f"prepared: `streams` is a list of names, or their number, not {streams!r}")
    if isinstance(streams, int) or not streams:
        return rows.repartition(streams, column) if streams else rows.repartition(column)
    from pyspark.sql import functions as sql

    number = sql.coalesce(
        sql.array_position(sql.lit(list(streams)), sql.col(column).cast("string")), sql.lit(1)
    )
    return rows.repartitionById(len(streams), (number - 1).cast("int"))


def resolved(path: str, base_dir: Path) -> str:
    """Return a path for Spark: a relative path starts at the plan file's directory; the path of an existing file is no pattern."""
    if "://" in path:
        return path
    whole = base_dir / path
    if whole.exists():
        return escaped(str(whole))
    return path if Path(path).is_absolute() else f"{escaped(str(base_dir))}/{path}"


def escaped(path: str) -> str:
    r"""Return a pattern that matches only this path.

    >>> print(escaped("/data/[old]"))
    /data/\[old\]
    """
    return re.sub(r"([][{}*?,\\])", r"\\\1", path)


def literal(path: Path) -> str:
    """Return the URI of a file or directory for Spark's readers, which take a path for a pattern, without URI escapes."""
    return f"file://{escaped(str(path))}"


def _as_glob(path: str) -> str:
    """Return a pattern for a single file: Spark's file streams would take its plain path for a directory."""
    file = Path(re.sub(r"\\(.)", r"\1", path))
    return f"{escaped(str(file.parent))}/{{{escaped(file.name)}}}" if file.is_file() else path


def _source(stream: StreamConfig) -> SparkSource:
    details = stream.source.details
    if not isinstance(details, SparkSource):
        raise PlanFileError(where=f"stream {stream.id!r}", problem="it has no Spark source")
    return details


def _query(name: str, streams: Sequence[StreamConfig], unit: TimeUnit) -> Query:
    """Return the query that these streams share: the first one describes it, the others repeat its settings or omit them."""
    first, source = streams[0], _source(streams[0])
    for problem in _contradictions(source, unit):
        raise PlanFileError(where=f"stream {first.id!r}", problem=problem)
    if len(streams) > 1 and source.key is None:
        raise PlanFileError(
            where=f"stream {first.id!r}", problem=f"several streams share the query {name!r}: say `key:`"
        )
    for stream in streams[1:]:
        other = _source(stream)
        # The plan file of a resumed run states the defaults, so a default counts as omitted.
        said = {
            part
            for part, field in SparkSource.model_fields.items()
            if getattr(other, part) != field.get_default()
        }
        differing = [
            part for part in sorted(said - {"query"}) if getattr(other, part) != getattr(source, part)
        ]
        if differing:
            problem = (
                f"`{differing[0]}:` differs from that of stream {first.id!r}, which shares the query {name!r}"
            )
            raise PlanFileError(where=f"stream {stream.id!r}", problem=problem)
        if other.ts != source.ts:
            problem = f"say the `ts:` of stream {first.id!r}, which shares the query {name!r}"
            raise PlanFileError(where=f"stream {stream.id!r}", problem=problem)
        if other.log != source.log:
            raise PlanFileError(
                where=f"stream {stream.id!r}", problem=f"say the `log:` of stream {first.id!r}"
            )
    query = Query(name, source, tuple(streams), unit)
    for stream in streams if query.late else ():
        if isinstance(stream.on_disorder, SortWithin) and source.max_delay > stream.on_disorder.sort_within:
            problem = "`max_delay` is more than `sort_within`, beyond which `late:` leaves rows out"
            raise PlanFileError(where=f"stream {stream.id!r}", problem=problem)
    return query


def _contradictions(source: SparkSource, unit: TimeUnit) -> Iterator[str]:
    yield from text_files.problems_of(source)
    if (source.format is None) == (source.sql is None):
        yield "a Spark source needs either `format:` or `sql:`"
    if source.sql is not None and (source.path is not None or source.options):
        yield "`path:` and `options:` belong to `format:`, not to `sql:`"
    if source.format in FILES and source.path is None and "path" not in source.options:
        yield f"say the `path:` of the files of format {source.format}"
    if source.columns and source.format not in FILES:
        yield f"`columns:` are those of files ({', '.join(sorted(FILES))})"
    if source.sql is not None and source.trigger != "available_now":
        yield "a query in `sql:` is read once (`trigger: available_now`); a live query needs a `format:`"
    if source.max_delay and unit == "none" and source.ts.unit is None:
        yield "`max_delay` compares a duration with timestamps: say `time: {unit: ...}`"
