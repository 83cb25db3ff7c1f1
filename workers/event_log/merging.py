"""Sorted runs of rows and their merge: the order depends on the rows alone, not on which task or file a row is in.

The order is that of the event log: by time, then by the given columns, then by all others. A merge reads ahead in each run only
as far as rows of equal time go.

>>> low, high = pa.table({"ts": [1, 5, 9], "v": [0, 0, 0]}), pa.table({"ts": [2, 5, 7], "v": [0, -1, 0]})
>>> runs = [Run.of(low, ["ts"], rows=1), Run.of(high, ["ts"], rows=1)]
>>> [piece.column("ts").to_pylist() for piece in pieces(merged(runs, ["ts"]), 4)]
[[1, 2, 5, 5], [7, 9]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.workers.event_log.event_tables import one_chunk
from dgs.workers.event_log.row_order import sort_keys, sorted_rows


def in_order(table: pa.Table, first: Sequence[str]) -> pa.Table:
    """Return the rows in order; unchanged if a comparison of neighbours shows that they are."""
    return table if is_sorted(table, first) else sorted_rows(table, first)


def is_sorted(table: pa.Table, first: Sequence[str]) -> bool:
    """Return whether the rows are in order. It may be False for ordered rows if some columns are hard to compare."""
    tied: Any = None
    for name in dict.fromkeys([*first, *table.column_names]):
        for key in sort_keys(one_chunk(table.column(name))):
            if key.null_count or len(key) < 2:  # noqa: PLR2004 - neighbours are two
                return len(key) < 2  # noqa: PLR2004
            before, after = key.slice(0, len(key) - 1), key.slice(1)
            falls = pc.greater(before, after)
            if tied is not None:
                falls = pc.and_(falls, tied)
            if pc.any(falls).as_py():
                return False
            equal = pc.equal(before, after)
            tied = equal if tied is None else pc.and_(tied, equal)
            if not pc.any(tied).as_py():
                return True
    return True


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in order of time, as tables that are read one by one. `low`: the least time, raw."""

    low: int
    tables: Iterator[pa.Table]

    @classmethod
    def of(cls, table: pa.Table, first: Sequence[str], *, rows: int) -> Run:
        """Return a sorted table with rows as a run, in parts of `rows` rows. Only the parts are copied, since the table may be a mapped file."""
        low = int(integers(table.slice(0, 1).column(first[0]))[0])
        return cls(low, (table.slice(start, rows) for start in range(0, table.num_rows, rows)))


class _Front:
    """The rows of a run that have been read and not yet merged; there is at least one until it `has_ended`."""

    def __init__(self, tables: Iterator[pa.Table], time: str) -> None:
        self._tables = tables
        self._time = time
        self._rows: pa.Table = None
        self._times: Any = np.empty(0, np.int64)
        self.has_ended = False
        self.extend()

    @property
    def last(self) -> int:
        return int(self._times[-1])

    @property
    def is_empty(self) -> bool:
        return not len(self._times)

    def extend(self) -> None:
        """Read on; at the end of the run set `has_ended`."""
        table = next((found for found in self._tables if found.num_rows), None)
        if table is None:
            self.has_ended = True
            return
        self._rows = table if self.is_empty else pa.concat_tables([self._rows, table]).combine_chunks()
        self._times = integers(self._rows.column(self._time))

    def take(self, below: int | None) -> pa.Table:
        """Remove and return the rows before a time; all rows if no time is given."""
        end = len(self._times) if below is None else int(np.searchsorted(self._times, below))
        taken = self._rows.slice(0, end)
        self._rows, self._times = self._rows.slice(end), self._times[end:]
        if self.is_empty and not self.has_ended:
            self.extend()
        return taken


def merged(runs: Sequence[Run], first: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of sorted runs in order, rows of equal time in one table. No table is empty. A run is opened when its first time is reached."""
    waiting = sorted(runs, key=lambda run: run.low, reverse=True)
    fronts: list[_Front] = []
    while waiting or fronts:
        open_ends = [front.last for front in fronts if not front.has_ended]
        reach = min(open_ends) if open_ends else max((front.last for front in fronts), default=None)
        if waiting and (reach is None or waiting[-1].low <= reach):
            fronts.append(_Front(waiting.pop().tables, first[0]))
        else:
            cut = min(open_ends) if open_ends else None
            parts = [part for front in fronts if (part := front.take(cut)).num_rows]
            if parts:
                yield in_order(pa.concat_tables(parts).combine_chunks(), first)
            else:  # all that was read has the same time
                for front in fronts:
                    if not front.has_ended and front.last == cut:
                        front.extend()
        fronts = [front for front in fronts if not front.is_empty]


def pieces(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows as tables of exactly `rows` rows; the last one may have fewer. Without rows nothing is yielded."""
    waiting: list[pa.Table] = []
    have = 0
    for table in tables:
        waiting.append(table)
        have += table.num_rows
        while have >= rows:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows).combine_chunks()
            have -= rows
            waiting = [whole.slice(rows)]
    if have:
        yield pa.concat_tables(waiting).combine_chunks()


def integers(column: pa.ChunkedArray) -> Any:
    """Return times as integers."""
    array = one_chunk(column)
    return array.cast(pa.int64()).to_numpy() if not pa.types.is_int64(array.type) else array.to_numpy()
