"""Live streams of a simulated run: rows arrive over time and out of order, and heartbeats decide which of them come too late.

The rows that have arrived and the file of decisions outlive every process. The heartbeats, the decisions and the ordering are those of
the runtime. The oracle decides again, by the definition and from the file, which rows are late.

>>> from dgs.model.tags import Tag
>>> batch = EventBatch.of("s", rank=0, tags=[Tag("a")], ts=[0, 10, 20], payload=[1, 2, 3])
>>> live = LiveStreams({"s": [batch]}, Random(4), share=1.0)
>>> stream = live.streams["s"]
>>> Records(stream.decisions, "s").append(0, 15)
>>> stream.whole.ts.tolist(), stream.is_kept()
([0, 10, 20], [False, False, True])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dgs.errors import OutputUnwritableError
from dgs.model.columns import RowNumbers
from dgs.model.events import EventBatch
from dgs.model.order import END, MIN_TS, OrderKey
from dgs.workers.recovery.positions import Positions, dealt
from dgs.workers.simulated.faults import HostKilledError
from dgs.workers.sources.description import Origin
from dgs.workers.sources.live.decisions import Decisions, Followed
from dgs.workers.sources.opening import beating, with_decisions
from dgs.workers.sources.pipeline import PipelineSource
from dgs.workers.sources.rows import SECOND, Arrivals, Live, LiveTime, nothing
from dgs.workers.sources.shaping.disorder import joined, ordering
from dgs.workers.storage.record_file import MAGIC, START, VERSION, RecordReader, RecordWriter

BLOCK = 2
"""Rows per block of a split stream. It is small because streams are short."""

LENGTHS = (40, 100, 250)
"""Steps in which the rows of a run arrive."""

Reading = tuple[list[EventBatch], OrderKey]


class Clocks:
    """The clocks of a simulated machine, in nanoseconds. `step`: the nanoseconds of one step. The wall clock may jump."""

    def __init__(self, begin: int, span: int, step: int, now: Callable[[], int]) -> None:
        self._begin, self._span, self.step, self._now = begin, span, step, now
        self._idle = self._offset = 0

    def elapsed(self) -> int:
        """Return the time since the run began, by the clock that never jumps."""
        return (self._now() + self._idle) * self.step

    def wall(self) -> int:
        """Return the time of day."""
        return self._begin + self.elapsed() + self._offset

    def jump(self, rnd: Random) -> int:
        """Set the wall clock forwards or back; return by how much."""
        by = rnd.choice([-1, -1, 1]) * rnd.randint(1, rnd.choice([self._span // 8, 2 * self._span]) + 1)
        self._offset += by
        return by

    def skip(self, seconds: float) -> None:
        """Let time pass in which nothing moves."""
        self._idle += max(1, -(-int(seconds * SECOND) // self.step))


@dataclass
class RecordFile:
    """A file of records that outlives every process. `writer`: the writer that has it locked. `torn`: the bytes that a crash leaves, if any."""

    content: bytearray = field(default_factory=bytearray)
    writer: object = None
    torn: Callable[[int], int | None] = lambda _size: None

    def open(self, _mode: str) -> BytesIO:
        """Return the content."""
        return BytesIO(bytes(self.content))


def _as_path(file: Any) -> Path:
    return file  # type: ignore[no-any-return]  # readers only open it


class Records(RecordWriter):
    """The writer of such a file. An older writer is refused, as by the lock of a real one."""

    def __init__(self, file: RecordFile, name: str) -> None:
        self.file, path = file, _as_path(file)
        RecordReader.__init__(self, path, name)
        file.writer = self
        if len(file.content) < START.size:
            file.content[:] = START.pack(MAGIC, VERSION)
        self.known = self.poll()
        del file.content[self.end :]

    def close(self) -> None:
        """Do nothing."""

    def _put(self, data: bytes, place: int) -> None:
        if self.file.writer is not self:
            raise OutputUnwritableError(path=self.name, problem="another process writes it")
        torn = self.file.torn(len(data))
        self.file.content[place:] = data[:torn]
        if torn is not None:
            raise HostKilledError


@dataclass
class LiveStream:
    """A stream whose rows arrive at `times` (nanoseconds since the run began). `whole`: its rows in the order of arrival.

    `every`: nanoseconds between heartbeats. `max_delay`, `delay`: in units of time; `delay` is that of `sort_within`, None for `drop`.
    `may_pause`: like a user's source, it may pause at any row, also at rows that it brings again.
    """

    whole: EventBatch
    times: list[int]
    every: int
    max_delay: int
    delay: int | None
    may_pause: bool
    decisions: RecordFile = field(default_factory=RecordFile)

    def is_kept(self) -> list[bool]:
        """Return for each row whether it is in time, by the definition and the decisions in the file."""
        pairs = RecordReader(_as_path(self.decisions), self.whole.stream).poll()
        kept, floor = [], MIN_TS
        for row, ts in enumerate(self.whole.ts.tolist()):
            floor = max([floor, *(beat + 1 for before, beat in pairs if before <= row and beat != MIN_TS)])
            kept.append(ts >= floor)
            floor = max(floor, ts - (self.delay or 0)) if kept[-1] else floor
        return kept

    def decided(self) -> EventBatch:
        """Return the events of the rows in time, in their order."""
        rows = np.flatnonzero(self.is_kept())
        return self.whole.take(rows[np.argsort(self.whole.ts[rows], kind="stable")])


NEVER = 2**60
"""A ts that no clock of the simulation reaches, such as that of a last tick."""


def _comes(batches: Sequence[EventBatch]) -> bool:
    return all(int(batch.ts.max()) < NEVER for batch in batches if len(batch))


class LiveStreams:
    """The streams of a run that are live. `share`: the chance of each. `now`: the number of steps so far. All chance comes from `rnd`."""

    def __init__(
        self,
        streams: Mapping[str, Sequence[EventBatch]],
        rnd: Random,
        share: float,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        events = [
            batch
            for batches in streams.values()
            for batch in batches
            if len(batch) and int(batch.ts.max()) < NEVER
        ]
        first = min((int(batch.ts.min()) for batch in events), default=0)
        self._span = max((int(batch.ts.max()) for batch in events), default=0) - first + 1
        self._rnd, self._first = rnd, first
        step = max(1, self._span * SECOND // rnd.choice(LENGTHS))
        self.clocks = Clocks(first * SECOND, self._span * SECOND, step, now)
        self.streams = {
            name: self._made_live([batch for batch in batches if len(batch)], step)
            for name, batches in streams.items()
            if rnd.random() < share and any(len(batch) for batch in batches) and _comes(batches)
        }

    def _made_live(self, batches: list[EventBatch], step: int) -> LiveStream:
        rnd = self._rnd
        events = joined(batches)
        max_delay = rnd.choice([0, 0, self._span // 20, self._span // 4])
        delay = rnd.choice([None, None, None, max_delay])
        late = (max_delay if delay is not None else rnd.choice([1, 3]) * max_delay + self._span // 8) * SECOND
        arrivals = sorted(
            ((ts - self._first) * SECOND + rnd.choice([0, 0, rnd.randint(0, late)]), row)
            for row, ts in enumerate(events.ts.tolist())
        )
        whole = events.take(np.array([row for _, row in arrivals], dtype=np.intp))
        whole = EventBatch(
            whole.stream,
            whole.rank,
            whole.ts,
            RowNumbers(0, len(whole)),
            whole.tags,
            whole.codes,
            whole.payload,
        )
        every = rnd.choice([1, 3, 10, 30]) * step
        times, may_pause = [at for at, _ in arrivals], rnd.choice([True, False])
        return LiveStream(whole, times, every, max_delay, delay, may_pause)

    def decided(self, streams: Mapping[str, Sequence[EventBatch]]) -> dict[str, Sequence[EventBatch]]:
        """Return the streams of the run, with the rows that are in time."""
        return {
            name: [self.streams[name].decided()] if name in self.streams else batches
            for name, batches in streams.items()
        }

    def has_disorder(self) -> bool:
        """Return whether a row of a sorted stream is late, which is an error of the input."""
        return any(one.delay is not None and not all(one.is_kept()) for one in self.streams.values())


class Arriving(Live):
    """The rows of a live stream, as one process reads them."""

    def __init__(self, stream: LiveStream, rnd: Random, clock: Callable[[], int]) -> None:
        self._stream, self._rnd, self._clock = stream, rnd, clock
        self._row = 0
        self._quiet_until = 0

    def wait(self) -> float:
        """Return the seconds until there are rows, or the end."""
        times = self._stream.times
        at = times[min(self._row, len(times) - 1)]
        return max(0, at - self._clock(), self._quiet_until - self._clock()) / SECOND

    def __next__(self) -> Arrivals:
        """Return some of the rows that have arrived."""
        stream, first = self._stream, self._row
        if first == len(stream.times):
            raise StopIteration
        if self.wait() > 0:
            return nothing(first)
        arrived = sum(at <= self._clock() for at in stream.times)
        self._row = min(arrived, first + self._rnd.choice([1, 2, 100]))
        is_new = self._row == arrived  # a log is read again after a while
        if is_new or (stream.may_pause and self._rnd.random() < 0.3):  # noqa: PLR2004 - now and then
            self._quiet_until = self._clock() + self._rnd.randint(0, 3 * stream.every)
        whole = stream.whole
        return Arrivals(0, whole.ts, whole.tags, whole.codes, whole.payload).cut(first, self._row)

    def close(self) -> None:
        """Do nothing."""


class LiveFeed:
    """A live stream as one host of a generation reads it. `impl`: its implementation streams; `wanted`: those of this host.

    The host with the first implementation stream decides, the others follow. `about`: the description of the source in the checkpoint, if any.
    """

    def __init__(
        self,
        live: LiveStreams,
        stream: str,
        rnd: Random,
        *,
        impl: tuple[str, ...],
        wanted: set[str],
        point: Positions,
        about: Mapping[str, Any] | None,
        object_to: Callable[[str], None],
    ) -> None:
        one, clocks = live.streams[stream], live.clocks
        self._stream, self._clocks, self._object_to = one, clocks, object_to
        self._impl, self._wanted, self._point = impl, wanted, point
        self.has_ended = False
        arriving = Arriving(one, rnd, clocks.elapsed)
        self._is_owner = impl[0] in wanted
        file = one.decisions
        decisions = Decisions(
            Records(file, stream) if self._is_owner else RecordReader(_as_path(file), stream)
        )
        time = LiveTime(linger=0, elapsed=clocks.elapsed, now=clocks.wall)
        arrivals: Live = Followed(arriving, decisions, clock=time.elapsed)
        if self._is_owner:
            arrivals = beating(
                arriving,
                decisions,
                time,
                every=one.every,
                max_delay=one.max_delay,
                unit="s",
                notes_rows=one.may_pause or not set(impl) <= wanted,
            )
        self._source = PipelineSource(
            arrivals,
            ordering("drop" if one.delay is None else one.delay, stream=stream, rank=one.whole.rank),
            stream=stream,
            impl_streams=(stream,),
            batch_rows=len(one.whole),
            origin=with_decisions(Origin(lambda: {"kind": "custom"}), decisions),
        )
        if about is not None:
            self._source.resume(about)
        self._source.skip_to(point.base(stream))

    @property
    def about(self) -> Mapping[str, Any]:
        """The description of the source for a checkpoint."""
        return self._source.description

    @property
    def end(self) -> OrderKey:
        """The key after the last event, once the stream has ended."""
        end: OrderKey = self.about["end"]
        return end

    @property
    def wait(self) -> float:
        """Seconds until there is something to read."""
        return self._source.wait

    def has_more(self) -> bool:
        """Return whether there is something to read now."""
        if self.has_ended:
            return False
        wait, every = self.wait, self._stream.every / SECOND
        if self._is_owner and wait > every:
            self._object_to(f"the next heartbeat comes in {wait:g} s, and they are {every:g} s apart")
        return wait <= 0

    def read(self) -> Reading:
        """Return the next events, and the frontier."""
        reading = self._source.read()
        self.has_ended = reading.frontier == END
        return list(self._parts(reading.batches)), reading.frontier

    def _parts(self, batches: Sequence[EventBatch]) -> Iterator[EventBatch]:
        for batch in batches:
            for part in dealt(batch, self._impl, self._wanted, block=BLOCK):
                if len(new := self._point.above(part, len(self._impl))):
                    yield new
