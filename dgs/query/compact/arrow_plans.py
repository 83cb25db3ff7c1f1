"""Relations computed by Arrow: filters, columns, joins, groups and orders. A statement of DuckDB would take milliseconds to plan.

A plan returns None if Arrow would differ from the interpreter, for instance for a sum beyond 64 bits. Then DuckDB computes it.

>>> from dgs.query.relation import Aggregate, column
>>> from dgs.query.types import INT, TEXT
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> by = Group(flights, (("carrier", column("carrier")),), (("s", Aggregate("sum", (column("delay"),))),))
>>> planned(by)({"flights": pa.table({"carrier": ["UA", "AA", "UA"], "delay": [5, 1, None]})}).to_pydict()
{'carrier': ['UA', 'AA'], 's': [5, 1]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.compact.arrow_joins import Known
from dgs.query.compact.arrow_rows import arrow_schema, whole
from dgs.query.compact.arrow_scalars import (
    FLAT,
    Form,
    Names,
    NotInArrow,
    Rows,
    Values,
    array_of,
    in_arrow,
    product,
    refuse_nan,
)
from dgs.query.compact.number_runs import grouped
from dgs.query.relation import Group, Join, Map, Order, Relation, Source, Where
from dgs.query.split import WEIGHT
from dgs.query.split.exact_sums import NEGATIVE, totals
from dgs.query.types import GREATEST_INT, Schema

MOST_JOINED = 200_000
"""The most rows of both sides of a join together: beyond, a statement of DuckDB is as cheap."""

MOST_PAIRS = 1_000_000
"""The most pairs of a join: here all are in memory, and DuckDB keeps only their groups."""

Tables = Mapping[str, pa.Table]


Step = Callable[[Tables], Rows]
Plan = Callable[[Tables], pa.Table | None]
"""From tables to the rows of a relation, or to None if DuckDB must compute them."""


def planned(relation: Relation, orders: Mapping[str, Names] | None = None) -> Plan | None:
    """Return the plan of a relation, None if it has a node or a scalar that Arrow does not compute.

    `orders`: for a table, columns by which its rows are in order, with different values in each row.
    """
    try:
        step = _step(relation, orders or {})
    except NotInArrow:
        return None
    schema = arrow_schema(relation.schema)

    def table(tables: Tables) -> pa.Table | None:
        try:
            rows = step(tables)
            return pa.Table.from_arrays([rows.array(name) for name in schema.names], schema=schema)
        except (NotInArrow, pa.ArrowException):
            return None

    return table


def _step(relation: Relation, orders: Mapping[str, Names]) -> Step:
    made = _STEPS.get(type(relation))
    if made is None:
        raise NotInArrow
    return made(relation, orders)


def _source(node: Source, orders: Mapping[str, Names]) -> Step:
    if node.rows is not None:
        raise NotInArrow
    name, order = node.name, orders.get(node.name, ())

    def step(tables: Tables) -> Rows:
        table, known = tables[name], list[tuple[pa.Array, Values]]()

        def values(label: str) -> Values:
            column = whole(table[label])
            found = next((one for other, one in known if other.equals(column)), None)
            if found is None:
                found = column[0] if label == WEIGHT and _is_constant(column) else column
                known.append((column, found))
            return found

        return Rows(len(table), values, order)

    return step


def _is_constant(column: pa.Array) -> bool:
    """Return whether all integers are 1, like weights without deletions."""
    return len(column) > 0 and column[0] == column[-1] == pc.max(column) == pc.min(column)


def _map(node: Map, orders: Mapping[str, Names]) -> Step:
    below, of = _step(node.input, orders), node.input.schema
    forms = {
        name: in_arrow(one, of).as_kind(kind)
        for (name, one), kind in zip(node.fields, _kinds(node), strict=True)
    }
    renamed: dict[str, str] = {}
    for name, one in node.fields:
        if isinstance(one, exp.Column):
            renamed.setdefault(one.name, name)

    def step(tables: Tables) -> Rows:
        rows = below(tables)
        is_kept = all(name in renamed for name in rows.order)
        order = tuple(renamed[name] for name in rows.order) if is_kept else ()
        return Rows(rows.count, lambda name: forms[name].values(rows), order)

    return step


def _kinds(node: Relation) -> list[str]:
    """Return the kinds of a relation's columns. Raises NotInArrow."""
    kinds = [one.kind for one in node.schema.types]
    if not FLAT.issuperset(kinds):
        raise NotInArrow
    return kinds


