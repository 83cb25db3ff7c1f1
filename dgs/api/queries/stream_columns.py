"""The columns of the streams of a query, from their first rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dgs.api.queries.answer_times import BLOCK_ROWS, RowsOf
from dgs.errors import MissingInputError, PlanFileError, UnknownColumnError
from dgs.job.queries.query_streams import with_query
from dgs.job.schema import StreamConfig, TagConfig
from dgs.job.schema_sources import LiteralValue
from dgs.job.settings import Settings
from dgs.model import columns
from dgs.query.errors import QueryError
from dgs.query.fronts import needed
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.opening import open_arrivals
from dgs.workers.sources.shaping.mapping import unknown_column

TIMES = "dgs.api.queries.answer_times:times"
"""The generator of the times of answers by count. Checkpoints have this name, so it must not change."""

UNSEEN = ("socket", "spark", "custom", "ticks")
"""Sources that are not opened before the run."""


def bound_to_query(settings: Settings, base_dir: Path, memory: Mapping[str, Any]) -> Settings:
    """Return settings with the program and the streams of their query. Raises QueryError, PlanFileError."""

    def read(stream: StreamConfig) -> dict[str, Any]:
        return stream_columns(stream, base_dir, memory)

    try:
        bound = with_query(settings.config, base_dir, read, times=TIMES)
    except UnknownColumnError as error:
        at = settings.named_at(error.stream, error.column)
        raise UnknownColumnError(**{**error.facts, "at": f"{at}: "}) from None
    except QueryError as error:
        if (name := error.facts.get("parameter")) is None:
            raise
        where = settings.origin(("program", "query", "params", name))
        said = error.facts["problem"]
        problem = f"{said}{'' if said.endswith('?') else '.'} {error.facts['remedy'].rstrip('.')}"
        raise PlanFileError(where=where, problem=problem) from None
    return replace(settings, bound=bound)


def stream_columns(config: StreamConfig, base_dir: Path, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of the columns of a stream as data.

    Raises PlanFileError for a stream without `columns:` whose rows come only during the run or are not records, QueryError Q703 for values
    that queries do not have, and what reading the source raises.
    """
    needed("sqlglot", "a query")
    from dgs.query.compact.arrow_rows import data_of, schema_of
    from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME

    if config.columns is not None:
        _check_declared(config, base_dir, memory)
        types = {"int": INT, "float": FLOAT, "str": TEXT, "bool": BOOL, "datetime": TIME}
        return {name: data_of(types[of]) for name, of in config.columns.items()}
    if config.source.kind in UNSEEN:
        problem = f"a {config.source.kind} source does not say its columns before the run: write `columns: {{NAME: TYPE, ...}}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    payload = _first_payload(config, base_dir, memory)
    if payload is None:
        problem = "it has no rows, which would say its columns: write `columns: {NAME: TYPE, ...}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    if not isinstance(payload, dict):
        problem = "its rows are no records: a query reads columns; name them in `payload: [...]`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    table = pa.table({name: pa.array(column) for name, column in payload.items()})
    return {name: data_of(of) for name, of in schema_of(table.schema).fields}


def _check_declared(config: StreamConfig, base_dir: Path, memory: Mapping[str, Any]) -> None:
    """Refuse a column of `columns:` that no row has, since it would be null in each. Rows of JSON may have it or not.

    Raises UnknownColumnError, and what reading the source raises. A missing file is found later.
    """
    names: Any = config.payload
    where = "`payload:`"
    if not names and config.source.kind in ("csv", "parquet"):
        where = str(config.source.details.path)
        with suppress(MissingInputError):
            names = _first_payload(config, base_dir, memory)
    if not names:
        return
    named = [names] if isinstance(names, str) else list(names)
    if wrong := next((name for name in config.columns or () if name not in named), None):
        raise unknown_column(config.id, wrong, named, where)


def _first_payload(config: StreamConfig, base_dir: Path, memory: Mapping[str, Any]) -> Any:
    """Return the payloads of the first rows, as columns if they are records; None without rows."""
    program = RowsOf(config.id)
    tags = config.tags or TagConfig(kind=LiteralValue(value=config.id))
    seen = config.model_copy(
        update={
            "tags": tags,
            "payload": [config.payload] if isinstance(config.payload, str) else config.payload,
        }
    )
    context = SourceContext(program, base_dir=base_dir, memory=memory)
    with closing(open_arrivals(seen, context, BLOCK_ROWS).arrivals) as arrivals:
        first = next((part for part in arrivals if len(part) and not part.is_unreadable), None)
    if first is None:
        return None
    payload = first.payload
    return columns.as_column(payload) if isinstance(payload, list) else payload
