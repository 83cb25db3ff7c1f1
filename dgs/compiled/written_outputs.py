"""The outputs of a compiled loop: what it wrote at each call of `emit`, as one batch of outputs in the order of the events.

Unchanged inputs go out as their columns. Only computed values were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.compiled.lowering.statements import Site
from dgs.compiled.lowering.value_types import KEPT, NONE, NUMBERS, Type
from dgs.compiled.lowering.values import Value
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.vectorised import spread

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]


class Written:
    """The outputs of a batch: arrays for the loop to write to, and outputs of the events that the interpreter processed.

    `room`: the arrays are reused for other batches, of at most so many events. None: the arrays themselves go out.
    """

    def __init__(
        self,
        batch: EventBatch,
        sites: Sequence[Site],
        objects: Callable[[Array], Column],
        *,
        room: int | None = None,
    ) -> None:
        self.batch, self._sites, self._objects, self._is_kept = batch, sites, objects, room is not None
        count = len(batch) if room is None else room
        self._counts = np.zeros(max(1, len(sites)), np.int64)
        self._columns = [[np.empty(count, np.dtype(of)) for of in site.columns] for site in sites]
        self._rows = [np.empty(0 if site.is_always else count, np.int64) for site in sites]
        self._others: list[tuple[Rows | None, Column]] = []
        self._others_rows: list[Rows] = []

    def begin(self, batch: EventBatch) -> None:
        """Go on with another batch. The outputs of the previous one have been taken."""
        self.batch = batch
        self._counts.fill(0)
        self._others, self._others_rows = [], []

    @property
    def arguments(self) -> list[Array]:
        """The arrays that the loop writes to, in the order of its arguments."""
        rows = [rows for rows, site in zip(self._rows, self._sites, strict=True) if not site.is_always]
        return [self._counts, *(column for columns in self._columns for column in columns), *rows]

    def add(self, start: int, stop: int, outputs: Sequence[OutputBatch]) -> None:
        """Add the outputs of events that the interpreter has processed."""
        self._others_rows.append(np.arange(start, stop))
        seq = np.asarray(self.batch.seq)[start:stop]
        self._others += [(start + np.searchsorted(seq, np.asarray(one.seq)), one.values) for one in outputs]

    def outputs(self) -> OutputBatch | None:
        """Return all outputs; None if there are none."""
        counts = self._counts.tolist()
        sites = [site for site in self._sites if site.is_always or counts[site.number]]
        if not (sites or self._others):
            return None
        parts = [self._part(site, counts[site.number]) for site in sites] + self._others
        parts = [(rows, values) for rows, values in parts if rows is None or len(rows)]
        if len(parts) <= 1:
            return None if not parts else OutputBatch.of_rows(self.batch, parts[0][1], parts[0][0])
        every = np.concatenate([self._all_rows if rows is None else rows for rows, _ in parts])
        order = np.argsort(every, kind="stable")  # outputs of one event stay in the order of the text
        values = columns.take(columns.concat([values for _, values in parts]), order)
        return OutputBatch.of_rows(self.batch, values, every[order])

    @property
    def _all_rows(self) -> Rows:
        return np.arange(len(self.batch))

    def _part(self, site: Site, count: int) -> tuple[Rows | None, Column]:
        """Return the rows of the events that reached a site, None for all, and the values that they emitted."""
        rows = None
        count = len(self.batch) if site.is_always else count
        written = [self._own(column, count) for column in self._columns[site.number]]
        if not site.is_always:
            rows = self._own(self._rows[site.number], count)
        elif self._others_rows:
            rows = np.delete(self._all_rows, np.concatenate(self._others_rows))
            written = [column[rows] for column in written]
        return rows, self._column(site.value, iter(written), rows)

    def _own(self, column: Array, count: int) -> Array:
        return column[:count].copy() if self._is_kept else column[:count]

    def _column(self, value: Value, written: Iterator[Array], rows: Rows | None) -> Column:
        """Return a value of a site for some events."""
        count = len(self.batch) if rows is None else len(rows)
        if value.is_known:
            return [value.constant] * count
        if value.origin is not None:
            column = self._column_of(value.origin)
            return column if rows is None else columns.take(column, rows)
        if value.type.name == "record":
            parts = zip(value.type.names, value.parts, strict=True)
            return {name: self._column(part, written, rows) for name, part in parts}
        if value.type.name in ("tuple", "fields"):
            lists = [columns.to_list(self._column(part, written, rows)) for part in value.parts]
            found = zip(*lists, strict=True) if lists else iter([()] * count)
            return list(found) if value.type.of is None else [value.type.of(*one) for one in found]
        return self._of_arrays(value.type, written, count)

    def _column_of(self, origin: tuple[str, ...]) -> Column:
        batch = self.batch
        if origin[0] == "payload":
            return batch.payload
        if origin[0] == "field":
            return batch.payload[origin[1]]
        if origin[0] == "ts":
            return batch.ts
        keys = [tag.key for tag in batch.tags]
        if batch.codes is None or len(keys) == 1:
            return spread(keys[:1], None, len(batch))
        codes = columns.as_arrow(batch.codes)  # the loop has used the numbers, so they are in range
        return spread(keys, codes, len(batch))

    def _of_arrays(self, of: Type, written: Iterator[Array], count: int) -> Column:
        """Return a column of a type, made of the arrays with its scalars."""
        if of == NONE:
            return [None] * count
        if of in NUMBERS:
            return next(written)
        if of == KEPT:
            return self._objects(next(written))
        if of.is_optional:
            is_there = next(written)
            column = self._of_arrays(of.parts[0], written, count)
            if of.parts[0] in NUMBERS:
                return column if is_there.all() else pa.array(column, mask=~is_there)
            return [
                one if known else None for one, known in zip(columns.to_list(column), is_there, strict=True)
            ]
        lists = [columns.to_list(self._of_arrays(part, written, count)) for part in of.parts]
        return [of.of(*one) if of.of else one for one in zip(*lists, strict=True)]
