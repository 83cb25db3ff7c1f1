"""Opening the source of a section `source:` of plan.yaml: its reader, pace, heartbeats, ordering and dealing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from dgs.errors import PlanFileError
from dgs.job.schema import GeneratorSource, SortWithin, StreamConfig
from dgs.job.stream_tags import some_tag
from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.workers.sources.contract import EventSource, SourceContext
from dgs.workers.sources.custom_source import connected
from dgs.workers.sources.description import Origin
from dgs.workers.sources.fronted import Front, FrontedSource, of_row
from dgs.workers.sources.live.decisions import Decisions, Followed, Replayed
from dgs.workers.sources.live.heartbeats import Heartbeats, Wall, delay_in
from dgs.workers.sources.live.log import LogArrivals
from dgs.workers.sources.live.logged import LOGGED, heartbeats_path, logged
from dgs.workers.sources.live.paced import Paced, rows_ahead
from dgs.workers.sources.pipeline import PipelineSource, within
from dgs.workers.sources.readers.choosing import FILES, raw_rows, read
from dgs.workers.sources.readers.custom_rows import CustomReader
from dgs.workers.sources.row_groups import up_to
from dgs.workers.sources.rows import Arrivals, Live, LiveTime, Place, RawRows
from dgs.workers.sources.shaping.disorder import ordering
from dgs.workers.sources.shaping.mapping import Mapping
from dgs.workers.sources.ticks import open_ticks, sample
from dgs.workers.storage.record_file import RecordReader

LOOKED_UP = 5_000_000
"""The number of rows of a stream whose places an error message looks up, by reading the files again."""

ROWS_AT_ONCE = {
    "csv": 16_384,
    "jsonl": 16_384,
    "parquet": 65_536,
    "memory": 262_144,
    "generator": 262_144,
    "log": 262_144,
    "socket": 262_144,
    "spark": 262_144,
    "custom": 262_144,
}
"""Rows to read at a time, by kind of source. Text takes a while to parse, and the first output should not wait for that, so these
are few. They are many for columns in memory, so that the cost of a batch does not count."""

VECTORISED_ROWS = 1_048_576
"""Rows to read at a time from memory for programs with an `update_batch`."""


ROW = "row"
"""The kind of a row whose events a front makes."""


class Opened(NamedTuple):
    """The events of a stream as they arrive. `share`: the share of the input (0 to 1) in the first n rows, or None if unknown."""

    mapping: Mapping
    arrivals: Generator[Arrivals]
    share: Callable[[int], float | None]


class _Rows(Program):
    """Takes the place of the program while rows have no tags yet."""

    kinds = (kind(ROW),)


def open_source(
    config: StreamConfig,
    context: SourceContext,
    *,
    rank: int,
    batch_rows: int | None,
    until: OrderKey | None = None,
    streams: Collection[str] | None = None,
    time: LiveTime | None = None,
    rows: range | None = None,
) -> EventSource:
    """Open the source of a declared stream.

    `rank`: the position of the stream in plan.yaml. `until`: leave out events at or above this key, and end there. `streams`:
    the wanted implementation streams (others are read and left out), None for all. `batch_rows`: the number of rows to read at
    a time, None for the default of the kind of source. `time`: the clocks of live sources. Without them, for callers that only want the
    events, there are no paces and heartbeats, a log ends at its current end, and there is only the last tick. `rows`: whole row groups of a
    stream that has them (see `row_groups`); None for all rows.

    Raises MissingInputError, PlanFileError, ProgramImportError, ResourceError, UsageError at once. `read` raises errors in the
    rows.
    """
    if config.source.kind == "ticks":
        return open_ticks(config, context, rank=rank, follows=time is not None)
    drops_late = isinstance(config.on_disorder, SortWithin) and config.on_disorder.late != "stop"
    order = ordering(_policy(config, context.unit), stream=config.id, rank=rank, drops_late=drops_late)
    batch_rows = batch_rows or rows_at_once_of(config, context.program)
    front = front_of(config, context)
    arrivals, origin = _opened(config, context, time, batch_rows, streams)
    if rows is not None and origin.skip_to is not None:
        origin.skip_to(rows.start)
        arrivals = up_to(arrivals, rows.stop)
    source = PipelineSource(
        arrivals,
        order,
        stream=config.id,
        impl_streams=(config.id,) if front else config.impl_streams,
        batch_rows=batch_rows,
        until=None if front else until,
        wanted=None if front else streams,
        origin=origin,
    )
    if front is None:
        return source
    return FrontedSource(source, front, impl_streams=config.impl_streams, wanted=streams, until=until)


def _opened(
    config: StreamConfig,
    context: SourceContext,
    time: LiveTime | None,
    batch_rows: int,
    streams: Collection[str] | None,
) -> tuple[Iterator[Arrivals], Origin]:
    ahead = batch_rows if time is None else _rows_ahead(config, time, batch_rows)
    listen = time is not None and (streams is None or config.impl_streams[0] in streams)
    _, arrivals, origin = _arrivals(config, context, ahead, follow=time is not None, listen=listen)
    return _live(arrivals, origin, config, context, time, batch_rows=batch_rows, streams=streams)


def front_of(config: StreamConfig, context: SourceContext) -> Front | None:
    """Return the front of a stream, None if its rows are its events."""
    program = context.program
    if program.front is None:
        return None
    unread = some_tag(config, program)
    return Front(config.id, program.front, program=program.name, unread=unread, skips=context.skips)


def rows_at_once_of(config: StreamConfig, program: Program) -> int:
    """Return how many rows to read at a time if the plan does not say.

    Columns in memory are views, so a larger batch costs no memory to a program with `update_batch`. A program that folds event by event
    would need a second until its first output.
    """
    many = config.source.kind == "memory" and program.is_vectorised
    return VECTORISED_ROWS if many else ROWS_AT_ONCE[config.source.kind]


def _pace(config: StreamConfig) -> float | None:
    details = config.source.details
    return details.pace if isinstance(details, GeneratorSource) else None


def _rows_ahead(config: StreamConfig, time: LiveTime, batch_rows: int) -> int:
    """Return how many rows to take from the reader at once. From a paced generator, take only rows that are due soon."""
    pace = _pace(config)
    return batch_rows if pace is None else rows_ahead(pace, time.linger, batch_rows)


def _live(
    arrivals: Iterator[Arrivals],
    origin: Origin,
    config: StreamConfig,
    context: SourceContext,
    time: LiveTime | None,
    *,
    batch_rows: int,
    streams: Collection[str] | None = None,
) -> tuple[Iterator[Arrivals], Origin]:
    """Return the arrivals of a live stream by the clock, with heartbeats; return those of other streams unchanged."""
    pace = _pace(config)
    if pace is not None and time is not None:
        arrivals = Paced(arrivals, rate=pace, time=time, batch_rows=batch_rows)
    if config.heartbeat is None or not isinstance(arrivals, Live):
        return arrivals, origin
    every, max_delay = config.heartbeat.every, delay_in(context.unit, config.heartbeat.max_delay)
    if isinstance(arrivals, Paced) and time is not None:
        policy = _policy(config, context.unit)
        # after sorting, so that these heartbeats exclude no row that the rows alone would not exclude
        max_delay = max(max_delay, policy) if isinstance(policy, int) else max_delay
        clock, reached = time.elapsed, arrivals.reached
        return Heartbeats(arrivals, every=every, max_delay=max_delay, clock=clock, reached=reached), origin
    path, is_owner = heartbeats_path(config, context), streams is None or config.impl_streams[0] in streams
    decisions = _decisions(path, config.id, may_write=time is not None and is_owner)
    origin = with_decisions(origin, decisions)
    if time is None:
        return Replayed(arrivals, decisions), origin
    if not is_owner and path is not None:
        return Followed(arrivals, decisions, clock=time.elapsed), origin
    is_read_elsewhere = streams is not None and not set(config.impl_streams) <= set(streams)
    notes_rows = is_read_elsewhere or config.source.kind == "custom"
    return beating(
        arrivals, decisions, time, every=every, max_delay=max_delay, unit=context.unit, notes_rows=notes_rows
    ), origin


def _decisions(path: Path | None, stream: str, *, may_write: bool) -> Decisions:
    """Return the decisions of a live stream: those of its file, or empty ones that are not kept if there is no file."""
    if path is None:
        return Decisions()
    return Decisions.owned(path, stream) if may_write else Decisions(RecordReader(path, stream))


def beating(
    arrivals: Live,
    decisions: Decisions,
    time: LiveTime,
    *,
    every: int,
    max_delay: int,
    unit: TimeUnit,
    notes_rows: bool,
) -> Heartbeats:
    """Return a live source with heartbeats: at intervals by the monotonic clock, with times by the wall clock."""
    reached = Wall(unit, clock=time.now)
    return Heartbeats(
        arrivals,
        every=every,
        max_delay=max_delay,
        clock=time.elapsed,
        reached=reached,
        decisions=decisions,
        notes_rows=notes_rows,
    )


def with_decisions(origin: Origin, decisions: Decisions) -> Origin:
    """Return an origin that also describes and compares the heartbeats so far."""
    return replace(
        origin,
        describe=lambda: {**origin.describe(), "heartbeats": decisions.describe()},
        resume=lambda before: origin.resume(before) or decisions.changed(before.get("heartbeats")),
    )


def open_arrivals(config: StreamConfig, context: SourceContext, batch_rows: int) -> Opened:
    """Return the events of a stream as they arrive, before any ordering, and the mapping that makes them.

    For live streams, these are the events that their logs hold now, though the first ones may have been deleted.
    """
    mapping, found, origin = _arrivals(config, context, batch_rows)
    if isinstance(found, LogArrivals):
        found.begin_anywhere()
    found, origin = _live(found, origin, config, context, None, batch_rows=batch_rows)
    if config.source.kind != "ticks" and (front := front_of(config, context)) is not None:
        found = (_fronted(part, front) for part in found)

    def arrivals() -> Generator[Arrivals]:
        try:
            yield from found
        finally:
            origin.close()

    return Opened(mapping, arrivals(), origin.share)


def log_start(config: StreamConfig, context: SourceContext, base: OrderKey, *, rank: int) -> int:
    """Return the first row that a stream with an event log reads if it is resumed from the key `base`. Raises CorruptFileError."""
    found, origin = logged(config, _mapping(config, context), context, 1, follow=False)
    arrivals = cast("LogArrivals", found)  # without opening a port
    key = within(base if context.program.front is None else of_row(base), rank)
    arrivals.begin_at(key)
    if origin.skip_to is not None:
        origin.skip_to(max(key.seq - 1, 0))
    return arrivals.row


def open_rows(config: StreamConfig, context: SourceContext, batch_rows: int) -> Generator[Arrivals]:
    """Return the rows of a stream as they arrive, with their times, before a front makes events of them."""
    row = config.model_copy(update={"tags": [ROW]})
    return open_arrivals(row, replace(context, program=_Rows()), batch_rows).arrivals


def _fronted(part: Arrivals, front: Front) -> Arrivals:
    """Return the events that a front makes of arrivals, in their order."""
    if not len(part) or part.is_unreadable:
        return part
    made = front(
        EventBatch.of("", rank=0, tags=part.tags, ts=part.ts, codes=part.codes, payload=part.payload)
    )
    return Arrivals(part.first, made.ts, made.tags, made.codes, made.payload)


def place_of(config: StreamConfig, context: SourceContext, row: int) -> Place:
    """Return the place of a row in the file that it comes from; none for streams without files, and for rows from LOOKED_UP on.

    It reads the files up to that row. Raises MissingInputError.
    """
    if config.source.kind not in FILES or row >= LOOKED_UP:
        return Place()
    found, _ = raw_rows(config, _mapping(config, context), context, ROWS_AT_ONCE[config.source.kind])
    holding = (one for one in found if isinstance(one, RawRows) and one.first <= row < one.first + one.count)
    rows = next(holding, None)
    return Place() if rows is None else rows.place(row)


def _arrivals(
    config: StreamConfig,
    context: SourceContext,
    batch_rows: int,
    *,
    follow: bool = False,
    listen: bool = False,
) -> tuple[Mapping, Iterator[Arrivals], Origin]:
    mapping = _mapping(config, context)
    if config.source.kind == "ticks":
        return mapping, iter([sample(config, context)]), Origin(lambda: {"kind": "ticks"})
    if config.source.kind in LOGGED:
        return mapping, *logged(config, mapping, context, batch_rows, follow=follow, listen=listen)
    if config.source.kind == "custom":
        policy = _policy(config, context.unit)
        delay = policy if isinstance(policy, int) else None
        reader = CustomReader(connected(config, context), mapping, delay=delay, batch_rows=batch_rows)
        return mapping, reader.arrivals(follow=follow), reader.origin
    return mapping, *read(config, mapping, context, batch_rows)


def _mapping(config: StreamConfig, context: SourceContext) -> Mapping:
    program = context.program
    if program.front is not None and config.source.kind != "ticks":  # its front gives the tags
        config, program = config.model_copy(update={"tags": [ROW]}), _Rows()
    return Mapping(config, program, plan_unit=context.unit, skips=context.skips)


def _policy(config: StreamConfig, unit: TimeUnit) -> Any:
    """Return the policy, with its duration in the plan's unit. Timestamps are integers, so rounding down is exact."""
    if not isinstance(config.on_disorder, SortWithin):
        return config.on_disorder
    if unit == "none":
        problem = "`sort_within` compares a duration with timestamps: say `time: {unit: ...}`"
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    return config.on_disorder.sort_within // NANOSECONDS[unit]
