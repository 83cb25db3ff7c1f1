"""A sample of the input for the planner: the tags of each stream and their rates, from the first rows.

Rates are events per second of event time, or per unit if the plan has no unit. They only guide the optimizer, so rows that
cannot be read do not stop the planning: the run reports them. A missing source, or a plan file that does not fit its columns,
stops it.

>>> from dgs.model.program import Program
>>> from dgs.model.tags import kind
>>> clicks = StreamConfig(id="clicks", tags={"kind": "click"}, source={"memory": "clicks"}, split=2)
>>> data = {"clicks": [("click", second, None) for second in range(11)]}
>>> found = topology([clicks], [], SourceContext(Program(), "s", memory=data))
>>> [(stream.id, dict(stream.rates)) for stream in found.streams]
[('clicks/0', {click: 0.5}), ('clicks/1', {click: 0.5})]
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from mmap import mmap

import numpy as np

from dgs import codec
from dgs.errors import DgsError, MalformedRowError, PlanFileError, RunError, UserCodeError
from dgs.job.schema import StreamConfig
from dgs.job.stream_tags import declared_tags, literal_tag
from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, MAX_TS, MIN_TS
from dgs.model.tags import Tag
from dgs.planner.prediction.costs import COPIES, TYPICAL, Costs
from dgs.planner.topology import Machine, Stream, Topology
from dgs.workers.sources.contract import EventSource, SourceContext
from dgs.workers.sources.live.logged import LOGGED
from dgs.workers.sources.opening import open_arrivals, open_source
from dgs.workers.sources.readers.choosing import FILES
from dgs.workers.sources.rows import Arrivals

BATCH_ROWS = 4096

READING_SECONDS = 0.1
"""Seconds for measuring how long reading the streams takes."""

FIRST_TOUCH = 0.13e-9
"""Seconds to map a byte that another process has put into shared memory, when it is first looked at."""

TIMED = (*FILES, "generator", "memory")
"""The kinds of sources whose reading is measured."""


@dataclass
class Sample:
    """The first rows of a stream: events per tag, the span of their times, and whether the stream has no more rows.

    `is_calendar`: True for calendar times, False for bare numbers, None without events. `events`: the number in the whole stream, infinite
    if unknown.
    """

    counts: Counter[Tag] = field(default_factory=Counter)
    earliest: int = MAX_TS
    latest: int = MIN_TS
    is_whole: bool = False
    is_calendar: bool | None = None
    events: float = math.inf

    def add(self, arrivals: Arrivals) -> None:
        """Count events."""
        if not len(arrivals) or arrivals.is_unreadable:
            return
        if arrivals.codes is None:
            self.counts[arrivals.tags[0]] += len(arrivals)
        else:
            per_tag = np.bincount(arrivals.codes, minlength=len(arrivals.tags)).tolist()
            self.counts.update(dict(zip(arrivals.tags, per_tag, strict=True)))
        self.earliest = min(self.earliest, int(arrivals.ts.min()))
        self.latest = max(self.latest, int(arrivals.ts.max()))

    def period(self) -> float:
        """Return how long the stream has events, in units of time; an estimate if the sample has only a part of them."""
        seen = self.counts.total()
        if seen < 2:  # noqa: PLR2004
            return 0.0
        events = self.events if math.isfinite(self.events) else seen
        return (self.latest - self.earliest) * events / (seen - 1)

    def total_rate(self, seconds_per_unit: float, job: float) -> float:
        """Return events per second of event time: over the time of the whole job, or over the sample if the number of events is unknown.

        If no time passes, return their number.
        """
        is_known = math.isfinite(self.events)
        events = self.events if is_known else float(self.counts.total())
        units = job if is_known else self.period() or job
        return events / (units * seconds_per_unit) if units else events

    def unseen(self) -> float:
        """Return the share of events with tags that the sample does not have (Good-Turing: the share of tags seen once).

        It is at least that of one event, since a key may be new after the sample, too.
        """
        if self.is_whole or not self.counts:
            return 0.0
        return max(1, sum(count == 1 for count in self.counts.values())) / self.counts.total()


def topology(
    streams: Sequence[StreamConfig],
    machines: Sequence[Machine],
    context: SourceContext,
    *,
    rows: int = 10_000,
) -> Topology:
    """Return the streams for the planner, one per split, with rates from the first `rows` rows of each.

    `rate:` in plan.yaml takes precedence as the total rate of a stream; splits share it equally.

    Raises MissingInputError, UnknownColumnError, ProgramImportError, and PlanFileError if a plan without unit has streams with
    calendar times and streams with bare numbers.
    """
    samples = {config.id: sampled(config, context, rows=rows) for config in streams}
    if context.unit == "none":
        _refuse_mixed_times(samples)
    job = _period_of_all(samples.values())
    found = [stream for config in streams for stream in _streams(config, context, samples[config.id], job)]
    return Topology(found, tuple(machines) or (Machine("local"),))


def first_events(streams: Sequence[StreamConfig], context: SourceContext) -> list[EventBatch]:
    """Return the first events of each stream, in order. Raises what reading them raises."""
    found: list[EventBatch] = []
    for rank, config in enumerate(streams):
        with closing(open_source(config, context, rank=rank, batch_rows=BATCH_ROWS)) as source:
            found += source.read().batches
    return found


def with_sources(
    costs: Costs, streams: Sequence[StreamConfig], context: SourceContext, *, is_shared: bool = False
) -> Costs:
    """Return costs with the processor seconds of reading an event, beyond those of one in memory, and of its way to another host, by stream.

    Files, generators and rows from Python are timed. `is_shared`: data in memory comes from another process. Short, unreadable and live streams have none.
    """
    sources, carried = dict[str, float](), dict[str, float]()
    for rank, config in enumerate(streams):
        if config.source.kind in TIMED:
            opened = partial(open_source, config, context, rank=rank, batch_rows=None)
            with suppress(DgsError):
                with closing(opened()) as source:
                    source.read()  # the first read of a process loads libraries
                with closing(opened()) as source:
                    events, size, seconds, longest = _timed(source, READING_SECONDS / len(streams))
                if longest is not None and events >= BATCH_ROWS:
                    is_touched = is_shared and config.source.kind == "memory"
                    touching = FIRST_TOUCH * size if is_touched else 0.0
                    sources[config.id] = max(0.0, (seconds + touching) / events - TYPICAL.read)
                    carried[config.id] = _seconds_of_carrying(longest)
    return replace(costs, sources=sources, carried=carried)


def _seconds_of_carrying(batch: EventBatch) -> float:
    """Return the processor seconds in which an event of a batch gets to another host: the least of two trials."""

    def seconds() -> float:
        began = time.thread_time()
        data = codec.encode(batch)
        codec.decode(data)
        for _ in range(COPIES):
            with mmap(-1, len(data)) as memory:
                memory.write(data)
        return time.thread_time() - began

    return min(seconds() for _ in range(2)) / len(batch)


def _timed(source: EventSource, most: float) -> tuple[int, int, float, EventBatch | None]:
    """Read a source for some processor seconds, or twice as long if it waits; return the events, their bytes, the seconds and the longest batch."""
    events, size, frontier = 0, 0, BEGIN
    longest: EventBatch | None = None
    began, end = time.thread_time(), time.monotonic() + 2 * most
    while frontier != END and time.thread_time() - began < most and time.monotonic() < end:
        reading = source.read()
        events += sum(map(len, reading.batches))
        size += sum(batch.nbytes - batch.seq.nbytes for batch in reading.batches)
        longest = max([*reading.batches, *([longest] if longest else [])], key=len, default=None)
        frontier = reading.frontier
    return events, size, time.thread_time() - began, longest


def sampled(config: StreamConfig, context: SourceContext, *, rows: int) -> Sample:
    """Return a sample of the first `rows` rows of a stream, in any order."""
    sample = Sample()
    mapping, arrivals, share = open_arrivals(config, context, max(1, min(rows, BATCH_ROWS)))
    with closing(arrivals):
        try:
            seen = _read(arrivals, sample, rows)
            sample.is_whole = seen < rows
            if config.source.kind not in LOGGED and (part := 1.0 if sample.is_whole else share(seen)):
                sample.events = sample.counts.total() / part
        except (
            MalformedRowError,
            RunError,
            UserCodeError,
        ):  # for example a malformed row, which the run reports
            sample.is_whole = False
    sample.is_calendar = mapping.clock.is_calendar
    return sample


def _read(arrivals: Iterator[Arrivals], sample: Sample, rows: int) -> int:
    """Return how many rows were read: fewer than `rows` if there are no more."""
    seen = 0
    for part in arrivals:
        sample.add(part)
        seen += len(part) + len(part.beats.before)
        if seen >= rows:
            break
    return seen


def _period_of_all(samples: Iterable[Sample]) -> float:
    """Return the units of time from the first event of a job to its last."""
    known = [sample for sample in samples if sample.counts]
    ends = [sample.earliest + sample.period() for sample in known]
    return max(ends) - min(sample.earliest for sample in known) if known else 0.0


def _streams(config: StreamConfig, context: SourceContext, sample: Sample, job: float) -> Iterator[Stream]:
    """Yield the streams of the planner. `job`: the units of time of the whole job."""
    program = context.program
    tags = declared_tags(config, program)
    unit = _seconds_per_unit(context.unit, sample)
    total = sample.total_rate(unit, job) if config.rate is None else config.rate
    counts = {tag: count for tag, count in sample.counts.items() if tag in tags}
    literal = literal_tag(config, program)
    if not counts and literal is not None:
        counts = {literal: 1}
    events = sum(counts.values())
    unseen = 1.0 if not events else 0.0 if tags.is_finite else sample.unseen()
    share = total / len(config.impl_streams)
    rates = {tag: share * (1 - unseen) * count / events for tag, count in counts.items()}
    for name in config.impl_streams:
        yield Stream(
            name,
            tags,
            rates,
            other_rate=share * unseen,
            location=config.location,
            events=sample.events / len(config.impl_streams),
        )


def _seconds_per_unit(unit: TimeUnit, sample: Sample) -> float:
    if unit != "none":
        return NANOSECONDS[unit] / NANOSECONDS["s"]
    return 1 / NANOSECONDS["s"] if sample.is_calendar else 1.0


def _refuse_mixed_times(samples: Mapping[str, Sample]) -> None:
    calendar = [stream for stream, sample in samples.items() if sample.is_calendar is True]
    bare = [stream for stream, sample in samples.items() if sample.is_calendar is False]
    if calendar and bare:
        problem = (
            f"stream {calendar[0]!r} has calendar times and stream {bare[0]!r} bare numbers, which cannot be ordered "
            "together: say `time: {unit: ...}`, and `ts: {column: ..., unit: ...}` where a stream differs from it"
        )
        raise PlanFileError(where="streams", problem=problem)
