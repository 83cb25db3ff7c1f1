"""Phase combine: an aggregate of a collected bag becomes an aggregate of the rows, so that the bag is never built.

`Map(Group(x, keys, bag = collect(row)), n = array_size(bag))` becomes `Map(Group(x, keys, made_1 = count()), n = made_1)`. Between the Map
and the Group there may be filters and joins. A query over the bag becomes an aggregate if it filters, computes fields, takes
different rows, and ends in one row of aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.functions import arguments_of, name_of
from dgs.query.relation import Group, Join, Map, Order, Relation, Source, Where, rebuilt
from dgs.query.rewrite.rule_language import Distinct, Rules, is_shared
from dgs.query.rewrite.scalar_questions import scalars_changed
from dgs.query.scalar import (
    Nested,
    Scalar,
    all_of,
    column,
    conjuncts,
    items_schema,
    literal,
    struct,
    substituted,
    type_of,
)
from dgs.query.scalar import field as field_of

COMBINE = Rules("combine", "combine")

OF_LISTS = {"list_count": "count", "list_sum": "sum", "list_avg": "avg", "list_min": "min", "list_max": "max"}
"""Functions of a bag, with the aggregates that they are."""

IGNORE_REPEATS = frozenset(["min", "max", "some", "all"])
"""Aggregates that are the same over different rows as over all."""


@COMBINE.to_replace(Map)
def aggregate_of_bag(node: Map) -> Relation | None:
    """Compute an aggregate in the grouping, in place of one over the bag of the group's rows."""
    for way, group in _ways_to_bags(node):
        found = _Combining(way, group).in_place_of(node)
        if found is not None:
            return found
    return None


def _ways_to_bags(node: Relation) -> Iterator[tuple[list[Relation], Group]]:
    """Yield the groups with bags, and the nodes above: filters and joins without other readers."""
    for below in node.inputs[:1] if isinstance(node, Join) and node.how in ("semi", "anti") else node.inputs:
        if is_shared(below):
            continue
        if isinstance(below, Group) and any(one.function == "collect" for _, one in below.aggregates):
            yield [node], below
        elif isinstance(below, (Where, Join)):
            yield from (([node, *way], group) for way, group in _ways_to_bags(below))


