"""The streams of a plan file with `program: {query: ...}`: each is a table of the query, and answers come at ticks or at the events of a stream.

The kind of a stream's events is its id, unless `tags:` says so itself. The program is made of plain data, including the text of the query,
so that every process compiles the same query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dgs.errors import PlanFileError
from dgs.errors.nearest import did_you_mean
from dgs.job.queries.query_programs import REF, QueryData, query_program
from dgs.job.queries.schema_query import AnswerConfig, QueryConfig
from dgs.job.schema import PlanFile, ProgramConfig, SourceConfig, StreamConfig, TagConfig
from dgs.job.schema_sources import GeneratorSource, LiteralValue, TicksSource

ANSWER = "answer"
"""The stream of ticks at which a query is answered, and the kind of events that ask for an answer."""

READ_TWICE = ("csv", "jsonl", "parquet", "generator")
"""Sources whose rows are the same when they are read again."""

Columns = Callable[[StreamConfig], Mapping[str, Any]]
"""The types of the columns of a stream, as data."""


def with_query(config: PlanFile, base_dir: Path, columns: Columns, *, times: str) -> PlanFile:
    """Return a plan file whose program is compiled from its query, with the tags of its streams and the stream of answers.

    `columns`: tells the columns of a stream before it is read. `times`: the generator of the times of answers by count. Raises
    PlanFileError, QueryError, and what reading first rows raises.
    """
    query = config.program.query
    if query is None:
        return config
    asking = query.answer.stream if isinstance(query.answer, AnswerConfig) and query.answer.stream else ANSWER
    _check_asking(config, query, asking)
    tables = [stream for stream in config.streams if stream.id != asking]
    data = _program_data(query, base_dir, asking, tables, columns)
    _check_tables(tables, QueryData(**data))
    _check_times(tables, query_program(**data).at)
    streams = [_tagged(stream) for stream in config.streams]
    if not any(stream.id == asking for stream in config.streams):
        streams.append(_answers(query, streams, {"base_dir": str(base_dir), "unit": config.time.unit}, times))
    return config.model_copy(update={"program": ProgramConfig(ref=REF, args=data), "streams": streams})


def _check_asking(config: PlanFile, query: QueryConfig, asking: str) -> None:
    """Refuse a missing stream of answers, and a table with the name of the answers."""
    names = [stream.id for stream in config.streams]
    is_named = isinstance(query.answer, AnswerConfig) and query.answer.stream is not None
    if is_named and asking not in names:
        hint = did_you_mean(asking, names) or f"; there are {', '.join(names)}"
        raise PlanFileError(where="program.query.answer", problem=f"no stream {asking!r}{hint}")
    if not is_named and asking in names:
        problem = f"the stream {ANSWER!r} has the name of the answers: write `answer: {{stream: {ANSWER}}}`, or name it otherwise"
        raise PlanFileError(where="streams", problem=problem)


def _check_times(tables: list[StreamConfig], windows: Mapping[str, str]) -> None:
    """Refuse windows by a column other than that of the times: they would end before their rows come, or never."""
    for one in tables:
        source = getattr(one.source, one.source.kind, None)
        column = getattr(getattr(source, "ts", None), "column", None)
        at = windows.get(one.id)
        if at is not None and column is not None and at != column:
            problem = f"its windows are by the column {at!r}, and the times of its rows by {column!r}: write `ts: {at}`"
            raise PlanFileError(where=f"stream {one.id!r}", problem=problem)


def _check_tables(tables: list[StreamConfig], query: QueryData) -> None:
    """Refuse streams that the query does not read, and deletions from a missing stream. Raises QueryError of the query."""
    names = [one.id for one in tables]
    for one in tables:
        if one.deletes is not None and (one.deletes == one.id or one.deletes not in names):
            hint = did_you_mean(one.deletes, names) or f"; there are {', '.join(names)}"
            raise PlanFileError(
                where=f"stream {one.id!r}", problem=f"`deletes:` no other stream {one.deletes!r}{hint}"
            )
    read = [name for name, source in query.script().sources().items() if source.rows is None]
    for one in tables:
        if one.deletes is None and one.id not in read:
            problem = f"the query does not read it; it reads {', '.join(read) or 'no stream'}"
            raise PlanFileError(where=f"stream {one.id!r}", problem=problem)


def _program_data(
    query: QueryConfig, base_dir: Path, asking: str, tables: list[StreamConfig], columns: Columns
) -> dict[str, Any]:
    """Return the arguments from which any process makes the program."""
    weights = {one.id: one.weight.model_dump() for one in tables if one.weight is not None}
    known = {one.id: dict(columns(one)) for one in tables}
    for name, weight in weights.items():
        if weight["column"] not in known[name]:
            hint = did_you_mean(weight["column"], known[name]) or f"; there are {', '.join(known[name])}"
            problem = f"`weight:` names no column {weight['column']!r}{hint}"
            raise PlanFileError(where=f"stream {name!r}", problem=problem)
    return {
        "text": query.text if query.file is None else _text(base_dir / query.file),
        "name": query.file,
        "lang": query.lang,
        "params": dict(query.params),
        "columns": known,
        "asking": asking,
        "weights": weights,
        "deletes": {one.id: one.deletes for one in tables if one.deletes is not None},
        "output": query.output,
        "on_negative": query.on_negative,
        "require": query.require,
        "exact": query.exact,
        "rules": tuple(query.rules),
        "base_dir": str(base_dir),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PlanFileError(where="program.query.file", problem=f"cannot read {path}: {problem}") from None


def _tagged(stream: StreamConfig) -> StreamConfig:
    """Return a stream whose events have its id as their kind, and all columns as their payload."""
    payload = [stream.payload] if isinstance(stream.payload, str) else stream.payload
    tags = stream.tags or TagConfig(kind=LiteralValue(value=stream.id))
    return stream.model_copy(update={"tags": tags, "payload": payload})


def _answers(
    query: QueryConfig, tables: list[StreamConfig], read_with: dict[str, Any], times: str
) -> StreamConfig:
    """Return the stream of the answers of a query. At equal times answers come last. Raises PlanFileError for a count of live rows."""
    answer = query.answer if isinstance(query.answer, AnswerConfig) else AnswerConfig.model_construct()
    if answer.rows is None:
        ticks = TicksSource() if answer.every is None else TicksSource(every=answer.every)
        return StreamConfig(id=ANSWER, tags=[ANSWER], source=SourceConfig(ticks=ticks))
    for one in tables:
        if one.source.kind not in READ_TWICE:
            problem = f"`rows:` counts the rows before the run, and those of {one.id!r} come with it: write `every:` or `stream:`"
            raise PlanFileError(where="program.query.answer", problem=problem)
    args = {
        "streams": [_at_once(one.model_dump(exclude_none=True)) for one in tables],
        "rows": answer.rows,
        **read_with,
    }
    source = SourceConfig(generator=GeneratorSource(ref=times, args=args))
    return StreamConfig(id=ANSWER, tags=TagConfig(kind=LiteralValue(value=ANSWER)), payload=[], source=source)


def _at_once(stream: dict[str, Any]) -> dict[str, Any]:
    """Return the section of a stream whose rows come as fast as they are read."""
    stream["source"].get("generator", {}).pop("pace", None)
    return stream
