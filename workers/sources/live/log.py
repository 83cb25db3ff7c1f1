"""An event log as a live source: the rows of its segments, and new ones as they are written.

Segments of rows go through the mapping of plan.yaml like a file; segments of events are taken as they are. After each segment
comes its frontier, as a heartbeat. Segments that overlap in time are disorder, which `on_disorder` handles later, as for any
source.

>>> import tempfile
>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> log = Path(tempfile.mkdtemp())
>>> config = StreamConfig(id="s", tags={"kind": "n"}, source={"log": {"path": str(log)}}, payload="x")
>>> source = LogArrivals(LogReader(log, "s"), Mapping(config, Program(), plan_unit="none"), batch_rows=2)
>>> len(next(source)), source.wait() > 0
(0, True)
>>> from dgs.workers.event_log import LogWriter
>>> _ = LogWriter(log, "s", "w").append(0, {"ts": [5, 6, 7], "x": [1, 2, 3]}, frontier=9)
>>> LogWriter(log, "s", "w").close()
>>> [(part.ts.tolist(), np.asarray(part.beats.ts).tolist()) for part in source]
[([5, 6], []), ([7], []), ([], [9])]
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.errors import CheckpointError, DgsError, UnknownColumnError
from dgs.model.columns import Column
from dgs.model.order import MIN_TS, OrderKey
from dgs.workers.event_log import failure
from dgs.workers.event_log.event_tables import columns_of, events_of, is_events
from dgs.workers.event_log.owner import owner
from dgs.workers.event_log.reader import LogReader
from dgs.workers.event_log.segments import END_MARK, Segment, SegmentName, all_names, is_closed, read_segment
from dgs.workers.sources.rows import Arrivals, Beats, Live, RawRows, nothing
from dgs.workers.sources.shaping.mapping import Mapping

POLL, SLOWEST_POLL = 0.01, 0.05
"""The least and the most seconds between two looks for new segments."""

PATIENCE = 0.05
"""The pause between two looks, as a share of the time without new rows: a quiet stream costs little."""


class LogRowsGoneError(CheckpointError):
    """Rows of an event log that are needed have been deleted."""

    code = "DGS613"
    template = (
        "stream {stream!r}: rows {first} to {last} of the event log {log} are gone, and they are needed"
    )
    fix = "Restore the segments from a copy, or resume from a checkpoint that has these rows in its state"


class LogArrivals(Live):
    """Reads a log to its end or to its writer's error; with `follow` off, only up to the last segment now.

    `restores_floor`: times of deleted rows count for `on_disorder: drop`, so the same late rows are left out as before.
    `heartbeats`: returns the heartbeats that were decided, each with the row it comes before.
    """

    def __init__(
        self,
        log: LogReader,
        mapping: Mapping,
        *,
        batch_rows: int,
        follow: bool = True,
        restores_floor: bool = False,
        heartbeats: Callable[[], Iterable[tuple[int, int]]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._mapping = mapping
        self._batch_rows = batch_rows
        self._follow = follow
        self._restores_floor = restores_floor
        self._heartbeats = heartbeats
        self._clock = clock
        self._needed_from = 0
        self._state_before = MIN_TS
        self._next_look = float("-inf")
        self._found_at = clock()
        self._ready: deque[Arrivals] = deque()

    @property
    def row(self) -> int:
        """The raw row number after the last row read from the log."""
        return self._log.row

    def begin_at(self, base: OrderKey) -> None:
        """Note the time before which all rows are in the state. Such rows may have been deleted."""
        self._state_before = base.ts

    def begin_anywhere(self) -> None:
        """Begin with the first segment that there is."""
        self._needed_from = -1

    def skip_to(self, row: int) -> None:
        """Begin with the segment that has this row, or with a later one if all rows before that are in the state."""
        self._needed_from = row
        self._log.seek(max(row, self._row_by_time()))

    def allow_deleted(self, row: int) -> None:
        """Begin with the last segment before which all rows are in the state, although rows before this row may have been deleted."""
        self._needed_from = row
        self._log.seek(self._row_by_time())

    def _row_by_time(self) -> int:
        """Return the first row of the last segment before which all rows are in the state, by their times; 0 if that cannot be known.

        A heartbeat may have brought the run to its base. Rows that come after it with earlier times are late, not in the state.
        """
        directory = self._log.path / self._log.stream
        names = [name for name in all_names(directory) if name.batch != END_MARK]

        def is_too_late(name: SegmentName) -> bool:
            segment, table = read_segment(directory, name)
            if segment.promised is not None and self._brings_to_base(
                self._time(segment, segment.promised, table)
            ):
                return True
            return segment.first > 0 and not self._is_in_state(segment, table)

        try:
            heard = min((row for row, ts in self._heartbeats() if self._brings_to_base(ts)), default=None)
            begin = bisect_left(names, True, key=is_too_late) - 1
        except DgsError:  # the reader reports a damaged file when it reaches it
            return 0
        while heard is not None and begin > 0 and names[begin].first > heard:
            begin -= 1
        return names[begin].first if begin > 0 else 0

    def _brings_to_base(self, heartbeat: int) -> bool:
        return heartbeat + 1 >= self._state_before

    def wait(self) -> float:
        """Return the seconds until the next look for segments, 0 if there are rows now."""
        if self._ready or self._log.has_ended:
            return 0.0
        return max(0.0, self._next_look - self._clock())

    def __next__(self) -> Arrivals:
        """Return the next rows of the log, at most `batch_rows`; none if there are none yet."""
        while not self._ready:
            found = self._log.poll()
            if found is None:
                if self._log.has_ended or not self._follow:
                    raise StopIteration
                if (error := failure.found(self._log.path / self._log.stream)) is not None:
                    raise error
                now = self._clock()
                self._next_look = now + min(max(POLL, PATIENCE * (now - self._found_at)), SLOWEST_POLL)
                return nothing(self._log.row)
            self._found_at = self._clock()
            self._ready.extend(self._arrivals(*found))
        return self._ready.popleft()

    def close(self) -> None:
        """Do nothing: no file stays open between two reads."""

    def describe(self) -> dict[str, Any]:
        """Return the description of the log. The last segment read identifies it. A closed log stays closed."""
        last, directory = self._log.last, self._log.path / self._log.stream
        return {
            "kind": "log",
            "path": str(self._log.path.absolute()),
            "stream": self._log.stream,
            "writer": owner(directory),
            "is_closed": self._log.has_ended or is_closed(directory),
            "segment": None if last is None else {"number": last.number, "digest": last.digest},
        }

    def _arrivals(self, segment: Segment, table: pa.Table) -> Iterator[Arrivals]:
        is_first = self._needed_from >= 0
        if is_first:
            yield from self._begin(segment, table)
        if is_events(table):
            ts, tags, codes, payload = events_of(table)
            whole = Arrivals(segment.first, ts, tags, codes, payload, self._beats(segment, table))
            for start in range(0, max(len(whole), 1), self._batch_rows):
                yield whole.cut(start, min(start + self._batch_rows, len(whole)))
            return
        rows = RawRows(segment.first, segment.rows, columns_of(table), self._where)
        for piece in rows.pieces(self._batch_rows):
            yield self._mapping.arrivals(piece)
        if segment.frontier is not None:
            yield self._heard(segment.stop, segment.frontier, table)

    def _begin(self, segment: Segment, table: pa.Table) -> Iterator[Arrivals]:
        """Yield the heartbeat that is implied by earlier segments, which are not read."""
        if segment.first > self._needed_from and not self._is_in_state(segment, table):
            raise LogRowsGoneError(
                stream=self._mapping.stream, first=self._needed_from, last=segment.first - 1, log=self._where
            )
        self._needed_from = -1
        said = [] if segment.promised is None else [segment.promised]
        if self._restores_floor and segment.latest is not None:
            said.append(segment.latest - 1)
        if said:
            yield self._heard(segment.first, max(said), table)

    def _is_in_state(self, segment: Segment, table: pa.Table) -> bool:
        """Return whether all rows before a segment are in the state that a run resumes from."""
        return segment.latest is not None and self._time(segment, segment.latest, table) < self._state_before

    def _time(self, segment: Segment, ts: int, table: pa.Table) -> int:
        """Return a time of a header in the unit of the events."""
        return int(self._heard(segment.first, ts, table).beats.ts[0])

    def _heard(self, row: int, ts: int, table: pa.Table) -> Arrivals:
        return self._mapping.arrivals(RawRows(row, 0, {}, self._where, Beats((0,), self._raw([ts], table))))

    def _beats(self, segment: Segment, table: pa.Table) -> Beats:
        found = list(segment.beats)
        if segment.frontier is not None:
            found.append((segment.rows, segment.frontier))
        raw = self._raw([ts for _, ts in found], table)
        return Beats(tuple(before for before, _ in found), np.asarray(raw, dtype=np.int64))

    def _raw(self, times: list[int], table: pa.Table) -> Column:
        """Return times of a header in the type of the column of times."""
        if is_events(table):
            return np.array(times, dtype=np.int64)
        column = self._mapping.ts_column
        if column not in table.column_names:
            names = ", ".join(table.column_names)
            raise UnknownColumnError(
                stream=self._mapping.stream, column=column, where=self._where, columns=names
            )
        return pa.array(times, pa.int64()).cast(table.schema.field(column).type)

    @property
    def _where(self) -> str:
        return str(Path(self._log.path) / self._log.stream)
