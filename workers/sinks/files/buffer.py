"""A buffer that collects outputs to be written together, because writing small batches one by one is slow.

Columns of one form are concatenated. If forms differ, there is a column for each, and `order` gives the order in which their rows
came. So frequent views and the rare updates between them stay columns.

>>> waiting = Waiting()
>>> for column in ({"page": np.array([1])}, ["text"], {"page": np.array([2])}):
...     waiting.add(column)
>>> waiting.take()
([{'page': array([1, 2])}, ['text']], array([0, 2, 1]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dgs.model import columns
from dgs.model.columns import Column, Indices


class Waiting:
    """Collected columns. `rows`: the number of waiting rows."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self.rows = 0

    def add(self, column: Column) -> None:
        """Append a column."""
        self._columns.append(column)
        self.rows += columns.length(column)

    def take(self) -> tuple[list[Column], Indices | None]:
        """Remove all rows. Return a column per form, and for each row, in order, its index in these columns put end to end.

        The order is None if the rows are already in order.
        """
        waiting, self._columns, self.rows = self._columns, [], 0
        groups: dict[Any, list[int]] = {}
        for number, column in enumerate(waiting):
            groups.setdefault(_form(column), []).append(number)
        parts = [columns.concat([waiting[number] for number in group]) for group in groups.values()]
        if len(groups) <= 1:
            return parts, None
        lengths = np.array([columns.length(column) for column in waiting])
        place = np.array([number for group in groups.values() for number in group])
        first = np.empty(len(place), dtype=np.intp)
        first[place] = np.cumsum(lengths[place]) - lengths[place]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return parts, np.repeat(first, lengths) + within


def _form(column: Column) -> Any:
    """Return the form of a column. `concat` joins columns of one form without looking at their values."""
    if isinstance(column, dict):
        return tuple((name, _form(part)) for name, part in column.items())
    if isinstance(column, np.ndarray):
        return column.dtype
    return column.type if isinstance(column, (pa.Array, pa.ChunkedArray)) else list
