"""Grouping in SQL: expressions over the rows of a table become expressions over its groups, and their aggregates are collected.

>>> text = SqlText("q.sql", "select carrier, sum(delay) / count(*) from flights group by carrier")
>>> tree = text.tree()
>>> grouping = Grouping(text, {column("carrier"): "carrier"})
>>> grouping.over(call("div", AggregateCall.of(Aggregate("sum", (column("delay"),))), column("carrier"))).sql()
'DIV("sum(delay)", "carrier")'
>>> [name for name, _ in grouping.aggregates]
['sum(delay)']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.scalar import Scalar, call, column, literal
from dgs.query.sql.sql_refusals import INSTEAD
from dgs.query.sql.sql_scalars import AGGREGATE_NAMES
from dgs.query.sql.sql_syntax import SqlText


class AggregateCall(exp.Expression):
    """An aggregate inside of an expression, until the groups are known: `this` is an Aggregate."""

    arg_types = {"this": True}  # noqa: RUF012 - as sqlglot declares it

    @classmethod
    def of(cls, aggregate: Aggregate) -> AggregateCall:
        """Return the node of an aggregate."""
        return cls(this=aggregate)


KNOWN = (
    "count, count_if, sum, avg, min, max, arg_min, arg_max, median, stddev, stddev_pop, variance, var_pop, bool_or, bool_and, list, "
    "any_value, string_agg"
)


def aggregate_call(tree: exp.Expr, lower: Callable[[exp.Expr], Scalar], text: SqlText) -> Scalar:
    """Return the scalar of an aggregate: its call, for `string_agg` inside the function that joins its texts. Raises QueryError Q110, Q205."""
    found, node = AggregateCall.of(aggregate_of(tree, lower, text)), tree
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.this
    if not isinstance(node, exp.GroupConcat):
        return found
    between = node.args.get("separator")
    return call("list_join", found, literal(",") if between is None else lower(between))


def aggregate_of(tree: exp.Expr, lower: Callable[[exp.Expr], Scalar], text: SqlText) -> Aggregate:
    """Return the aggregate of a node. Raises QueryError Q110, Q205."""
    where, node = None, tree
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        if isinstance(node, exp.Filter):
            where = lower(node.expression.this)
        node = node.this
    name = AGGREGATE_NAMES.get(node.key)
    if name is None:
        word = text.word(node)
        remedy = INSTEAD.get(word.lower(), f"There are {KNOWN}.")
        raise text.error("Q110", tree, f"not supported: the aggregate `{word}`", remedy)
    if node.args.get("count") is not None:
        raise text.error("Q110", tree, f"not supported: the {name} n values", "Use `order by` and `limit`.")
    span = text.span(tree)
    if isinstance(node, exp.CountIf):
        condition = lower(node.this)
        return Aggregate(
            "count", where=condition if where is None else call("and", where, condition), span=span
        )
    given, is_distinct = _arguments(node, text)
    arguments = tuple(map(lower, given))
    if name in ("arg_min", "arg_max"):  # in DuckDB these skip nulls
        there = call("not", call("isnull", arguments[0]))
        where = there if where is None else call("and", where, there)
    return Aggregate(name, arguments, is_distinct, where, span=span)


def _arguments(node: exp.Expr, text: SqlText) -> tuple[list[exp.Expr], bool]:
    """Return the arguments of an aggregate, none for a star, and whether only different values count."""
    given = node.this
    if isinstance(node, exp.GroupConcat) and isinstance(given, exp.Order) and _is_own(given):
        given = given.this
    if isinstance(given, exp.Star) or given is None:
        return [], False
    if isinstance(given, exp.Distinct):
        if len(given.expressions) != 1:
            raise text.error(
                "Q110",
                node,
                "not supported: different tuples of several values",
                "Group by them in a derived table.",
            )
        return list(given.expressions), True
    if isinstance(given, exp.Order) or node.find(exp.HavingMax):
        raise text.error(
            "Q110", node, "not supported: `order by` in an aggregate", "Its values are in their own order."
        )
    second = node.args.get("expression")
    return [given, *([second] if isinstance(second, exp.Expr) else []), *node.expressions], False


def _is_own(order: exp.Order) -> bool:
    """Return whether the values of an aggregate are to be in their own order, which they are."""
    values = order.this.expressions if isinstance(order.this, exp.Distinct) else [order.this]
    return [(one.this, bool(one.args.get("desc"))) for one in order.expressions] == [(values[0], False)]


class Grouping:
    """Rewrites expressions for the rows of a Group. `keys`: the names of its keys by their scalars; `aggregates`: those found so far."""

    def __init__(self, text: SqlText, keys: dict[Any, str], names: dict[Any, str] | None = None) -> None:
        self._text, self._keys, self._names = text, keys, names or {}
        self.aggregates: list[tuple[str, Aggregate]] = []

    def over(self, scalar: Scalar) -> Scalar:
        """Return an expression over the groups. Raises QueryError Q207 for a column that is neither grouped nor aggregated."""
        if scalar in self._keys:
            return _at(column(self._keys[scalar]), scalar)
        if isinstance(scalar, AggregateCall):
            return _at(column(self._named(scalar)), scalar)
        if isinstance(scalar, exp.Column):
            remedy = "Put it into `group by`, or into an aggregate such as `max(...)`."
            raise self._text.place_error(
                "Q207", scalar, f"{scalar.name!r} is neither grouped nor aggregated", remedy
            )
        found = scalar.copy()
        for name, value in scalar.args.items():
            if isinstance(value, list):
                found.set(
                    name,
                    [self.over(cast("Scalar", one)) if isinstance(one, exp.Expr) else one for one in value],
                )
            elif isinstance(value, exp.Expr):
                found.set(name, self.over(cast("Scalar", value)))
        return _at(found, scalar)

    def _named(self, scalar: AggregateCall) -> str:
        aggregate = scalar.this
        for name, known in self.aggregates:
            if known == aggregate:
                return name
        wanted = self._names.get(scalar) or _title(aggregate)
        taken = {name.lower() for name in (*self._keys.values(), *(name for name, _ in self.aggregates))}
        name = wanted
        for number in range(1, len(taken) + 1):
            if name.lower() not in taken:
                break
            name = f"{wanted}_{number}"
        self.aggregates.append((name, aggregate))
        return name


def _title(aggregate: Aggregate) -> str:
    of = ", ".join(one.sql("duckdb").replace('"', "").lower() for one in aggregate.arguments)
    return f"{aggregate.function}({of})"


def _at(found: Scalar, before: Scalar) -> Scalar:
    if "span" in before.meta:
        found.meta["span"] = before.meta["span"]
    return found
