"""`Compact`: the kept state of a stream, as rows by key: in runs of falling size, and the newest few in a dictionary.

A join appends, and merges runs when there are `ALIKE` of about the same size: rows are touched about as often as there are sizes, not as
often as there are joins. Two states of the same content are equal and have the same bytes, whatever their runs: on its way through the
codec a state is one run in the order of its keys.

- `runs`: runs and their merging, `number_runs` of those that are numbers alone; `arrow_rows`: rows as Arrow tables and back.
- `arrow_scalars`, `arrow_plans`, `arrow_joins`: scalars and relations that Arrow computes; `answering`, `iterate`: answers over states.

>>> from dgs.query.types import INT, Schema
>>> layout = Layout(Schema.of(k=INT, w=INT), 1, ("sum",))
>>> one, other = Compact.of_parts(layout, {(1,): (2,)}), Compact.of_parts(layout, {(1,): (-2,), (3,): (1,)})
>>> dict(one.joined(other).parts())
{(3,): (1,)}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dgs import codec
from dgs.query.compact.arrow_rows import arrow_schema
from dgs.query.compact.runs import (
    Layout,
    Parts,
    add_parts,
    check_support,
    in_order,
    inserted,
    merged,
    of_parts,
    rows_in,
    without_zeros,
)
from dgs.query.scalar import Row
from dgs.query.types import Schema, Type

__all__ = ["Compact", "Layout", "check_support"]

SMALL = 200
"""The most rows in the dictionary: below it a join of dictionaries is faster than one of tables."""

ALIKE = 4
"""This many runs of one size, up to this factor, are merged."""


class Compact:
    """The compaction of some rows. `joined` owns both states.

    `few`: parts by key; `runs`: tables of falling size, the first in the order of its keys if `is_sorted`. A key may be in several of them.
    `touched`: the number of rows that merging has written.
    """

    __slots__ = ("few", "is_sorted", "layout", "runs", "touched")

    def __init__(self, layout: Layout, few: Parts, runs: list[pa.Table]) -> None:
        self.layout = layout
        self.few, self.runs = few, runs
        self.is_sorted = False
        self.touched = 0

    @classmethod
    def empty(cls, layout: Layout) -> Compact:
        """Return the compaction of no rows."""
        return cls(layout, {}, [])

    @classmethod
    def of_parts(cls, layout: Layout, parts: Parts) -> Compact:
        """Return the compaction of parts by key."""
        made = cls(layout, parts, [])
        made._shrink()
        return made

    @classmethod
    def of_run(cls, layout: Layout, run: pa.Table) -> Compact:
        """Return the compaction of a table that has each key once."""
        run = without_zeros(run, layout)
        if len(run) > SMALL:
            return cls(layout, {}, [run])
        few: Parts = {}
        for key, parts in rows_in(run, layout):
            add_parts(few, key, parts, layout)
        return cls(layout, few, [])

    def joined(self, other: Compact) -> Compact:
        """Return the compaction of the rows of both. Raises QueryError Q701 for a sum beyond 64 bits."""
        large, small = (self, other) if len(self.few) >= len(other.few) else (other, self)
        for key, parts in small.few.items():
            add_parts(large.few, key, parts, self.layout)
        made = Compact(self.layout, large.few, [*self.runs, *other.runs])
        made.touched = self.touched + other.touched
        made._shrink()
        ordered = [one.runs[0] for one in (self, other) if one.is_sorted and one.runs]
        made.is_sorted = any(one is first for first in made.runs[:1] for one in ordered)
        return made

    def _shrink(self) -> None:
        """Make a run of a large dictionary, and merge runs of one size if there are many."""
        if len(self.few) > SMALL:
            self.runs.append(of_parts(self.few, self.layout))
            self.few = {}
        by_size: dict[int, list[pa.Table]] = {}
        for one in self.runs:
            by_size.setdefault(_size(one), []).append(one)
        while alike := next((runs for runs in by_size.values() if len(runs) >= ALIKE), None):
            self.touched += sum(map(len, alike))
            made = merged(alike, self.layout)
            alike.clear()
            by_size.setdefault(_size(made), []).append(made)
        self.runs = sorted(
            (one for runs in by_size.values() for one in runs if len(one)), key=len, reverse=True
        )

    def table(self) -> pa.Table:
        """Return all rows as one run in the order of its keys; the state then consists of that run."""
        runs = self.runs + ([of_parts(self.few, self.layout)] if self.few else [])
        base, *rest = runs or [arrow_schema(self.layout.schema).empty_table()]
        if not self.is_sorted or not self.runs:
            base = in_order(base, self.layout)
        if rest:
            new = merged(rest, self.layout) if len(rest) > 1 else rest[0]
            self.touched += len(new) + len(base)
            found = inserted(base, new, self.layout)
            base = in_order(merged([base, new], self.layout), self.layout) if found is None else found
        self.runs, self.few, self.is_sorted = [base] if len(base) else [], {}, True
        return base

    def parts(self) -> Iterable[tuple[Row, Row]]:
        """Return the keys with their parts, in the order of the keys."""
        return rows_in(self.table(), self.layout)

    def __len__(self) -> int:
        return len(self.few) + sum(map(len, self.runs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compact) and codec.encode(self) == codec.encode(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Compact({', '.join(self.layout.schema.names)}: {len(self)} rows)"


def _size(run: pa.Table) -> int:
    """Return the logarithm of the number of rows, to the base `ALIKE`, without its fraction."""
    return int(math.log(max(len(run), 1), ALIKE))


def _to(state: Compact) -> Any:
    layout, table = state.layout, state.table()
    plain: dict[str, pa.Array] = {}
    rest: dict[str, pa.Array] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        is_plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        (plain if is_plain and not column.null_count else rest)[name] = column
    types = [[name, _type_data(of)] for name, of in layout.schema.fields]
    arrays = {name: np.asarray(column) for name, column in plain.items()}
    return [types, layout.keys, list(layout.merges), arrays, pa.table(rest) if rest else None]


def _from(content: Any) -> Compact:
    types, keys, merges, arrays, rest = content
    layout = Layout(Schema(tuple((name, _type_of(of)) for name, of in types)), keys, tuple(merges))
    columns = [arrays[name] if name in arrays else rest[name] for name in layout.schema.names]
    table = pa.table(dict(zip(layout.schema.names, columns, strict=True)), schema=arrow_schema(layout.schema))
    if len(table) <= SMALL:
        return Compact.of_run(layout, table)
    made = Compact(layout, {}, [table])
    made.is_sorted = True
    return made


def _type_data(of: Type) -> Any:
    if of.of is not None:
        return [of.kind, _type_data(of.of)]
    return [of.kind, [[name, _type_data(one)] for name, one in of.fields]] if of.kind == "record" else of.kind


def _type_of(data: Any) -> Type:
    if isinstance(data, str):
        return Type(data)
    kind, inner = data
    if kind == "record":
        return Type(kind, None, tuple((name, _type_of(one)) for name, one in inner))
    return Type(kind, _type_of(inner))


codec.register(Compact, to=_to, from_=_from, name="dgs.query.Compact")
