"""Nested queries of SQL: which relation each of them is, and how the rows of the outer query are tied to it.

A condition `exists` or `x in (...)` of WHERE is a join that keeps a row or drops it. Anywhere else a nested query becomes a value: the
number of its rows, or an aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.relation import Fields, Group, Join, Map, Relation
from dgs.query.scalar import Scalar, all_of, call, column, literal, substituted, when
from dgs.query.sql.sql_aggregates import Grouping
from dgs.query.sql.sql_scalars import Lowering, is_aggregate
from dgs.query.sql.sql_scopes import Scope
from dgs.query.sql.sql_subqueries import Item, NestedCall, NestedQueries, nesting
from dgs.query.sql.sql_syntax import SqlText


class Rows(Protocol):
    """A `select` that is being made a relation: the view that a nested query and the enclosing query have of each other."""

    text: SqlText
    params: Any
    tree: exp.Expr
    node: Relation
    scope: Scope
    links: list[tuple[Scalar, Scalar]]
    loose: list[exp.Expr]
    nested: NestedQueries

    def lower(self, tree: exp.Expr) -> Scalar:
        """Return the scalar of an expression."""

    def field(self, one: exp.Column) -> Scalar:
        """Return the scalar of a name."""

    def attach(self, scalar: Scalar) -> Scalar:
        """Join the nested queries of a scalar."""

    def items(self) -> list[Item]:
        """Return the columns of the `select`."""

    def inside(self, tree: exp.Expr, *, is_plain: bool) -> Rows:
        """Return a nested query; one that is not plain is a relation of its own."""


def semi_join(outer: Rows, tree: exp.Expr) -> bool:
    """Make `[not] exists (...)` and `x in (...)` a join that keeps rows with, or without, a partner; return whether it was one."""
    inner, is_wanted = tree, True
    while isinstance(inner, (exp.Paren, exp.Not)):
        inner, is_wanted = inner.this, is_wanted ^ isinstance(inner, exp.Not)
    is_member = isinstance(inner, exp.In)
    query = inner.args.get("query") if is_member else inner.this if isinstance(inner, exp.Exists) else None
    if query is None or (is_member and not is_wanted):
        return False
    block = _rows_of(outer, query)
    pairs = block.links + (_members(outer, inner, block) if is_member else [])
    if not pairs and not block.loose:
        return False  # the same for all rows, so it is a value
    prefix = outer.nested.fresh()
    fields = {f"{prefix}{place}": own for place, (_, own) in enumerate(pairs)}
    names = tuple(fields)
    residual = [_loose(outer, one, block, prefix, fields) for one in block.loose]
    fields = fields or {f"{prefix}one": literal(1)}
    right = Map(block.node, tuple(fields.items()), span=outer.text.span(query))
    equal = tuple((outer.attach(one), column(name)) for (one, _), name in zip(pairs, names, strict=True))
    how = "semi" if is_wanted else "anti"
    condition = all_of(residual) if residual else None
    outer.node = Join(outer.node, right, equal, condition, how, span=outer.text.span(tree))  # type: ignore[arg-type]
    return True


def _members(outer: Rows, tree: exp.Expr, block: Rows) -> list[tuple[Scalar, Scalar]]:
    """Return the pairs that must be equal for `x in (select y)`."""
    given = tree.this
    wanted = list(given.expressions) if isinstance(given, exp.Tuple) else [given]
    items = block.items()
    if len(items) != len(wanted):
        raise outer.text.error(
            "Q206", tree, f"{_values(len(wanted))} cannot be in a query of {len(items)} columns"
        )
    return [(outer.lower(one), block.attach(item.scalar)) for one, item in zip(wanted, items, strict=True)]


def _values(count: int) -> str:
    return "a value" if count == 1 else f"{count} values"


def _loose(outer: Rows, tree: exp.Expr, block: Rows, prefix: str, fields: dict[str, Scalar]) -> Scalar:
    """Return a condition over rows of both queries; the columns of the inner one are added to `fields`."""

    def named(one: exp.Column) -> Scalar:
        if not block.scope.has(one):
            return outer.field(one)
        own = block.field(one)
        name = f"{prefix}{own.name}"
        fields[name] = own
        return column(name)

    return Lowering(outer.text, outer.params, named).of(tree)


def nested_value(outer: Rows, tree: exp.Expr) -> Scalar | None:
    """Return the value of a nested query in an expression, None for anything else."""
    if isinstance(tree, exp.Exists):
        return call("gt", _count(outer, _tied(outer, tree.this), []), literal(0))
    if isinstance(tree, exp.In) and tree.args.get("query") is not None:
        return _in(outer, tree)
    return _value(outer, tree) if isinstance(tree, exp.Subquery) else None


def _rows_of(outer: Rows, query: exp.Expr) -> Rows:
    """Return a nested query whose columns do not matter."""
    select = _unwrapped(query)
    return outer.inside(
        select, is_plain=_is_plain(select) and not any(map(_has_aggregate, select.expressions))
    )


def _tied(outer: Rows, query: exp.Expr) -> Rows:
    """Return a nested query that is tied to the outer one by equalities alone. Raises QueryError Q110 for other conditions."""
    block = _rows_of(outer, query)
    _refuse_loose(outer, block)
    return block


def _refuse_loose(outer: Rows, block: Rows) -> None:
    if block.loose:
        remedy = "Here a nested query is tied to the outer one by equalities alone; `where exists` may have other conditions."
        raise outer.text.error(
            "Q110", block.loose[0], "not supported: this condition on the outer query", remedy
        )


def _count(
    outer: Rows, block: Rows, more: Sequence[tuple[Scalar, Scalar]], of: Scalar | None = None, name: str = "n"
) -> NestedCall:
    """Return the number of rows of a nested query for a row of the outer one; with `of` and the name `m` of those where it is not null.

    `more`: further pairs that must be equal.
    """
    pairs = [*block.links, *more]
    keys: Fields = tuple((f"k{place}", own) for place, (_, own) in enumerate(pairs))
    aggregates = [("n", Aggregate("count"))]
    if of is not None:
        aggregates.append(("m", Aggregate("count", (of,))))
    group = Group(block.node, keys, tuple(aggregates), span=outer.text.span(block.tree))
    return nesting(
        group, [key for key, _ in keys], call("coalesce", column(name), literal(0)), [one for one, _ in pairs]
    )


def _in(outer: Rows, tree: exp.In) -> Scalar:
    """Return `x in (select y)` in three-valued logic: null if x or some y is null, and x is not among the other values."""
    if isinstance(tree.this, exp.Tuple):
        raise outer.text.error(
            "Q110",
            tree,
            "not supported: `in` with tuples here",
            "It may stand alone in `where`. For `not in`, use `not exists`.",
        )
    block = _tied(outer, tree.args["query"])
    ((wanted, member),) = _members(outer, tree, block)
    rows, present = _count(outer, block, [], member), _count(outer, block, [], member, "m")
    is_among = call("gt", _count(outer, block, [(wanted, member)]), literal(0))
    is_open = call("or", call("isnull", wanted), call("lt", present, rows))
    otherwise = when(is_among, exp.true(), when(is_open, exp.Null(), exp.false()))
    return when(call("eq", rows, literal(0)), exp.false(), otherwise)


def _value(outer: Rows, tree: exp.Subquery) -> Scalar:
    """Return the one value of a nested query: an aggregate, or the only row of a query that is not tied to the outer one."""
    select = _unwrapped(tree)
    is_aggregate_alone = _is_plain(select) and any(map(_has_aggregate, select.expressions))
    if not is_aggregate_alone and not _is_single(select):
        remedy = "Take an aggregate, such as `max(...)`: a value has one row."
        raise outer.text.error(
            "Q110", tree, "not supported: a nested query of several rows as a value", remedy
        )
    block = outer.inside(select, is_plain=is_aggregate_alone)
    items = block.items()
    if len(items) != 1:
        raise outer.text.error("Q206", tree, f"a query of {len(items)} columns is no value")
    _refuse_loose(outer, block)
    if not is_aggregate_alone:
        return nesting(block.node, [], items[0].scalar, [], how="left")
    grouping = Grouping(outer.text, {})
    value = grouping.over(items[0].scalar)
    keys: Fields = tuple((f"k{place}", own) for place, (_, own) in enumerate(block.links))
    group = Group(block.node, keys, tuple(grouping.aggregates), span=outer.text.span(tree))
    if keys:
        counts = [name for name, one in grouping.aggregates if one.function == "count"]
        value = substituted(value, {name: call("coalesce", column(name), literal(0)) for name in counts})
    return nesting(group, [key for key, _ in keys], value, [one for one, _ in block.links])


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not tree.args.get("alias"):
        tree = tree.this
    return tree


def _is_plain(tree: exp.Expr) -> bool:
    """Return whether a query is a `select` with only FROM and WHERE, so that it may be tied to an outer query."""
    more = ("with_", "group", "having", "limit", "offset", "distinct")
    return isinstance(tree, exp.Select) and not any(tree.args.get(name) for name in more)


def _is_single(tree: exp.Expr) -> bool:
    """Return whether a query has at most one row."""
    if not isinstance(tree, exp.Select):
        return False
    limit = tree.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.this == "1":
        return True
    is_whole = tree.args.get("from_") is None or any(map(_has_aggregate, tree.expressions))
    return not tree.args.get("group") and is_whole


def _has_aggregate(tree: exp.Expr) -> bool:
    nested = (exp.Select, exp.SetOperation)
    return any(map(is_aggregate, tree.walk(prune=lambda node: isinstance(node, nested))))
