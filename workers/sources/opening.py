"""How a section `source:` of plan.yaml becomes an open source."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Any

from dgs import columns
from dgs.config import ColumnRef, SortWithin, StreamConfig, TagConfig
from dgs.config_sources import GeneratorSource, SocketSource
from dgs.errors import MissingInputError, PlanFileError, UsageError
from dgs.order import OrderKey
from dgs.program import Program
from dgs.scalar import is_vectorised
from dgs.units import NANOSECONDS, TimeUnit
from workers.event_log.reader import LogReader
from workers.sources.contract import Source
from workers.sources.csv_reader import CsvReader
from workers.sources.description import FilesRead
from workers.sources.disorder import ordering
from workers.sources.files import input_files
from workers.sources.generators import generated, load
from workers.sources.heartbeats import Heartbeats, Wall, delay_in
from workers.sources.items_reader import ItemsReader
from workers.sources.jsonl_reader import JsonlReader
from workers.sources.live import Live, LiveTime
from workers.sources.log_reader import LogArrivals
from workers.sources.mapping import Mapping, each_arrival
from workers.sources.origin import Origin
from workers.sources.paced import Paced, rows_ahead
from workers.sources.parquet_reader import ParquetReader
from workers.sources.pipeline import PipelineSource
from workers.sources.rows import Arrivals
from workers.sources.socket_source import SocketArrivals

ROWS_AT_ONCE = {
    "csv": 16_384,
    "jsonl": 16_384,
    "parquet": 65_536,
    "memory": 262_144,
    "generator": 262_144,
    "log": 262_144,
    "socket": 262_144,
    "spark": 262_144,
}
"""Rows read at a time by kind of source: few of text, which takes a while to parse and the first output should not wait
for; many of columns that are there already, to forget what a batch costs."""

LOGGED = ("log", "socket", "spark")
"""Kinds of sources that are read from an event log."""

VECTORISED_ROWS = 1_048_576
"""Rows read at a time from memory for programs with an `update_batch`."""

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
    log_dir: Path | None = None,
) -> Source:
    """Open the source of a declared stream.

    `rank`: the position of the stream in plan.yaml. `unit`: the plan's unit of time. `memory`: the data of `memory` sources
    by name. `until`: leave out events at or above this key and end there. `streams`: which implementation streams are
    wanted (others are read and left out); None for all. `batch_rows`: how many rows to read at a time; None for what suits
    the kind of source. `time`: the clocks of live sources; without them paces and heartbeats are left out, and a log ends
    where it is now, for readers who only want the events. `log_dir`: where sockets and Spark queries without a `log` of their own have theirs.

    Raises MissingInputError, PlanFileError, ProgramImportError, ResourceError at once; what is wrong with the rows shows in
    `read`.
    """
    policy = _policy(config, unit)
    batch_rows = batch_rows or rows_at_once_of(config, program)
    pace = _pace(config)
    rows_at_once = batch_rows if time is None or pace is None else rows_ahead(pace, time.linger, batch_rows)
    mapping = Mapping(config, program, plan_unit=unit)
    arrivals: Iterator[Arrivals]
    if config.source.kind in LOGGED:
        is_first = streams is None or config.impl_streams[0] in streams
        arrivals, origin = _logged(
            config,
            mapping,
            rows_at_once,
            base_dir=base_dir,
            log_dir=log_dir,
            follow=time is not None,
            listen=time is not None and is_first,
        )
    else:
        arrivals, origin = _read(
            config, mapping, program, base_dir=base_dir, memory=memory, batch_rows=rows_at_once
        )
    return PipelineSource(
        arrivals if time is None else _live(arrivals, config, unit, time, batch_rows),
        ordering(policy, stream=config.id, rank=rank),
        stream=config.id,
        impl_streams=config.impl_streams,
        batch_rows=batch_rows,
        until=until,
        wanted=streams,
        origin=origin,
    )


def rows_at_once_of(config: StreamConfig, program: Program) -> int:
    """Return how many rows to read at a time where the plan does not say.

    Columns in memory are views: for a program that takes events many at a time, a larger batch costs no memory. Event by
    event it would take a second until its first output.
    """
    many = config.source.kind == "memory" and is_vectorised(program)
    return VECTORISED_ROWS if many else ROWS_AT_ONCE[config.source.kind]


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
    """Return the events of a stream as they arrive, before any ordering, and the mapping that makes them.

    Of live streams those that are there: what their logs hold now.
    """
    mapping = Mapping(config, program, plan_unit=unit)
    if config.source.kind in LOGGED:
        logged, _ = _logged(config, mapping, batch_rows, base_dir=base_dir, log_dir=None, follow=False)
        return mapping, (arrivals for arrivals in logged)
    arrivals, _ = _read(config, mapping, program, base_dir=base_dir, memory=memory, batch_rows=batch_rows)
    return mapping, arrivals


def _policy(config: StreamConfig, unit: TimeUnit) -> Any:
    """Return the policy, durations in the plan's unit (timestamps are integers, so rounding down is exact)."""
    if not isinstance(config.on_disorder, SortWithin):
        return config.on_disorder
    if unit == "none":
        problem = "`sort_within` compares a duration with timestamps: say `time: {unit: ...}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    return config.on_disorder.sort_within // NANOSECONDS[unit]


