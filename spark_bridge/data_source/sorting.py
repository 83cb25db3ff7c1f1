"""Sorted runs: each Spark task sorts its rows into one, and the commit merges them.

The order is that of the event log: by time, then by the given columns, then by all others. So it depends only on the rows, not
on their distribution over tasks, and pieces of fixed length cut from the merged runs are the same at every repeat of the batch.

>>> low, high = pa.table({"ts": [1, 5, 9], "v": [0, 0, 0]}), pa.table({"ts": [2, 5, 7], "v": [0, -1, 0]})
>>> [piece.column("ts").to_pylist() for piece in pieces(merged([low, high], ["ts"], rows=2), 4)]
[[1, 2, 5, 5], [7, 9]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    """Whether the rows are in order. May be False for ordered rows if some columns are hard to compare."""
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


def merged(runs: Sequence[pa.Table], first: Sequence[str], *, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of sorted runs in order, about `rows` at a time. Rows of equal time come together.

    Only the rows yielded are copied: runs may be files mapped into memory.
    """
    runs = [run for run in runs if run.num_rows]
    times = [_integers(run.column(first[0])) for run in runs]
    positions = [0] * len(runs)
    step = max(1, rows // max(1, len(runs)))
    while left := [i for i, run in enumerate(runs) if positions[i] < run.num_rows]:
        ends = [times[i][positions[i] + step - 1] for i in left if positions[i] + step <= len(times[i])]
        cut = min(ends) if ends else None
        parts = []
        for i in left:
            end = len(times[i]) if cut is None else int(np.searchsorted(times[i], cut, side="right"))
            if end > positions[i]:
                parts.append(runs[i].slice(positions[i], end - positions[i]))
                positions[i] = end
        whole = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        yield whole if len(parts) == 1 else in_order(whole.combine_chunks(), first)


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


def _integers(column: pa.ChunkedArray) -> Any:
    array = one_chunk(column)
    return array.cast(pa.int64()).to_numpy() if not pa.types.is_int64(array.type) else array.to_numpy()