def _where(node: Where, orders: Mapping[str, Names]) -> Step:
    return _kept(_step(node.input, orders), in_arrow(node.predicate, node.input.schema))


def _kept(below: Step, condition: Form) -> Step:
    predicate = condition.as_kind("bool")

    def step(tables: Tables) -> Rows:
        rows = below(tables)
        mask = array_of(predicate.values(rows), rows.count)
        count = pc.sum(mask, min_count=0).as_py()
        return rows if count == rows.count else rows.taken(lambda one: one.filter(mask), count, rows.order)

    return step


def _order(node: Order, orders: Mapping[str, Names]) -> Step:
    below, names, _ = _step(node.input, orders), node.schema.names, _kinds(node)
    keys = [(in_arrow(one.scalar, node.schema), one.descending, one.nulls_first) for one in node.by]
    if any(key.kind == "null" for key, _, _ in keys):
        raise NotInArrow

    def step(tables: Tables) -> Rows:
        rows = below(tables)
        if keys or not rows.order or rows.order != names[: len(rows.order)]:
            places = _sorted(rows, keys, names)
            rows = rows.taken(lambda one: one.take(places), rows.count, ())
        if node.limit is None and not node.offset:
            return rows
        stop = rows.count if node.limit is None else min(rows.count, node.offset + node.limit)
        start = min(node.offset, stop)
        return rows.taken(lambda one: one.slice(start, stop - start), stop - start, rows.order)

    return step


def _sorted(rows: Rows, keys: list[tuple[Form, bool, bool]], names: Names) -> pa.Array:
    """Return the places of rows in the order of keys and, after them, of all columns, ascending with nulls last."""
    columns: list[pa.Array] = []
    directions: list[str] = []
    for key, is_descending, is_nulls_first in keys:
        values = array_of(refuse_nan(key.values(rows)), rows.count)
        if values.null_count:
            columns.append(pc.is_null(values))
            directions.append("descending" if is_nulls_first else "ascending")
        columns.append(values)
        directions.append("descending" if is_descending else "ascending")
    columns += [rows.array(name) for name in names]
    directions += ["ascending"] * len(names)
    labels = [str(place) for place in range(len(columns))]
    sort_keys = list(zip(labels, directions, strict=True))
    return pc.sort_indices(pa.Table.from_arrays(columns, labels), sort_keys)


def _join(node: Join, orders: Mapping[str, Names]) -> Step:
    """Return the step of a join by equal keys. Raises NotInArrow, also at run time if there are too many rows or pairs."""
    if (
        node.how not in ("inner", "semi", "anti")
        or not node.pairs
        or (node.residual is not None and node.how != "inner")
    ):
        raise NotInArrow
    left, right, own = _step(node.left, orders), _step(node.right, orders), frozenset(node.left.schema.names)
    keys = [
        (in_arrow(one, node.left.schema), in_arrow(other, node.right.schema)) for one, other in node.pairs
    ]
    if any(one.kind != other.kind or one.kind in ("float64", "null") for one, other in keys):
        raise NotInArrow

    known = Known(MOST_PAIRS)

    def step(tables: Tables) -> Rows:
        one, other = left(tables), right(tables)
        pairs = None
        if one.count + other.count <= MOST_JOINED:
            arrays = [
                (array_of(key.values(one), one.count), array_of(partner.values(other), other.count))
                for key, partner in keys
            ]
            pairs = known.partners(arrays)
        if pairs is None:
            raise NotInArrow
        if node.how != "inner":
            has_partner = np.zeros(one.count, dtype=bool)
            has_partner[pairs.left] = True
            places = pa.array(np.flatnonzero(has_partner == (node.how == "semi")))
            return one.taken(lambda column: column.take(places), len(places), one.order)
        sides = (
            one.taken(pairs.of_left, len(pairs.left), ()),
            other.taken(pairs.of_right, len(pairs.left), ()),
        )
        return Rows(len(pairs.left), lambda name: sides[name not in own][name])

    return step if node.residual is None else _kept(step, in_arrow(node.residual, node.both))


