"""How a section `source:` of plan.yaml becomes an open source."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Any

from dgs.config import ColumnRef, SortWithin, StreamConfig, TagConfig
from dgs.config_sources import GeneratorSource
from dgs.errors import MissingInputError, PlanFileError, UsageError
from dgs.order import OrderKey
from dgs.program import Program
from dgs.units import NANOSECONDS, TimeUnit
from workers.sources.contract import Source
from workers.sources.csv_reader import CsvReader
from workers.sources.disorder import ordering
from workers.sources.files import input_files
from workers.sources.generators import generated, load
from workers.sources.heartbeats import Heartbeats, Wall, delay_in
from workers.sources.items_reader import ItemsReader
from workers.sources.jsonl_reader import JsonlReader
from workers.sources.live import Live, LiveTime
from workers.sources.mapping import Mapping, each_arrival
from workers.sources.paced import Paced, rows_ahead
from workers.sources.parquet_reader import ParquetReader
from workers.sources.pipeline import PipelineSource
from workers.sources.rows import Arrivals, RawRows

ROWS_AT_ONCE = {"csv": 16_384, "jsonl": 16_384, "parquet": 65_536, "memory": 262_144, "generator": 262_144}
"""Rows read at a time by kind of source: few of text, which takes a while to parse and the first output should not wait
for; many of columns that are there already, to forget what a batch costs."""

_KEY_TYPES = {int: "int", float: "float", str: "str", bool: "bool"}


def open_source(
    config: StreamConfig,
    *,
    rank: int,
    unit: TimeUnit,
    base_dir: Path,
    program: Program,
    memory: AnyMapping[str, Any],
    batch_rows: int | None,
    until: OrderKey | None = None,
    streams: Collection[str] | None = None,
    time: LiveTime | None = None,
) -> Source:
    """Open the source of a declared stream.

    `rank`: the position of the stream in plan.yaml. `unit`: the plan's unit of time. `memory`: the data of `memory` sources
    by name. `until`: leave out events at or above this key and end there. `streams`: which implementation streams are
    wanted (others are read and left out); None for all. `batch_rows`: how many rows to read at a time; None for what suits
    the kind of source. `time`: the clocks of live sources; without them paces and heartbeats are left out, for readers who
    only want the events.

    Raises MissingInputError, PlanFileError, ProgramImportError at once; what is wrong with the rows shows in `read`.
    """
    policy = _policy(config, unit)
    batch_rows = batch_rows or ROWS_AT_ONCE[config.source.kind]
    pace = _pace(config)
    rows_at_once = batch_rows if time is None or pace is None else rows_ahead(pace, time.linger, batch_rows)
    _, arrivals = open_arrivals(
        config, unit=unit, base_dir=base_dir, program=program, memory=memory, batch_rows=rows_at_once
    )
    return PipelineSource(
        arrivals if time is None else _live(arrivals, config, unit, time, batch_rows),
        ordering(policy, stream=config.id, rank=rank),
        stream=config.id,
        impl_streams=config.impl_streams,
        batch_rows=batch_rows,
        until=until,
        wanted=streams,
    )


def _pace(config: StreamConfig) -> float | None:
    details = config.source.details
    return details.pace if isinstance(details, GeneratorSource) else None


def _live(
    arrivals: Iterator[Arrivals],
    config: StreamConfig,
    unit: TimeUnit,
    time: LiveTime,
    batch_rows: int,
) -> Iterator[Arrivals]:
    """Return the arrivals of a stream as they come by the clock, with heartbeats: if it is live, else as they are."""
    if (pace := _pace(config)) is not None:
        arrivals = Paced(arrivals, rate=pace, time=time, batch_rows=batch_rows)
    if config.heartbeat is None or not isinstance(arrivals, Live):
        return arrivals
    return Heartbeats(
        arrivals,
        every=config.heartbeat.every,
        max_delay=delay_in(unit, config.heartbeat.max_delay),
        clock=time.elapsed,
        reached=arrivals.reached if isinstance(arrivals, Paced) else Wall(unit, clock=time.now),
    )


def open_arrivals(
    config: StreamConfig,
    *,
    unit: TimeUnit,
    base_dir: Path,
    program: Program,
    memory: AnyMapping[str, Any],
    batch_rows: int,
) -> tuple[Mapping, Generator[Arrivals]]:
    """Return the events of a stream as they arrive, before any ordering, and the mapping that makes them."""
    mapping = Mapping(config, program, plan_unit=unit)
    rows = _reader(config, mapping, program, base_dir=base_dir, memory=memory, batch_rows=batch_rows)
    return mapping, each_arrival(mapping, rows, batch_rows)


def _policy(config: StreamConfig, unit: TimeUnit) -> Any:
    """Return the policy, durations in the plan's unit (timestamps are integers, so rounding down is exact)."""
    if not isinstance(config.on_disorder, SortWithin):
        return config.on_disorder
    if unit == "none":
        problem = "`sort_within` compares a duration with timestamps: say `time: {unit: ...}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    return config.on_disorder.sort_within // NANOSECONDS[unit]


def _reader(
    config: StreamConfig,
    mapping: Mapping,
    program: Program,
    *,
    base_dir: Path,
    memory: AnyMapping[str, Any],
    batch_rows: int,
) -> Iterator[RawRows | Arrivals]:
    details: Any = config.source.details
    kind = config.source.kind
    if kind == "memory":
        items = _items(memory, details, config.id)
        return ItemsReader(mapping, items, where=f"memory {details!r}", batch_rows=batch_rows).rows()
    if kind == "generator":
        function = load(details.ref, base_dir=base_dir)
        items = generated(function, details.args, ref=details.ref, stream=config.id, program=program.name)
        return ItemsReader(mapping, items, where=details.ref, batch_rows=batch_rows).rows()
    paths = input_files(details.path, base_dir=base_dir, stream=config.id)
    if kind == "csv":
        return CsvReader(details, mapping, paths, key_types(config, program)).rows()
    if kind == "jsonl":
        return JsonlReader(details, mapping, paths, batch_rows).rows()
    return ParquetReader(mapping, paths, batch_rows).rows()


def _items(memory: AnyMapping[str, Any], name: str, stream: str) -> Iterable[Any]:
    if name not in memory:
        have = ", ".join(map(repr, memory)) or "nothing"
        raise MissingInputError(stream=stream, path=f"memory {name!r} (given: {have})")
    data = memory[name]
    if isinstance(data, Iterator):
        message = f"memory {name!r} of stream {stream!r} can be read only once: give a list, or use a generator source"
        raise UsageError(message=message)
    return data if isinstance(data, (list, tuple)) else [data]


def key_types(config: StreamConfig, program: Program) -> dict[str, str]:
    """Return the types of key columns that follow from the domains of their kinds: text stays text, though it be digits."""
    tags = config.tags
    if (
        not isinstance(tags, TagConfig)
        or not isinstance(tags.key, ColumnRef)
        or isinstance(tags.kind, ColumnRef)
    ):
        return {}
    domain = program.kind(tags.kind).domain
    kinds = {domain} if isinstance(domain, type) else {type(key) for key in domain or ()}
    known = {_KEY_TYPES.get(kind) for kind in kinds}
    only = known.pop() if len(known) == 1 else None
    return {tags.key.column: only} if only else {}
