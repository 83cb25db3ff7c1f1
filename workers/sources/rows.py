"""The rows that readers deliver: `RawRows` with named columns, and `Arrivals`, which are events in any order.

>>> rows = RawRows(0, 3, {"ts": [1, 2, 3]}, where="clicks.csv")
>>> [piece.columns["ts"] for piece in rows.pieces(2)]
[[1, 2], [3]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import Codes, Int64s
from dgs.model.row_numbers import RowNumbers
from dgs.model.tags import Tag


@dataclass(frozen=True, slots=True)
class Beats:
    """Heartbeats among rows: `before[i]` is the index of the row that heartbeat `ts[i]` comes before (n: after the last).

    `ts` are raw values of the time column in `RawRows`, and int64s of the plan's unit in `Arrivals`.
    """

    before: tuple[int, ...] = ()
    ts: Any = ()


NO_BEATS = Beats()


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows `first`, `first + 1`, ... of a stream as named columns, all of `count` values. `where`: the file, for errors.

    Heartbeats take no row number.
    """

    first: int
    count: int
    columns: Mapping[str, Column]
    where: str
    beats: Beats = NO_BEATS

    def pieces(self, size: int) -> Iterator[RawRows]:
        """Yield the rows in pieces of at most `size`. Only rows without heartbeats are cut."""
        if self.count <= size or self.beats.before:
            yield self
            return
        for start in range(0, self.count, size):
            stop = min(start + size, self.count)
            part = {name: columns.cut(column, start, stop) for name, column in self.columns.items()}
            yield RawRows(self.first + start, stop - start, part, self.where)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Events in the order of arrival: times in the plan's unit, tags, payload, and the heartbeats among them."""

    first: int
    ts: Int64s
    tags: tuple[Tag, ...] = ()
    codes: Codes | None = None
    payload: Column = None
    beats: Beats = NO_BEATS

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
        )

    @property
    def seq(self) -> RowNumbers:
        """The raw row numbers of the events."""
        return RowNumbers(self.first, len(self.ts))
