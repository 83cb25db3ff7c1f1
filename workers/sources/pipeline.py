"""A source made of reader, mapping, ordering, `until` and dealing. `read` pulls one batch through all of them.

>>> import numpy as np
>>> from dgs.model.tags import Tag
>>> from dgs.workers.sources.shaping.disorder import ordering
>>> arrivals = iter([Arrivals(0, np.array([5, 6]), (Tag("click"),)), Arrivals(2, np.array([6]), (Tag("click"),))])
>>> order = ordering("error", stream="clicks", rank=0)
>>> source = PipelineSource(arrivals, order, stream="clicks", impl_streams=("clicks",), batch_rows=100)
>>> source.read().frontier, source.read().frontier, source.read().frontier == END
(OrderKey(ts=6, rank=0, seq=2, path=()), OrderKey(ts=6, rank=0, seq=3, path=()), True)
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dgs.errors import InternalError, OutOfOrderError, SourceChangedError
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, MIN_TS, OrderKey, after_heartbeat
from dgs.workers.recovery.positions import dealt
from dgs.workers.sources.contract import Counted, Reading
from dgs.workers.sources.description import Origin, check
from dgs.workers.sources.rows import Arrivals, Live
from dgs.workers.sources.shaping.disorder import Ordering


def _unknown() -> dict[str, Any]:
    return {"kind": "unknown"}


def within(key: OrderKey, rank: int) -> OrderKey:
    """Return the least key of the stream with `rank` that is not below `key`. Row numbers of other streams do not apply to it.

    >>> within(OrderKey(5, 1, 700), rank=0), within(OrderKey(5, 1, 700), rank=2)
    (OrderKey(ts=6, rank=0, seq=0, path=()), OrderKey(ts=5, rank=2, seq=0, path=()))
    """
    if rank == key.rank:
        return key
    return after_heartbeat(key.ts, rank) if rank < key.rank else OrderKey(key.ts, rank, 0)


class PipelineSource:
    """An EventSource over an iterator of arrivals. `origin`: the origin of their rows."""

    def __init__(
        self,
        arrivals: Iterator[Arrivals],
        order: Ordering,
        *,
        stream: str,
        impl_streams: tuple[str, ...],
        batch_rows: int,
        until: OrderKey | None = None,
        wanted: Collection[str] | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.stream = stream
        self._origin = origin or Origin(_unknown)
        self._rows = 0
        self._latest = MIN_TS
        self._base = BEGIN
        self._end: OrderKey | None = None
        self._ended_before: OrderKey | None = None
        self._arrivals = arrivals
        self._order = order
        self._impl_streams = impl_streams
        self._batch_rows = batch_rows
        self._until = until
        self._wanted = wanted
        self._ended = False

    @property
    def drops(self) -> int:
        """The number of late events and bad lines that were left out."""
        return self._order.drops + self._origin.refused()

    @property
    def counted(self) -> Counted:
        """Its progress so far."""
        return Counted(self._rows, self._order.held, 1.0 if self._ended else self._origin.share(self._rows))

    @property
    def description(self) -> Mapping[str, Any]:
        """The identity of the source: see `dgs.workers.sources.description`."""
        return {**self._origin.describe(), "rows": self._rows, "end": self._end}

    def resume(self, before: Mapping[str, Any]) -> None:
        """Go on from a checkpoint with the description `before`. Call this before the first read. Raises SourceChangedError.

        If the source had ended by then, new rows with times before its end are disorder.
        """
        check(self.stream, before, self.description)
        if (problem := self._origin.resume(before)) is not None:
            raise SourceChangedError(stream=self.stream, problem=problem)
        self._ended_before = before["end"]

    def skip_to(self, base: OrderKey) -> None:
        """Note that events below `base` are not needed. Call this before the first read; the caller drops those that still come.

        They come if that is cheap, or if they decide which later rows are late, as they do unless `on_disorder` is `error`. The row before
        `base` always comes if the source needs it to find its place.
        """
        own = within(base, self._order.rank)
        self._base = own
        if isinstance(self._arrivals, Live):
            self._arrivals.begin_at(own)
        if self._origin.skip_to is not None:
            self._origin.skip_to(max(own.seq - 1, 0))
        if self._origin.seek is not None:
            self._latest = self._origin.seek(own)

    @property
    def wait(self) -> float:
        """Seconds until there may be events. Files, memory and plain generators are always ready."""
        return self._arrivals.wait() if isinstance(self._arrivals, Live) and not self._ended else 0.0

    def read(self) -> Reading:
        """Read on: take one piece from the reader."""
        if self._ended:
            raise InternalError(problem=f"source {self.stream!r} was read after its end")
        arrivals = self._timed(next(self._arrivals, None))
        ordered = self._order.finish() if arrivals is None else self._order.accept(arrivals)
        batch, frontier = ordered.batch, ordered.frontier
        self._note(arrivals, batch)
        if self._until is not None:
            batch = batch.cut(0, batch.position_of(self._until))
            frontier = END if frontier >= self._until else frontier
        if frontier >= END:
            self._ended = True
            self._check_rest()
            self._end = self._key_behind(is_whole=arrivals is None or self._until is None)
            self.close()
        return Reading(tuple(self._pieces(batch)), END if self._ended else frontier)

    def close(self) -> None:
        """Close the reader."""
        if isinstance(self._arrivals, (Generator, Live)):
            self._arrivals.close()
        self._origin.close()

    def _timed(self, arrivals: Any) -> Any:
        """Give placeholders of unreadable rows the time of the rows before them, or the least possible time.

        After a resume the rows before them may not be read again. Placeholders that are needed get the time of the base or a later one.
        """
        if arrivals is None or not arrivals.is_unreadable:
            return arrivals
        ts = max(self._order.floor, self._latest)
        if ts == MIN_TS and arrivals.first >= self._base.seq > 0:
            ts = self._base.ts
        ts = max(ts, MIN_TS + 1)
        return replace(arrivals, ts=np.full(len(arrivals), ts, dtype=np.int64))

    def _note(self, arrivals: Arrivals | None, batch: EventBatch) -> None:
        """Remember how far the source has come. Refuse new rows before the end that an earlier run has seen."""
        if arrivals is not None:
            self._rows = max(self._rows, arrivals.first + len(arrivals))
        if not len(batch):
            return
        self._latest = int(batch.ts[-1])
        end = self._ended_before
        if end is None or batch.ts[0] >= end.ts:
            return
        seq = np.asarray(batch.seq)
        late = np.flatnonzero((seq >= end.seq) & (batch.ts < end.ts))
        if len(late):
            row = int(seq[late].min())
            ts = int(batch.ts[late[seq[late].argmin()]])
            raise OutOfOrderError(stream=self.stream, row=row, ts=ts, previous=end.ts)

    def _key_behind(self, *, is_whole: bool) -> OrderKey:
        """Return the key after the last event, or `until` if the stream was cut there."""
        end = max(OrderKey(self._latest, self._order.rank, self._rows), self._ended_before or BEGIN)
        if self._until is None:
            return end
        until = within(self._until, self._order.rank)
        return min(end, until) if is_whole else until

    def _check_rest(self) -> None:
        """Read rows after a heartbeat that ends the stream: they are disorder and must raise. Live sources are not read on."""
        if self._until is None and not isinstance(self._arrivals, Live):
            for arrivals in self._arrivals:
                self._order.accept(self._timed(arrivals))

    def _pieces(self, batch: EventBatch) -> Iterator[EventBatch]:
        for start in range(0, len(batch), self._batch_rows):
            piece = batch.cut(start, min(start + self._batch_rows, len(batch)))
            yield from dealt(piece, self._impl_streams, self._wanted)
