"""The reference interpreter: the meaning of a query, in plain Python over Z-bags. All other ways of answering are tested against it.

A Z-bag is a dictionary from rows, as tuples, to their weights, none of them 0.

>>> from dgs.query.relation import Aggregate, Group, Source, column
>>> from dgs.query.types import INT, TEXT, Schema
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> by = Group(flights, (("carrier", column("carrier")),), (("s", Aggregate("sum", (column("delay"),))),))
>>> answer(by, {"flights": zbag([("UA", 5), ("AA", 1), ("UA", None)])})
[('AA', 1), ('UA', 5)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cmp_to_key
from typing import Any

from dgs.errors import InternalError
from dgs.query.errors import QueryError, Span
from dgs.query.relation import (
    UNTIL_LIMIT,
    Expand,
    Group,
    Join,
    Map,
    Order,
    Relation,
    Repeat,
    Script,
    Source,
    Union,
    Where,
    Window,
    old,
)
from dgs.query.scalar import ITEMS, Bound, Nested, Row, Scalar, bound
from dgs.query.types import Schema, conform, fitting, order_key, unified

ZBag = dict[Row, int]
Tables = Mapping[str, ZBag]

MOST_BOUND = 10_000
_BOUND: dict[tuple[int, int], tuple[Bound, Scalar, Schema]] = {}
"""Cached bound scalars, by the ids of scalar and schema, which are kept so that no other objects get these ids."""


def zbag(rows: Iterable[Row], weight: int = 1) -> ZBag:
    """Return the Z-bag of rows, each counted once with a weight."""
    found: ZBag = {}
    for row in rows:
        _add(found, row, weight)
    return found


def sum_of(*bags: ZBag) -> ZBag:
    """Return the sum of Z-bags: weights add."""
    found: ZBag = {}
    for one in bags:
        for row, weight in one.items():
            _add(found, row, weight)
    return found


def rows_of(given: Iterable[Any], schema: Schema) -> list[Row]:
    """Return rows, as sequences or as mappings by name, in canonical form. Raises QueryError Q703."""
    return [_canonical(one, number, schema) for number, one in enumerate(given)]


def _canonical(given: Any, number: int, schema: Schema) -> Row:
    values = [given.get(name) for name in schema.names] if isinstance(given, Mapping) else list(given)
    if len(values) != len(schema):
        raise QueryError.of("Q703", f"row {number} has {len(values)} values, not {len(schema)}", row=number)
    made: list[Any] = []
    for value, (name, one) in zip(values, schema.fields, strict=True):
        try:
            made.append(conform(value, one))
        except QueryError as error:
            problem = f"row {number}, column {name!r}: {error.facts['problem']}"
            raise QueryError.of(error.code, problem, row=number, column=name) from None
    return tuple(made)


def support(bag: ZBag, name: str = "the input") -> ZBag:
    """Return a Z-bag whose weights are all positive. Raises QueryError Q702 with the row that has more deletions than insertions."""
    for row, weight in bag.items():
        if weight < 0:
            problem = f"{name} deletes {row!r} {-weight} times more often than it inserts it"
            raise QueryError.of("Q702", problem, "Give `on_negative: drop` to leave such rows out.", row=row)
    return bag


def answer(relation: Relation, tables: Tables) -> list[Row]:
    """Return the rows of a relation: in its order if it has one, else sorted by all columns; a row of weight n comes n times.

    Raises QueryError Q702 if an input of it has a row of negative weight.
    """
    positive = {name: support(rows, name) for name, rows in tables.items()}
    return Evaluation(positive).rows(relation)


def answers(script: Script, tables: Tables) -> dict[str, list[Row]]:
    """Return the rows of each output of a script."""
    positive = {name: support(rows, name) for name, rows in tables.items()}
    evaluation = Evaluation(positive)
    return {name: evaluation.rows(output) for name, output in script.outputs}


def evaluate(relation: Relation, tables: Tables) -> ZBag:
    """Return the Z-bag of a relation. Inputs may have negative weights; only linear nodes and joins are then meaningful."""
    return Evaluation(tables).of(relation)


def _add(found: ZBag, row: Row, weight: int) -> None:
    total = found.get(row, 0) + weight
    if total:
        found[row] = total
    else:
        found.pop(row, None)


def _listed(bag: ZBag) -> list[Row]:
    return [row for row in sorted(bag, key=order_key) for _ in range(bag[row])]


class Varying:
    """The relations that read the names of a loop: they have another value at each step."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._known: dict[int, tuple[Relation, bool]] = {}

    def is_read_by(self, relation: Relation) -> bool:
        """Whether a relation reads one of the names."""
        known = self._known.get(id(relation))
        if known is None:
            own = isinstance(relation, Source) and relation.name in self._names
            known = (relation, own or any(self.is_read_by(one) for one in relation.inputs))
            self._known[id(relation)] = known
        return known[1]