def _read(
    config: StreamConfig,
    mapping: Mapping,
    program: Program,
    *,
    base_dir: Path,
    memory: AnyMapping[str, Any],
    batch_rows: int,
) -> tuple[Generator[Arrivals], Origin]:
    """Return the events of a source that is there, and where they come from."""
    details: Any = config.source.details
    kind = config.source.kind
    in_order = config.on_disorder == "error"
    if kind == "memory":
        items = _items(memory, details, config.id)
        reader = ItemsReader(mapping, items, where=f"memory {details!r}", batch_rows=batch_rows)
        origin = Origin(
            lambda: {"kind": kind, "length": _length(items)}, reader.skip_to if in_order else None
        )
        return each_arrival(mapping, reader.rows(), batch_rows), origin
    if kind == "generator":
        function = load(details.ref, base_dir=base_dir)
        made = generated(function, details.args, ref=details.ref, stream=config.id, program=program.name)
        rows = ItemsReader(mapping, made, where=details.ref, batch_rows=batch_rows).rows()
        origin = Origin(lambda: {"kind": kind, "ref": details.ref, "args": dict(details.args)})
        return each_arrival(mapping, rows, batch_rows), origin
    found = input_files(details.path, base_dir=base_dir, stream=config.id)
    files = FilesRead(found, kind=kind, base_dir=base_dir)
    if kind == "csv":
        lines = CsvReader(details, mapping, files, key_types(config, program)).rows()
        return each_arrival(mapping, lines, batch_rows), Origin(files.describe)
    if kind == "jsonl":
        lines = JsonlReader(details, mapping, files, batch_rows).rows()
        return each_arrival(mapping, lines, batch_rows), Origin(files.describe)
    tables = ParquetReader(mapping, files, batch_rows)
    origin = Origin(files.describe, tables.skip_to if in_order else None)
    return each_arrival(mapping, tables.rows(), batch_rows), origin


def _logged(
    config: StreamConfig,
    mapping: Mapping,
    batch_rows: int,
    *,
    base_dir: Path,
    log_dir: Path | None,
    follow: bool,
    listen: bool = False,
) -> tuple[LogArrivals | SocketArrivals, Origin]:
    """Return the events of an event log, and of the port that writes it if this is who listens."""
    details: Any = config.source.details
    path = log_path(config, base_dir=base_dir, log_dir=log_dir)
    if config.source.kind == "log" and not path.is_dir():
        raise MissingInputError(stream=config.id, path=path)
    reading = LogArrivals(
        LogReader(path, config.id),
        mapping,
        batch_rows=batch_rows,
        follow=follow,
        restores_floor=config.on_disorder == "drop",
    )
    skip_to = reading.skip_to if config.on_disorder == "error" else reading.allow_deleted
    if not listen or not isinstance(details, SocketSource):
        return reading, Origin(reading.describe, skip_to)
    is_lenient = config.on_disorder == "drop"
    port = SocketArrivals(details, path, reading, mapping, drops_malformed=is_lenient)
    return port, Origin(port.describe, skip_to, lambda: port.refused)


def log_path(config: StreamConfig, *, base_dir: Path, log_dir: Path | None = None) -> Path:
    """Return the directory of the event log of a `log`, `socket` or `spark` source."""
    details: Any = config.source.details
    if config.source.kind == "log":
        return base_dir / str(details.path)
    return base_dir / details.log if details.log is not None else log_dir or base_dir / ".dgs" / "logs"


def _length(items: Sequence[Any]) -> int:
    """Return how many single events there are, or how many rows the tables have."""
    if not items or isinstance(items[0], tuple):
        return len(items)
    return sum(columns.length(item) if isinstance(item, dict) else len(item) for item in items)


def _items(memory: AnyMapping[str, Any], name: str, stream: str) -> Sequence[Any]:
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