def _group(node: Group, orders: Mapping[str, Names]) -> Step:
    below, of = _step(node.input, orders), node.input.schema
    keys = [in_arrow(one, of).as_kind(kind) for (_, one), kind in zip(node.keys, _kinds(node), strict=False)]
    parts = [_part(one, of, has_keys=bool(keys)) for _, one in node.aggregates]
    labels = [f"k{place}" for place in range(len(keys))]
    names = node.schema.names

    def step(tables: Tables) -> Rows:
        rows = below(tables)
        given = {
            label: refuse_nan(array_of(key.values(rows), rows.count))
            for label, key in zip(labels, keys, strict=True)
        }
        asked: list[Any] = [([], "count_all")]
        results = [part(rows, f"a{place}", given, asked) for place, part in enumerate(parts)]
        found = grouped(given, labels, asked)
        order = () if found is None else names[: len(labels)]
        if found is None:
            table = pa.table(given or {"rows": pa.nulls(rows.count)})
            found = pa.TableGroupBy(table, labels, use_threads=False).aggregate(asked)
        columns = [whole(found[label]) for label in labels] + [result(found) for result in results]
        return Rows(len(found), dict(zip(names, columns, strict=True)).__getitem__, order)

    return step


Result = Callable[[pa.Table], pa.Array]
"""From a grouped table to the column of one aggregate."""


Part = Callable[[Rows, str, dict[str, pa.Array], list[Any]], Result]


def _part(one: Aggregate, of: Schema, *, has_keys: bool) -> Part:
    """Return the function that adds the columns that an aggregate needs, and the aggregations of the groups."""
    if one.where is not None or one.distinct or one.is_exact:
        raise NotInArrow
    if one.function == "float_total":
        return _float_total(one, of)
    if one.function not in ("sum", "min", "max", "count"):
        raise NotInArrow
    if not one.arguments:
        return lambda rows, label, given, asked: lambda found: whole(found["count_all"])  # noqa: ARG005 - as all parts
    form = in_arrow(one.arguments[0], of)
    if form.kind == "null":
        raise NotInArrow
    least = 0 if one.empty == "zero" else 1
    way = f" {one.function} {least}"

    def part(rows: Rows, label: str, given: dict[str, pa.Array], asked: list[Any]) -> Result:
        values = form.values(rows)
        if one.function == "sum" and (has_keys or not least) and _is_integer(values):
            return lambda found: pc.multiply_checked(whole(found["count_all"]), values)
        made = array_of(values, rows.count)
        known = next((name for name, column in given.items() if column is made and name.endswith(way)), None)
        if known is not None:
            return lambda found: whole(found[f"{known}_{one.function}"])
        label += way
        given[label] = _summed(made) if one.function == "sum" else refuse_nan(made)
        options = pc.ScalarAggregateOptions(min_count=least) if one.function == "sum" else None
        asked.append((label, one.function, options))
        return lambda found: whole(found[f"{label}_{one.function}"])

    return part


def _float_total(one: Aggregate, of: Schema) -> Part:
    """Return the part for exact sums of floats that are all in one bin."""
    place, *limbs, times = [in_arrow(each, of) for each in one.arguments]

    def part(rows: Rows, label: str, given: dict[str, pa.Array], asked: list[Any]) -> Result:
        bounds = pc.min_max(place.values(rows)).as_py()
        if bounds["min"] != bounds["max"] or (bounds["max"] or 0) >= NEGATIVE:
            raise NotInArrow
        names = [f"{label}_{number}" for number in range(len(limbs))]
        for name, limb in zip(names, limbs, strict=True):
            weighted = product(limb.values(rows), times.values(rows))
            given[name] = _summed(array_of(weighted, rows.count))
            asked.append((name, "sum", pc.ScalarAggregateOptions(min_count=0)))
        return lambda found: pa.array(
            totals(bounds["max"] or 0, [found[f"{name}_sum"].to_numpy() for name in names])
        )

    return part


def _is_integer(values: Values) -> bool:
    """Return whether all rows have the same integer: the sum is then a product."""
    return isinstance(values, pa.Scalar) and pa.types.is_integer(values.type) and values.is_valid


def _summed(values: pa.Array) -> pa.Array:
    """Return the values if their sums fit 64 bits. Raises NotInArrow."""
    if pa.types.is_integer(values.type):
        bounds = pc.min_max(values).as_py()
        greatest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        if greatest * len(values) > GREATEST_INT:
            raise NotInArrow
    return values


_STEPS: dict[type, Callable[[Any, Mapping[str, Names]], Step]] = {
    Source: _source, Map: _map, Where: _where, Order: _order, Join: _join, Group: _group,
}  # fmt: skip
