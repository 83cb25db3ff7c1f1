"""Events from Python: the items of `memory` sources and generators.

An item is an Event, a Heartbeat or a tuple (tag, ts, payload), where the tag is a Tag, a kind, or a pair (kind, key). An item may
also be many events: an EventBatch, whose stream, rank and row numbers are replaced by those of this stream, or a table (an Arrow
table or record batch, a dictionary of columns, a data frame), which goes through the mapping of plan.yaml. Heartbeats take no row
number.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dgs.errors import MalformedRowError
from dgs.errors.shortened import short_repr
from dgs.model import columns
from dgs.model.columns import Column, as_column
from dgs.model.events import Event, EventBatch
from dgs.model.order import Heartbeat
from dgs.model.tags import Tag
from dgs.workers.sources.rows import Arrivals, Beats, Place, RawRows
from dgs.workers.sources.shaping.mapping import Mapping, TagValueError

ITEM_LENGTH = 3
SINGLES_AT_ONCE = 16_384
"""At most this many single items are collected to one batch."""
MOST_SECONDS = 0.1
"""Single items are collected for this long, or until the next one comes: a generator may wait for each of its items."""


class ItemsReader:
    """Reads items of any of these forms. `where`: their origin, for errors. `first`: the number of the first row."""

    def __init__(
        self, mapping: Mapping, items: Iterable[Any] = (), *, where: str, batch_rows: int, first: int = 0
    ) -> None:
        self._mapping = mapping
        self._items = items
        self._where = where
        self._batch_rows = batch_rows
        self._row = first
        self._tags: dict[Any, Tag] = {}
        self._needed_from = 0

    def skip_to(self, row: int) -> None:
        """Leave out rows before a row, but no heartbeats."""
        self._needed_from = row

    def rows(self) -> Iterator[RawRows | Arrivals]:
        """Yield single events, collected into batches, and whole batches. Raises MalformedRowError for any other item."""
        waiting: list[Any] = []
        most = min(self._batch_rows, SINGLES_AT_ONCE)
        began = time.monotonic()
        for item in self._items:
            if isinstance(item, tuple) and not isinstance(item, EventBatch):
                if self._row < self._needed_from and not isinstance(item, Heartbeat):
                    self._row += 1
                    continue
                waiting.append(item)
                if len(waiting) < most and time.monotonic() < began + MOST_SECONDS:
                    continue
                yield from self._singles(waiting)
            else:
                yield from self._singles(waiting)
                yield from self._many(item)
            waiting, began = [], time.monotonic()
        yield from self._singles(waiting)

    def read(self, item: Any) -> Iterator[RawRows | Arrivals]:
        """Yield the rows of one piece: a table, a batch, or a list of single events. Raises MalformedRowError."""
        if not isinstance(item, list):
            yield from self._many(item)
            return
        most = min(self._batch_rows, SINGLES_AT_ONCE)
        for start in range(0, len(item), most):
            yield from self._singles(item[start : start + most])

    def _many(self, item: Any) -> Iterator[RawRows | Arrivals]:
        """Yield the rows of an item that has several, in batches of `batch_rows` if they are to be cut."""
        if isinstance(item, EventBatch):
            self._check_lengths(item)
            skipped = self._skipped(len(item))
            for start in range(skipped, len(item), self._batch_rows):
                yield from self._batch(item.cut(start, min(start + self._batch_rows, len(item))))
            return
        try:
            named = self._columns(item)
        except MalformedRowError as error:
            yield self._refused(error, item)
            return
        lengths = {name: columns.length(column) for name, column in named.items()}
        if len(set(lengths.values())) > 1:
            raise self._malformed(0, f"the columns of {self._where} differ in length: {lengths}")
        count = next(iter(lengths.values()), 0)
        skipped = self._skipped(count)
        # cutting joins rows of several chunks
        if skipped or count <= self._batch_rows:
            named = {name: columns.cut(column, skipped, count) for name, column in named.items()}
        if skipped < count or not skipped:
            yield RawRows(self._row, count - skipped, named, self._where)
            self._row += count - skipped

    def _check_lengths(self, batch: EventBatch) -> None:
        """Raise MalformedRowError unless a batch has as many payloads and codes as times: machine code would read beyond their ends."""
        parts = (("times", batch.ts), ("payloads", batch.payload), ("codes", batch.codes))
        for count, what in ((count, what) for what, one in parts for count in _lengths(one)):
            if count != len(batch):
                problem = f"{self._where} holds an EventBatch of {len(batch)} events with {count} {what}"
                raise self._malformed(0, problem)
        if batch.ts.ndim != 1:
            raise self._malformed(0, f"{self._where} holds an EventBatch whose times are no row of numbers")

    def _skipped(self, count: int) -> int:
        """Return how many of the next `count` rows are not needed; count them as read."""
        skipped = min(max(self._needed_from - self._row, 0), count)
        self._row += skipped
        return skipped

    def _columns(self, item: Any) -> dict[str, Any]:
        # imported here, since runs over files do not need it
        from dgs.frames.tables import is_table, of_table

        if is_table(item):
            return of_table(item)
        if isinstance(item, dict):
            raise self._malformed(0, self._no_columns(item))
        problem = (
            f"{self._where} holds {type(item).__name__}; expected (tag, ts, payload), Event, Heartbeat, EventBatch, "
            "a dictionary of columns or an Arrow table"
        )
        raise self._malformed(0, problem)

    def _no_columns(self, item: dict[Any, Any]) -> str:
        name, value = next(one for one in item.items() if not columns.is_column(one[1]))
        return (
            f"{self._where} holds a dictionary whose {name!r} is {short_repr(value)}, which is no column: a dictionary has "
            "a list or an array for each column; a single event is a tuple (tag, ts, payload)"
        )

    def _batch(self, batch: EventBatch) -> Iterator[Arrivals]:
        """Yield the events of a batch. If one is bad, try the halves."""
        try:
            arrivals = self._mapping.batch(self._row, batch)
        except MalformedRowError as error:
            if len(batch) > 1 and self._mapping.skips:
                yield from self._batch(batch.cut(0, len(batch) // 2))
                yield from self._batch(batch.cut(len(batch) // 2, len(batch)))
            else:
                yield self._refused(error, [] if batch.payload is None else columns.to_list(batch.payload))
        else:
            self._row += len(batch)
            yield arrivals

    def _singles(self, items: list[Any]) -> Iterator[Arrivals]:
        """Yield single events as a batch. If one is bad, try the halves."""
        if not items:
            return
        try:
            arrivals = self._together(items)
        except MalformedRowError as error:
            if len(items) > 1 and self._mapping.skips:
                yield from self._singles(items[: len(items) // 2])
                yield from self._singles(items[len(items) // 2 :])
            elif isinstance(items[0], Heartbeat):
                raise
            else:
                yield self._refused(error, items[0])
        else:
            self._row += len(arrivals)
            yield arrivals

    def _refused(self, error: MalformedRowError, item: Any) -> Arrivals:
        """Return the placeholder event for a bad item, which counts as a row. Raises the error unless bad rows are skipped."""
        refused = self._mapping.refused(
            error.row, error.problem, item, Place(self._where if self._mapping.skips else "")
        )
        self._row += 1
        return refused

    def _together(self, items: list[Any]) -> Arrivals:
        """Return single items as one batch of arrivals, with the heartbeats between them."""
        times: list[Any] = []
        tags: dict[Tag, int] = {}
        codes: list[int] = []
        payload: list[Any] = []
        before: list[int] = []
        beats: list[Any] = []
        for item in items:
            if isinstance(item, Heartbeat):
                before.append(len(times))
                beats.append(item.ts)
                continue
            tag, ts, value = self._parts(item, len(times))
            times.append(ts)
            codes.append(tags.setdefault(self._tag(tag, len(times) - 1), len(tags)))
            payload.append(value)
        first = self._row
        found = self._mapping.heartbeats(Beats(tuple(before), beats), first)
        if not times:
            return Arrivals(first, np.empty(0, dtype=np.int64), beats=found)
        which = None if len(tags) == 1 else np.array(codes, dtype=np.int32)
        ts_column = self._mapping.clock.times(times, first=first)
        return Arrivals(first, ts_column, tuple(tags), which, as_column(payload), found)

    def _parts(self, item: Any, index: int) -> tuple[Any, Any, Any]:
        if isinstance(item, Event):
            return item.tag, item.ts, item.payload
        if isinstance(item, tuple) and len(item) == ITEM_LENGTH:
            tag, ts, value = item
            return tag, ts, value
        raise self._malformed(index, f"{short_repr(item)} is not an event: expected (tag, ts, payload)")

    def _tag(self, value: Any, index: int) -> Tag:
        try:
            return self._mapping.tagging.tag_of(value)
        except TagValueError as problem:
            raise self._malformed(index, str(problem)) from None

    def _malformed(self, index: int, problem: str) -> MalformedRowError:
        return MalformedRowError(stream=self._mapping.stream, row=self._row + index, problem=problem)


def _lengths(column: Column) -> Iterator[int]:
    """Yield the lengths of the columns that a column consists of."""
    if isinstance(column, dict):
        for part in column.values():
            yield from _lengths(part)
    elif column is not None:
        yield len(column) if hasattr(column, "__len__") else 1  # not a column, such as a number
