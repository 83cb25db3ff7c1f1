"""The rows that readers deliver: `RawRows` with named columns, `Arrivals` (events in any order), and `Live`, which delivers by a clock.

>>> rows = RawRows(0, 3, {"ts": [1, 2, 3]}, where="clicks.csv")
>>> [piece.columns["ts"] for piece in rows.pieces(2)]
[[1, 2], [3]]

Events of live sources arrive by a clock, and reading neither runs ahead of it nor waits for it. A `Live` is the part of a source before its
ordering. It never blocks, and tells for how long there will be no events. Clocks are arguments, in nanoseconds, so that tests need no real
one.

>>> time = LiveTime(linger=5_000_000, elapsed=lambda: 0, now=lambda: 1_700_000_000 * 10**9)
>>> time.now() // 10**9
1700000000
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs import codec
from dgs.errors import CodecError, MalformedRowError
from dgs.model import columns
from dgs.model.columns import Column, RowNumbers, as_column
from dgs.model.events import Codes, Int64s
from dgs.model.order import MIN_TS, OrderKey
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.semantics.skipped_events import UnreadableRow

_FAILURES = (OverflowError, ValueError, pa.ArrowException, KeyError)
"""A UnicodeDecodeError is a ValueError, an unknown time zone a KeyError."""


@dataclass(frozen=True, slots=True)
class Beats:
    """Heartbeats among rows: `before[i]` is the index of the row that heartbeat `ts[i]` comes before (n: after the last).

    `ts` are raw values of the time column in `RawRows`, and int64s of the plan's unit in `Arrivals`.
    """

    before: tuple[int, ...] = ()
    ts: Any = ()


NO_BEATS = Beats()


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a row, for errors: its file ("" without one), and the number of its `line` or `row` in the file, from 1."""

    file: str = ""
    number: int | None = None
    what: str = "line"

    def __str__(self) -> str:
        if not self.file:
            return ""
        return f" ({self.file})" if self.number is None else f" ({self.file}, {self.what} {self.number})"


Places = Callable[[int], Place]
"""The place of each row of a stream."""


def nowhere(_row: int) -> Place:
    """Return the place of a row that is not from a file."""
    return Place()


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows `first`, `first + 1`, ... of a stream as named columns, all of `count` values. `where`: the file, for errors.

    Heartbeats are not rows and have no row number. `place` returns the place of each row, also for errors.
    """

    first: int
    count: int
    columns: Mapping[str, Column]
    where: str
    beats: Beats = NO_BEATS
    place: Places = nowhere

    def pieces(self, size: int) -> Iterator[RawRows]:
        """Yield the rows in pieces of at most `size`. Only rows without heartbeats are cut."""
        if self.count <= size or self.beats.before:
            yield self
            return
        for start in range(0, self.count, size):
            yield self.cut(start, min(start + size, self.count))

    def cut(self, start: int, stop: int) -> RawRows:
        """Return the rows `start` to `stop` - 1 and the heartbeats before them. Heartbeats after all rows go with the last."""
        part = {name: columns.cut(column, start, stop) for name, column in self.columns.items()}
        beats = NO_BEATS
        if self.beats.before:
            ends = self.count if stop == self.count else stop - 1
            here = [i for i, before in enumerate(self.beats.before) if start <= before <= ends]
            before = tuple(self.beats.before[i] - start for i in here)
            beats = Beats(before, [self.beats.ts[i] for i in here])
        return RawRows(self.first + start, stop - start, part, self.where, beats, self.place)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Events as they arrived, in any order: times in the plan's unit, tags, payload, and the heartbeats among them.

    `is_unreadable`: the events stand for rows that could not be read. They take the times of the rows before them.
    """

    first: int
    ts: Int64s
    tags: tuple[Tag, ...] = ()
    codes: Codes | None = None
    payload: Column = None
    beats: Beats = NO_BEATS
    is_unreadable: bool = False

    def __len__(self) -> int:
        return len(self.ts)

    def cut(self, start: int, stop: int) -> Arrivals:
        """Return views of the events `start` to `stop` - 1. A heartbeat goes with the event before it."""
        if start == 0 and stop == len(self):
            return self
        beats = [
            (b, ts)
            for b, ts in zip(self.beats.before, self.beats.ts, strict=True)
            if (b > start or start == 0) and b <= stop
        ]
        return Arrivals(
            self.first + start,
            self.ts[start:stop],
            self.tags,
            None if self.codes is None else self.codes[start:stop],
            None if self.payload is None else columns.cut(self.payload, start, stop),
            Beats(tuple(b - start for b, _ in beats), [ts for _, ts in beats]) if beats else NO_BEATS,
            self.is_unreadable,
        )

    @property
    def seq(self) -> RowNumbers:
        """The raw row numbers of the events."""
        return RowNumbers(self.first, len(self.ts))


def unreadable(tag: Tag, error: MalformedRowError, row: Any, place: Place = Place()) -> Arrivals:
    """Return the event that stands for a row that could not be read. `row`: its readable part."""
    try:
        codec.encode(row)
    except CodecError:
        row = shown(row)
    told = UnreadableRow(row, place.file, place.number, str(error))
    return Arrivals(int(error.row), np.array([MIN_TS]), (tag,), payload=[told], is_unreadable=True)