class _Combining:
    """A Group whose aggregates over bags are replaced by aggregates of rows. `way`: the nodes above that read it."""

    def __init__(self, way: list[Relation], group: Group) -> None:
        self._way = way
        self._group = group
        self._bags = {
            name: one
            for name, one in self._group.aggregates
            if one.function == "collect" and not one.distinct
        }
        self._made = {one: name for name, one in self._group.aggregates}
        self._taken = {name for node in (*way, group) for name in node.schema.names}

    def in_place_of(self, node: Relation) -> Relation | None:
        """Return the first node of the way, with new columns in place of the bags; None if there are none."""
        found = self._read_above(node)
        more = tuple((name, one) for one, name in self._made.items() if name not in self._group.schema.names)
        if found == node:
            return None
        new = replace(self._group, aggregates=(*self._group.aggregates, *more))
        return rebuilt(found, lambda one: new if one is self._group else one)

    def _read_above(self, node: Relation) -> Relation:
        if not any(node is one for one in self._way):
            return node
        changed = node.with_inputs(tuple(map(self._read_above, node.inputs)))
        return scalars_changed(changed, self._read) or changed

    def _read(self, scalar: Scalar) -> Scalar:
        return scalar.transform(lambda one: self._column(one) or one)

    def _column(self, scalar: exp.Expression) -> Scalar | None:
        """Return the scalar that replaces an aggregate of a bag; None for any other scalar, or if it cannot be computed in the Group."""
        if isinstance(scalar, exp.Dot) and name_of(scalar.this) == "list_extract":
            bag, place = arguments_of(scalar.this)
            if place == literal(1) and isinstance(bag, Nested):
                return self._field(bag, scalar.expression.name)
        name = name_of(scalar)
        if name == "array_size":
            items = self._items(
                scalar.args["expressions"][0] if isinstance(scalar, exp.Anonymous) else scalar.this
            )
            return None if items is None else self._aggregate(items, Aggregate("count"))
        if name in OF_LISTS:
            items = self._items(arguments_of(scalar)[0])
            if items is not None and tuple(items.fields) == ("item",):
                return self._aggregate(items, Aggregate(OF_LISTS[name], (column("item"),)))
        return None

    def _field(self, bag: Nested, name: str) -> Scalar | None:
        """Return the scalar for a field of the one row of a query over a bag."""
        query, wanted = bag.args["query"], column(name)
        while isinstance(query, Map):
            wanted, query = substituted(wanted, dict(query.fields)), query.input
        items = self._items(bag.this)
        if items is None or not isinstance(query, Group) or query.keys:
            return None
        items = _items_of(query.input, items)
        given = {} if items is None else {key: self._aggregate(items, one) for key, one in query.aggregates}
        if items is None or any(one is None for one in given.values()):
            return None
        return substituted(wanted, {key: one for key, one in given.items() if one is not None})

    def _items(self, bag: Scalar) -> _Items | None:
        """Return the items of a bag in terms of the rows of the Group; None if that is impossible, or the bag is not one of its bags."""
        if isinstance(bag, Nested):
            items = self._items(bag.this)
            return None if items is None else _items_of(bag.args["query"], items)
        collect = self._bags.get(bag.name) if isinstance(bag, exp.Column) else None
        if collect is None:
            return None
        of = self._group.input.schema
        names = items_schema(collect.type(of)).names
        arguments = list(collect.arguments)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Struct):
            arguments = [one.expression for one in arguments[0].expressions]
        elif len(arguments) == 1 and type_of(arguments[0], of).kind == "record":
            arguments = [field_of(arguments[0], name) for name in names]
        return _Items(dict(zip(names, arguments, strict=True)), tuple(conjuncts(collect.where)))

    def _aggregate(self, items: _Items, wanted: Aggregate) -> Scalar | None:
        """Return the column of an aggregate of items, added if necessary; None if there is no such aggregate."""
        arguments = tuple(substituted(one, items.fields) for one in wanted.arguments)
        where = [*items.where, *(substituted(one, items.fields) for one in conjuncts(wanted.where))]
        is_distinct = wanted.distinct
        if items.is_distinct and not (wanted.distinct or wanted.function in IGNORE_REPEATS):
            if wanted.where is not None:
                return None
            if not arguments and wanted.function == "count":
                arguments = (struct(**items.fields),)
            elif arguments != tuple(items.fields.values()) or wanted.function not in ("count", "sum", "avg"):
                return None
            is_distinct = True
        made = replace(
            wanted, arguments=arguments, where=all_of(where) if where else None, distinct=is_distinct
        )
        if made not in self._made:
            self._made[made] = next(name for name in _new_names() if name not in self._taken)
            self._taken.add(self._made[made])
        return column(self._made[made])


def _new_names() -> Iterator[str]:
    return (f"made_{number}" for number in count(1))


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a bag in terms of the rows that were collected: their fields, and which rows. `is_distinct`: each once."""

    fields: dict[str, Scalar]
    where: tuple[Scalar, ...] = ()
    is_distinct: bool = False


def _items_of(query: Relation, items: _Items) -> _Items | None:
    """Return the items of a query over other items; None if they cannot be expressed in terms of the rows."""
    if isinstance(query, Source):
        return replace(items, fields=dict(zip(query.schema.names, items.fields.values(), strict=True)))
    is_cut = isinstance(query, Order) and (query.limit is not None or query.offset > 0)
    is_known = isinstance(query, (Where, Map, Distinct, Order)) and not is_cut
    below = _items_of(query.inputs[0], items) if is_known else None
    if below is None or (isinstance(query, Map) and below.is_distinct):
        return None
    match query:
        case Where():
            return replace(below, where=(*below.where, substituted(query.predicate, below.fields)))
        case Map():
            return replace(below, fields={name: substituted(one, below.fields) for name, one in query.fields})
        case Group():
            keys = {name: substituted(one, below.fields) for name, one in query.keys}
            return replace(below, fields=keys, is_distinct=True)
    return below
