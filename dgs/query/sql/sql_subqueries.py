"""Nested queries in expressions of SQL, as joins: `exists`, `in` and queries of one value, correlated by equalities or not at all.

A nested query becomes a relation, once for all rows of the outer query, with the correlating columns as its keys. The value of an aggregate
over no rows is decided after the join: a count is 0, anything else null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp

from dgs.query.relation import Fields, How, Join, Map, Relation
from dgs.query.scalar import Scalar, column, substituted


class NestedCall(exp.Expression):
    """A nested query inside an expression, until it is joined: `this` is a Nesting, `expressions` are its scalars over the outer rows."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - as sqlglot declares it


@dataclass(frozen=True, slots=True)
class Nesting:
    """A relation to join to the outer rows by equalities with `keys`, and the value of the expression after that. `how`: of the join."""

    relation: Relation
    keys: tuple[str, ...]
    value: Scalar
    how: How = "left"


@dataclass(frozen=True, slots=True)
class Item:
    """One column of a `select`: its name, and its scalar. `is_list`: it is `unnest` of a list, which adds rows."""

    name: str
    scalar: Scalar
    is_list: bool = False


def nesting(
    relation: Relation, keys: list[str], value: Scalar, outer: list[Scalar], *, how: How = "inner"
) -> NestedCall:
    """Return the call of a nested query: `keys` are equal to the scalars `outer`, and `value` is over the relation's rows."""
    return NestedCall(
        this=Nesting(relation, tuple(keys), value, how), expressions=[one.copy() for one in outer]
    )


class NestedQueries:
    """Joins nested queries to the rows of an outer one. A query that occurs twice is joined once."""

    def __init__(self) -> None:
        self._joined: dict[Any, dict[str, str]] = {}
        self._count = 0

    def forget(self) -> None:
        """Forget joined queries, since the rows have changed, for example to groups."""
        self._joined.clear()

    def fresh(self) -> str:
        """Return a name that no field begins with."""
        self._count += 1
        return f"q{self._count}."

    def attached(self, scalar: Scalar, node: Relation) -> tuple[Scalar, Relation]:
        """Return a scalar without nested queries, and the rows that it is then over."""
        calls = list(scalar.find_all(NestedCall))
        if not calls:
            return scalar, node
        values: dict[int, Scalar] = {}
        for one in reversed(calls):  # the inner ones first
            for place, part in enumerate(one.expressions):
                one.expressions[place], node = self.attached(part, node)
            values[id(one)], node = self._value(one, node)
        found = scalar.transform(lambda part: values.get(id(part), part), copy=False)
        return cast("Scalar", found), node

    def _value(self, nested: NestedCall, node: Relation) -> tuple[Scalar, Relation]:
        one: Nesting = nested.this
        outer = tuple(nested.expressions)
        known = self._joined.get((one.relation, outer))
        if known is None:
            prefix = self.fresh()
            known = {name: prefix + name for name in one.relation.schema.names}
            renamed: Fields = tuple((new, column(name)) for name, new in known.items())
            right = Map(one.relation, renamed, span=one.relation.span)
            pairs = tuple((own, column(known[key])) for own, key in zip(outer, one.keys, strict=True))
            how: How = "left" if one.keys else one.how
            node = Join(node, right, pairs, None, how, span=one.relation.span)
            self._joined[one.relation, outer] = known
        return substituted(one.value, {name: column(new) for name, new in known.items()}), node
