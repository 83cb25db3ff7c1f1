"""Runs: tables of one row for each key, and the ways to merge them.

Rows of one key become one: parts are added, or the least or greatest is kept. A key whose sums are all 0 is left out. A key of
weight 0 with another sum stays, since rows that balance it may still come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dgs.query.compact import number_runs
from dgs.query.compact.arrow_rows import arrow_schema, from_arrow, to_arrow
from dgs.query.compact.number_runs import numbers_of
from dgs.query.errors import QueryError
from dgs.query.meanings import number
from dgs.query.scalar import Row
from dgs.query.types import GREATEST_INT, Schema, order_key

FEW = 8
"""A run this many times as large as another (or as large, if the key is one number) is searched for the other's keys; otherwise both are merged."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a run: the first `keys` are the key, the others are parts, each with how two of them are merged."""

    schema: Schema
    keys: int
    merges: tuple[str, ...]

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self.schema.names[: self.keys]

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the part columns."""
        return self.schema.names[self.keys :]

    @property
    def has_flat_keys(self) -> bool:
        """Whether Arrow can group by the keys."""
        return not any(one.of is not None or one.kind == "record" for one in self.schema.types[: self.keys])


Parts = dict[Row, Row]
"""Parts by key."""


def add_parts(into: Parts, key: Row, parts: Row, layout: Layout) -> None:
    """Add the parts of a key to others. Raises QueryError Q701."""
    known = into.get(key)
    if known is not None:
        parts = tuple(map(_one, known, parts, layout.merges))
    if any(one for one, merge in zip(parts, layout.merges, strict=True) if merge == "sum"):
        into[key] = parts
    else:
        into.pop(key, None)


def _one(left: Any, right: Any, merge: str) -> Any:
    if merge == "sum":
        return number(left + right)
    if left is None or right is None:
        return right if left is None else left
    return (min if merge == "min" else max)(left, right, key=order_key)


def rows_in(table: pa.Table, layout: Layout) -> Iterable[tuple[Row, Row]]:
    """Yield the key and the parts of each row."""
    for row in from_arrow(table, layout.schema):
        yield row[: layout.keys], row[layout.keys :]


def of_parts(parts: Parts, layout: Layout) -> pa.Table:
    """Return the run of parts by key."""
    return to_arrow([key + values for key, values in parts.items()], layout.schema)


def merged(runs: Sequence[pa.Table], layout: Layout) -> pa.Table:
    """Return one run of several, each of which has a key once. Raises QueryError Q701."""
    if not layout.has_flat_keys or any(_may_overflow(name, runs) for name in _sums(layout)):
        found: Parts = {}
        for run in runs:
            for key, parts in rows_in(run, layout):
                add_parts(found, key, parts, layout)
        return of_parts(found, layout)
    found_numbers = _merged_numbers(runs, layout)
    if found_numbers is not None:
        return found_numbers
    aggregations = list(zip(layout.part_names, layout.merges, strict=True))
    grouped = pa.TableGroupBy(pa.concat_tables(runs), list(layout.key_names), use_threads=False)
    made = grouped.aggregate(aggregations)
    columns = [made[name] for name in layout.key_names] + [
        made[f"{name}_{how}"] for name, how in aggregations
    ]
    return without_zeros(pa.Table.from_arrays(columns, schema=arrow_schema(layout.schema)), layout)


def _sums(layout: Layout) -> list[str]:
    sums = zip(layout.part_names, layout.schema.types[layout.keys :], layout.merges, strict=True)
    return [name for name, of, merge in sums if merge == "sum" and of.kind == "int64"]


def _may_overflow(name: str, runs: Sequence[pa.Table]) -> bool:
    """Return whether a sum over the runs may exceed 64 bits. Every run has a key at most once."""
    total = 0
    for run in runs:
        bounds = pc.min_max(run[name])
        total += max(abs(bounds["min"].as_py() or 0), abs(bounds["max"].as_py() or 0))
    return total > GREATEST_INT


def without_zeros(table: pa.Table, layout: Layout) -> pa.Table:
    """Return a table without the rows whose sums are all 0."""
    kept: Any = None
    for name, merge in zip(layout.part_names, layout.merges, strict=True):
        if merge == "sum":
            one = pc.not_equal(table[name], 0)
            kept = one if kept is None else pc.or_(kept, one)
            if pc.all(kept).as_py() is not False:  # mostly decided by the weights alone
                return table
    return table.filter(kept)


def in_order(table: pa.Table, layout: Layout) -> pa.Table:
    """Return a run in the order of its keys."""
    if len(table) < 2 or not layout.keys:  # noqa: PLR2004 - nothing to sort
        return table.combine_chunks()
    if not layout.has_flat_keys:
        return to_arrow(sorted(from_arrow(table, layout.schema), key=order_key), layout.schema)
    numbers = numbers_of(table)
    ordered = None if numbers is None else number_runs.in_key_order(numbers, layout.keys)
    if ordered is not None:
        return table.combine_chunks() if ordered is numbers else _table(ordered, layout)
    order = pc.sort_indices(table, [(name, "ascending") for name in layout.key_names])
    return table.take(order).combine_chunks()


def inserted(base: pa.Table, new: pa.Table, layout: Layout) -> pa.Table | None:
    """Return the run of a large one in order and a small one, made by searching; None if only merging can do it."""
    if (
        not layout.keys
        or len(base) < (1 if layout.keys == 1 else FEW) * len(new)
        or set(layout.merges) != {"sum"}
        or any(_may_overflow(name, (base, new)) for name in _sums(layout))
    ):
        return None
    large, small = numbers_of(base), numbers_of(in_order(new, layout))
    if large is None or small is None:
        return None
    return without_zeros(_table(number_runs.inserted(large, small, layout.keys), layout), layout)


def _merged_numbers(runs: Sequence[pa.Table], layout: Layout) -> pa.Table | None:
    """Return several runs as one in order, None if a column is not of numbers."""
    numbers = [one for one in map(numbers_of, runs) if one is not None]
    made = number_runs.united(numbers, layout.keys, layout.merges) if len(numbers) == len(runs) else None
    return None if made is None else without_zeros(_table(made, layout), layout)


def _table(columns: number_runs.Run, layout: Layout) -> pa.Table:
    return pa.Table.from_arrays([pa.array(one) for one in columns], schema=arrow_schema(layout.schema))


def check_support(table: pa.Table, layout: Layout, of: str, *, drops: bool) -> pa.Table:
    """Return the rows of positive weight. Raises QueryError Q702, unless it `drops` them, for one of negative weight, or of none and with sums."""
    weights = table[layout.part_names[0]]
    if pc.all(pc.greater(weights, 0)).as_py() is not False:
        return table
    is_wrong = pc.less(weights, 0)
    for name in _sums(layout):  # not of floats: a rounding error is not a row
        is_wrong = pc.or_kleene(is_wrong, pc.and_kleene(pc.equal(weights, 0), pc.not_equal(table[name], 0)))
    wrong = table.filter(is_wrong)
    if len(wrong) and not drops:
        row = dict(zip(layout.schema.names, from_arrow(wrong.slice(0, 1), layout.schema)[0], strict=True))
        key = {name: row[name] for name in layout.key_names}
        more = -row[layout.part_names[0]]
        what = (
            f"{more} more deletions than insertions of"
            if more
            else "deletions that are of no insertion among the"
        )
        problem = f"{of} has {what} rows with {key}"
        raise QueryError.of("Q702", problem, "Give `on_negative: drop` to leave such rows out.", row=key)
    return table.filter(pc.greater(weights, 0))
