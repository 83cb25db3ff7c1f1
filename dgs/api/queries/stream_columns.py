"""What a query needs to know of its streams before they are read: their columns, and the times of answers by count.

The columns are those of the first rows. For answers by count a source reads the streams once more and counts their rows. A count over all streams has no meaning on one host, so the times are found before the rows of the run come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.errors import PlanFileError
from dgs.job.queries.query_streams import with_query
from dgs.job.schema import StreamConfig, TagConfig
from dgs.job.schema_sources import LiteralValue
from dgs.job.settings import Settings
from dgs.job.units import TimeUnit
from dgs.model import columns
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.query.fronts import needed
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.opening import open_arrivals

BLOCK_ROWS = 4096


def times(
    *, streams: Sequence[Mapping[str, Any]], rows: int, base_dir: str, unit: TimeUnit
) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """Yield the times of every so many rows of all streams, in the order of their times, and the time of the last row.

    `streams`: their sections of the plan file. Raises what reading them raises.
    """
    read = [_times_of(StreamConfig.model_validate(dict(one)), Path(base_dir), unit) for one in streams]
    ts = np.sort(np.concatenate(read))
    if len(ts):
        yield {"ts": np.unique(np.append(ts[rows - 1 :: rows], ts[-1]))}


def _times_of(config: StreamConfig, base_dir: Path, unit: TimeUnit) -> npt.NDArray[np.int64]:
    context = SourceContext(RowsOf(config.id), unit=unit, base_dir=base_dir)
    with closing(open_arrivals(config, context, BLOCK_ROWS).arrivals) as arrivals:
        return np.concatenate([np.empty(0, dtype=np.int64), *(part.ts for part in arrivals)])


class RowsOf(Program):
    """Stands for the program of a query while rows of a stream are read that no program sees."""

    def __init__(self, name: str) -> None:
        vars(self).update(kinds=(kind(name),))


TIMES = "dgs.api.queries.stream_columns:times"
"""The generator of the times of answers by count."""

UNSEEN = ("socket", "spark", "custom", "ticks")
"""Sources that are not opened before the run."""


def bound_to_query(settings: Settings, base_dir: Path, memory: Mapping[str, Any]) -> Settings:
    """Return settings with the program and the streams of their query. Raises QueryError, PlanFileError."""
    bound = with_query(
        settings.config, base_dir, lambda stream: stream_columns(stream, base_dir, memory), times=TIMES
    )
    return replace(settings, bound=bound)


def stream_columns(config: StreamConfig, base_dir: Path, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of the columns of a stream as data.

    Raises PlanFileError for a stream without `columns:` whose rows are not there before the run, or are no records, QueryError Q703 for
    values that queries do not have, and what reading the source raises.
    """
    needed("sqlglot", "a query")
    from dgs.query.compact.arrow_rows import data_of, schema_of
    from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME

    if config.columns is not None:
        types = {"int": INT, "float": FLOAT, "str": TEXT, "bool": BOOL, "datetime": TIME}
        return {name: data_of(types[of]) for name, of in config.columns.items()}
    if config.source.kind in UNSEEN:
        problem = f"a {config.source.kind} source does not say its columns before the run: write `columns: {{NAME: TYPE, ...}}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    payload = _first_payload(config, base_dir, memory)
    if not isinstance(payload, dict):
        problem = "its rows are no records: a query reads columns; name them in `payload: [...]`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    table = pa.table({name: pa.array(column) for name, column in payload.items()})
    return {name: data_of(of) for name, of in schema_of(table.schema).fields}


def _first_payload(config: StreamConfig, base_dir: Path, memory: Mapping[str, Any]) -> Any:
    """Return the payloads of the first rows, as columns if they are records."""
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
        raise PlanFileError(
            where=f"stream {config.id!r}",
            problem="it has no rows, which would say its columns: write `columns: {NAME: TYPE, ...}`",
        )
    payload = first.payload
    return columns.as_column(payload) if isinstance(payload, list) else payload