def settled(column: Column) -> Column:
    """Return a column with the same values in the best form for programs.

    Numbers without nulls become NumPy arrays, others Arrow arrays or lists. Arrow dictionaries and chunks are resolved.
    """
    if isinstance(column, list):
        return as_column(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = _microseconds(column)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not (plain or pa.types.is_boolean(column.type)):
        return column
    return column.to_numpy(zero_copy_only=False)


def _microseconds(column: Any) -> Any:
    """Return times in microseconds, which Python's datetime can hold, also in records and lists, if that loses nothing."""
    wanted = _in_microseconds(column.type)
    if wanted == column.type:
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        return column


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type with microseconds in place of nanoseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_in_microseconds(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    return kind


def first_unheld(column: Column) -> tuple[int, str] | None:
    """Return the first row of a column whose value Python cannot represent, with a description of it; None if there is none.

    Examples are times beyond the years 1 to 9999 or in an unknown zone, and text that is not UTF-8.

    >>> first_unheld(pa.array([0, 10**13]).cast(pa.timestamp("s"))), first_unheld(pa.array([0, 1]).cast(pa.timestamp("s")))
    ((1, 'a timestamp[s] beyond the years 1 to 9999, or finer than Python holds'), None)
    """
    if not isinstance(column, pa.Array) or _is_held(column):
        return None
    for row in range(len(column)):
        try:
            column[row].as_py()
        except _FAILURES:
            return row, _named(column.type)
    return None


def readable(column: Column) -> Any:
    """Return the first value of a column, or a description if Python cannot represent it."""
    try:
        return columns.to_list(columns.cut(column, 0, 1))[0]
    except _FAILURES:
        return f"({_named(getattr(column, 'type', None))})"


def _is_held(column: pa.Array) -> bool:
    """Return whether Python can certainly represent all values. For times only the extremes are looked at, for numbers nothing."""
    kind = column.type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
            extremes = pc.min_max(column)
            _ = extremes["min"].as_py(), extremes["max"].as_py()
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
            column.validate(full=True)
        elif pa.types.is_nested(kind):
            column.validate(full=True)
            if _has_times(kind) or _has_a_field_twice(kind):
                column.to_pylist()
    except _FAILURES:
        return False
    return True


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind))


def _has_a_field_twice(kind: pa.DataType) -> bool:
    fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    names = {field.name for field in fields}
    is_twice = pa.types.is_struct(kind) and len(names) < len(fields)
    return is_twice or any(_has_a_field_twice(field.type) for field in fields)


def _named(kind: Any) -> str:
    if _has_a_field_twice(kind):
        return f"a {kind}, which has a field twice"
    if pa.types.is_timestamp(kind) and not _is_zone(kind):
        return f"a {kind}, whose time zone is not known"
    if pa.types.is_temporal(kind):
        return f"a {kind} beyond the years 1 to 9999, or finer than Python holds"
    if pa.types.is_nested(kind):
        return f"a {kind} with text that is not UTF-8, or a time beyond the years 1 to 9999 or in an unknown zone"
    return "text that is not UTF-8"


def _is_zone(kind: pa.TimestampType) -> bool:
    try:
        pa.scalar(0, kind).as_py()
    except _FAILURES:
        return False
    return True


SECOND = 10**9
"""A second in nanoseconds."""


class Live(ABC, Iterator[Arrivals]):
    """Events as they arrive. Laws: `next` never blocks; StopIteration means that nothing will ever come again."""

    @abstractmethod
    def wait(self) -> float:
        """Return the seconds until `next` may return events, 0 for now. Before that it returns none."""

    def begin_at(self, base: OrderKey) -> None:
        """Note, before the first call of `next`, that a run resumes at this key. Events below it need not wait for a clock."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open. It may be called twice."""


@dataclass(frozen=True)
class LiveTime:
    """The clocks that the live sources of one host share, in nanoseconds.

    `linger`: how long a row may wait for more. `elapsed`: since the host began to read, by a clock that never jumps.
    `now`: since 1970-01-01 UTC.
    """

    linger: int
    elapsed: Callable[[], int]
    now: Callable[[], int] = time.time_ns


class Stopwatch:
    """Nanoseconds since its first call, by the clock of this machine. `began`: the time of that call, None before.

    >>> watch = Stopwatch(iter([500, 520]).__next__)
    >>> watch(), watch(), watch.began
    (0, 20, 500)
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self.began: int | None = None

    def __call__(self) -> int:
        """Return the time since the first call."""
        now = self._clock()
        if self.began is None:
            self.began = now
        return now - self.began


def nothing(first: int, beat: int | None = None) -> Arrivals:
    """Return an Arrivals without rows, before row `first`, with or without a heartbeat."""
    beats = NO_BEATS if beat is None else Beats((0,), np.array([beat], dtype=np.int64))
    return Arrivals(first, np.empty(0, dtype=np.int64), beats=beats)