class Evaluation:
    """One evaluation over fixed tables. A node that is read several times is computed once.

    In a loop, `names` are those that the loop binds. Relations that read none of them are left to the evaluation `around`, which computes them once.
    """

    def __init__(
        self, tables: Tables, around: Evaluation | None = None, names: frozenset[str] = frozenset()
    ) -> None:
        self._tables = dict(tables)
        self._around = around
        self._varying = Varying(names)
        self._known: dict[int, tuple[Relation, ZBag]] = {}

    def rows(self, relation: Relation) -> list[Row]:
        """Return the rows of a relation, in its order or sorted."""
        if isinstance(relation, Order):
            return self._ordered(relation)
        if isinstance(relation, Map) and relation.is_ordered:
            fields = _all_bound(relation.fields, relation.input.schema)
            return [tuple([one(row) for one in fields]) for row in self.rows(relation.input)]
        return _listed(self.of(relation))

    def of(self, relation: Relation) -> ZBag:
        """Return the Z-bag of a relation."""
        if self._around is not None and not self._varying.is_read_by(relation):
            return self._around.of(relation)
        known = self._known.get(id(relation))
        if known is None:
            known = self._known[id(relation)] = (relation, self._meaning(relation))
        return known[1]

    def _meaning(self, node: Relation) -> ZBag:
        meaning: Callable[[Any], ZBag] = getattr(self, f"_{type(node).__name__.lower()}")
        return meaning(node)

    def _source(self, node: Source) -> ZBag:
        if node.rows is not None:
            return zbag(node.rows)
        if node.name not in self._tables:
            raise InternalError(problem=f"no table {node.name!r} was given to the interpreter")
        return self._tables[node.name]

    def _map(self, node: Map) -> ZBag:
        fields = _all_bound(node.fields, node.input.schema)
        found: ZBag = {}
        for row, weight in self.of(node.input).items():
            _add(found, tuple([one(row) for one in fields]), weight)
        return found

    def _where(self, node: Where) -> ZBag:
        is_wanted = _bound_once(node.predicate, node.input.schema, node.span)
        return {row: weight for row, weight in self.of(node.input).items() if is_wanted(row)}

    def _expand(self, node: Expand) -> ZBag:
        items = _bound_once(node.items, node.input.schema, node.span)
        found: ZBag = {}
        for row, weight in self.of(node.input).items():
            for item in items(row) or ():
                _add(found, (*row, item), weight)
        return found

    def _union(self, node: Union) -> ZBag:
        types = node.schema.types
        return sum_of(*(widened(self.of(part), part.schema, types) for part in node.parts))

    def _join(self, node: Join) -> ZBag:
        left, right = self.of(node.left), self.of(node.right)
        partners = _partners(node, right)
        kept = _bound_or_none(node.residual, node.both)
        is_half, matched, found = node.how in ("semi", "anti"), set(), ZBag()
        for row, weight in left.items():
            fitting_rows = [other for other in partners(row) if kept is None or kept(row + other)]
            if is_half:
                if any(right[other] > 0 for other in fitting_rows) == (node.how == "semi"):
                    found[row] = weight
                continue
            for other in fitting_rows:
                _add(found, row + other, weight * right[other])
            matched.update(fitting_rows)
            if not fitting_rows and node.how in ("left", "full"):
                _add(found, row + (None,) * len(node.right.schema), weight)
        if node.how == "full":
            for other, weight in right.items():
                if other not in matched:
                    _add(found, (None,) * len(node.left.schema) + other, weight)
        return found

    def _group(self, node: Group) -> ZBag:
        of = node.input.schema
        keys = _all_bound(node.keys, of)
        taken = [
            (
                [_bound_once(one, of, each.span) for one in each.arguments],
                _bound_or_none(each.where, of),
                each,
            )
            for _, each in node.aggregates
        ]
        # a sum of no values may be the integer 0
        are_floats = [one.kind == "float64" for one in node.schema.types[len(node.keys) :]]
        groups: dict[Row, list[tuple[Row, int]]] = {} if keys else {(): []}
        for row, weight in self.of(node.input).items():
            groups.setdefault(tuple([one(row) for one in keys]), []).append((row, weight))
        found: ZBag = {}
        for key, rows in groups.items():
            if keys and sum(weight for _, weight in rows) <= 0:
                continue
            results = []
            for arguments, where, each in taken:
                kept = rows if where is None else [(row, weight) for row, weight in rows if where(row)]
                given = [(tuple([one(row) for one in arguments]), weight) for row, weight in kept]
                results.append(each.over(given))
            results = [
                float(one) if is_float and one is not None else one
                for one, is_float in zip(results, are_floats, strict=True)
            ]
            found[key + tuple(results)] = 1
        return found

    def _order(self, node: Order) -> ZBag:
        return zbag(self._ordered(node))

    def _ordered(self, node: Order) -> list[Row]:
        rows = _listed(self.of(node.input))
        for key in reversed(node.by):  # sorting is stable, so the last key comes first
            value = _bound_once(key.scalar, node.input.schema, node.span)
            rows.sort(key=_sorter(value, key.descending, key.nulls_first))
        stop = None if node.limit is None else node.offset + node.limit
        return rows[node.offset : stop]

    def _window(self, node: Window) -> ZBag:
        place = node.input.schema.index(node.at)
        found: ZBag = {}
        for row, weight in self.of(node.input).items():
            for end in window_ends(row[place], node.size, node.slide):
                _add(found, (*row, end), weight)
        return found

    def _repeat(self, node: Repeat) -> ZBag:
        schemas = [start.schema for start in node.start]
        values = [self.of(start) for start in node.start]
        names = frozenset((*node.names, *map(old, node.names)))
        for _ in range(UNTIL_LIMIT if node.limit is None else node.limit):
            inner = Evaluation(self._tables | dict(zip(node.names, values, strict=True)), self, names)
            new = [
                widened(inner.of(body), body.schema, schema.types)
                for body, schema in zip(node.body, schemas, strict=True)
            ]
            if node.until is not None:
                given = dict(zip(node.names, new, strict=True)) | dict(
                    zip(map(old, node.names), values, strict=True)
                )
                if Evaluation(self._tables | given, self, names).rows(node.until) == [(True,)]:
                    return new[node.result]
            values = new
        return values[node.result]


def _nested(query: Relation, items: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(Evaluation({ITEMS: zbag(items)}).rows(query))


Nested.meaning = staticmethod(_nested)


def _bound_once(scalar: Scalar, schema: Schema, span: Span | None = None) -> Bound:
    """Bind a scalar like `bound`, but cache it: a query is often asked over a few rows."""
    place = (id(scalar), id(schema))
    known = _BOUND.get(place)
    if known is None:
        if len(_BOUND) >= MOST_BOUND:
            _BOUND.clear()
        known = _BOUND[place] = (bound(scalar, schema, span), scalar, schema)
    return known[0]


def _all_bound(fields: Iterable[tuple[str, Any]], schema: Schema) -> list[Bound]:
    return [_bound_once(one, schema) for _, one in fields]


def _bound_or_none(predicate: Any, schema: Schema) -> Bound | None:
    return None if predicate is None else _bound_once(predicate, schema)


def _sorter(value: Bound, descending: bool, nulls_first: bool) -> Any:
    """Return a sort key: nulls at their end, in whichever order the other values are."""

    def compared(one: Row, other: Row) -> int:
        a, b = value(one), value(other)
        if a is None or b is None:
            last = int(a is None) - int(b is None)
            return -last if nulls_first else last
        x, y = order_key(a), order_key(b)
        return (int(x > y) - int(x < y)) * (-1 if descending else 1)

    return cmp_to_key(compared)


def _partners(node: Join, right: ZBag) -> Callable[[Row], list[Row]]:
    """Return the function from a row of the left to the rows of the right with equal pairs."""
    if not node.pairs:
        everything = list(right)
        return lambda _: everything
    of_left = [_bound_once(one, node.left.schema, node.span) for one, _ in node.pairs]
    of_right = [_bound_once(other, node.right.schema, node.span) for _, other in node.pairs]
    is_mixed = [unified((a.type, b.type)).kind == "float64" for a, b in zip(of_left, of_right, strict=True)]

    def key(row: Row, sides: list[Bound]) -> Row | None:
        values = [one(row) for one in sides]
        if any(value is None for value in values):
            return None
        return tuple([float(one) if mixed else one for one, mixed in zip(values, is_mixed, strict=True)])

    index: dict[Row, list[Row]] = {}
    for row in right:
        found = key(row, of_right)
        if found is not None:
            index.setdefault(found, []).append(row)

    def partners(row: Row) -> list[Row]:
        found = key(row, of_left)
        return [] if found is None else index.get(found, [])

    return partners


def widened(bag: ZBag, schema: Schema, types: tuple[Any, ...]) -> ZBag:
    """Return rows with integers as floats if the common type is float64."""
    if all(
        one.kind != "float64" or other.kind != "int64" for one, other in zip(types, schema.types, strict=True)
    ):
        return bag
    return sum_of(*({tuple(map(conform, row, types)): weight} for row, weight in bag.items()))


def window_ends(at: int | None, size: int, slide: int) -> list[int]:
    """Return the ends of the windows that hold a time, ascending: [end - size, end) with starts at multiples of the slide.

    >>> window_ends(7, size=4, slide=2)
    [8, 10]
    """
    if at is None:
        return []
    first = (at - size) // slide * slide + slide
    return [fitting(start + size) for start in range(first, at + 1, slide)]
