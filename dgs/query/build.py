"""Queries written in Python: streams and tables with methods, columns with operators.

>>> flights = stream("flights", carrier=TEXT, delay=INT)
>>> late = flights.where(flights.delay > 15).group("carrier", n=count(), worst=greatest(flights.delay)).where(col("n") > 1)
>>> print(late.relation.schema)
carrier text, n int64, worst int64
>>> late.answer(flights=[("UA", 20), ("UA", 35), ("AA", 90), ("UA", 2)])
[{'carrier': 'UA', 'n': 2, 'worst': 35}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dgs.query.aggregates import Aggregate
from dgs.query.evaluate import answer, rows_of, zbag
from dgs.query.program import QueryProgram
from dgs.query.relation import (
    Expand,
    Group,
    How,
    Join,
    Key,
    Map,
    Order,
    Relation,
    Script,
    Source,
    Union,
    Where,
    Window,
)
from dgs.query.scalar import Scalar, call, column, literal
from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME, Schema, Type, plain

__all__ = [
    "BOOL", "FLOAT", "INT", "TEXT", "TIME", "Col", "Query", "average", "col", "collect", "count", "greatest",
    "least", "stream", "table", "total", "value",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Col:
    """A scalar with Python's operators. `&`, `|` and `~` are and, or and not; `//` and `%` are those of integers, towards 0."""

    scalar: Scalar

    def _with(self, name: str, other: Any, *, turned: bool = False) -> Col:
        one, two = self.scalar, value(other).scalar
        return Col(call(name, two, one) if turned else call(name, one, two))

    def __add__(self, other: Any) -> Col:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Col:
        return self._with("add", other, turned=True)

    def __sub__(self, other: Any) -> Col:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Col:
        return self._with("sub", other, turned=True)

    def __mul__(self, other: Any) -> Col:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> Col:
        return self._with("mul", other, turned=True)

    def __truediv__(self, other: Any) -> Col:
        return self._with("div", other)

    def __floordiv__(self, other: Any) -> Col:
        return self._with("intdiv", other)

    def __mod__(self, other: Any) -> Col:
        return self._with("mod", other)

    def __eq__(self, other: object) -> Col:  # type: ignore[override]
        return self._with("eq", other)

    def __ne__(self, other: object) -> Col:  # type: ignore[override]
        return self._with("neq", other)

    def __lt__(self, other: Any) -> Col:
        return self._with("lt", other)

    def __le__(self, other: Any) -> Col:
        return self._with("lte", other)

    def __gt__(self, other: Any) -> Col:
        return self._with("gt", other)

    def __ge__(self, other: Any) -> Col:
        return self._with("gte", other)

    def __and__(self, other: Any) -> Col:
        return self._with("and", other)

    def __or__(self, other: Any) -> Col:
        return self._with("or", other)

    def __invert__(self) -> Col:
        return Col(call("not", self.scalar))

    def __hash__(self) -> int:
        return hash(self.scalar)

    def is_null(self) -> Col:
        """Return the condition that it is null."""
        return Col(call("isnull", self.scalar))

    def call(self, function: str, *others: Any) -> Col:
        """Return a call of a function of the table, with this and other arguments: `col("line").call("lower")`."""
        return Col(call(function, self.scalar, *(value(one).scalar for one in others)))


def col(name: str) -> Col:
    """Return a column by name."""
    return Col(column(name))


def value(of: Any) -> Col:
    """Return a constant; a `Col` is returned as it is."""
    return of if isinstance(of, Col) else Col(literal(of))


def _named(one: str | Col) -> tuple[str, Scalar]:
    scalar = col(one).scalar if isinstance(one, str) else one.scalar
    return scalar.name, scalar


def count(of: Any = None, **options: Any) -> Aggregate:
    """Return the number of rows, or of values that are not null. `options` are those of `Aggregate`: distinct, where, empty."""
    return _aggregate("count", of, options) if of is not None else Aggregate("count", **_of_columns(options))


def total(of: Any, **options: Any) -> Aggregate:
    """Return the sum of values."""
    return _aggregate("sum", of, options)


def average(of: Any, **options: Any) -> Aggregate:
    """Return the mean of values."""
    return _aggregate("avg", of, options)


def least(of: Any, **options: Any) -> Aggregate:
    """Return the least value."""
    return _aggregate("min", of, options)


def greatest(of: Any, **options: Any) -> Aggregate:
    """Return the greatest value."""
    return _aggregate("max", of, options)


def collect(of: Any, **options: Any) -> Aggregate:
    """Return the bag of all values."""
    return _aggregate("collect", of, options)


def _aggregate(name: str, of: Any, options: Mapping[str, Any]) -> Aggregate:
    return Aggregate(name, (value(of).scalar,), **_of_columns(options))


def _of_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.scalar if isinstance(one, Col) else one for name, one in options.items()}


@dataclass(frozen=True, slots=True)
class Query:
    """A relation with methods. Columns are attributes: `orders.day`; or `orders["group"]` if a method has the same name."""

    relation: Relation

    def __getattr__(self, name: str) -> Col:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Col:
        self.relation.schema.index(name)
        return col(name)

    def where(self, *conditions: Col) -> Query:
        """Return the rows for which all conditions are true."""
        found = self.relation
        for one in conditions:
            found = Where(found, one.scalar)
        return Query(found)

    def select(self, *kept: str | Col, **made: Any) -> Query:
        """Return columns by name, and new ones."""
        fields = [_named(one) for one in kept] + [(name, value(one).scalar) for name, one in made.items()]
        return Query(Map(self.relation, tuple(fields)))

    def named(self, name: str) -> Query:
        """Return the rows with each column named `name.column`: both sides of a join need different names."""
        names = self.relation.schema.names
        return Query(Map(self.relation, tuple((f"{name}.{one}", column(one)) for one in names)))

    def join(self, other: Query, *pairs: tuple[Any, Any], how: How = "inner", on: Col | None = None) -> Query:
        """Return pairs of rows with equal columns, named or as scalars: `orders.join(customers, ("custkey", "id"))`."""
        sides = tuple((_scalar(one), _scalar(two)) for one, two in pairs)
        return Query(Join(self.relation, other.relation, sides, None if on is None else on.scalar, how))

    def group(self, *keys: str | Col, **made: Any) -> Query:
        """Return a row for each key: columns by name, scalars as `name=scalar`, aggregates as `name=total(...)`."""
        fields = [_named(one) for one in keys]
        fields += [(name, value(one).scalar) for name, one in made.items() if not isinstance(one, Aggregate)]
        aggregates = tuple((name, one) for name, one in made.items() if isinstance(one, Aggregate))
        return Query(Group(self.relation, tuple(fields), aggregates))

    def distinct(self) -> Query:
        """Return each row once."""
        return self.group(*self.relation.schema.names)

    def union(self, *others: Query) -> Query:
        """Return all rows of this and other relations."""
        return Query(Union((self.relation, *(one.relation for one in others))))

    def expand(self, items: Col, as_: str) -> Query:
        """Return a row for each item of a list or bag."""
        return Query(Expand(self.relation, items.scalar, as_))

    def windows(self, size: int, slide: int | None = None, *, at: str = "ts") -> Query:
        """Return each row once for each window that it is in, with the window's end as `window_end`."""
        return Query(Window(self.relation, size, slide or size, at=at))

    def order(self, *by: str, descending: bool = False, limit: int | None = None) -> Query:
        """Return the rows as a list."""
        keys = tuple(Key(column(name), descending) for name in by)
        return Query(Order(self.relation, keys, limit))

    def answer(self, **tables: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the rows for rows of the sources by name, by the reference interpreter."""
        sources = Script.of(self.relation).sources()
        bags = {name: zbag(rows_of(rows, sources[name].columns)) for name, rows in tables.items()}
        fields = self.relation.schema.fields
        rows = answer(self.relation, bags)
        return [{name: plain(one, of) for one, (name, of) in zip(row, fields, strict=True)} for row in rows]

    def program(self, **options: Any) -> QueryProgram:
        """Return the program that keeps the answer. `options`: those of `QueryProgram`."""
        return QueryProgram(self.relation, **options)


def _scalar(one: Any) -> Scalar:
    return column(one) if isinstance(one, str) else value(one).scalar


def stream(name: str, /, deletes: bool = False, **columns: Type) -> Query:
    """Return a stream. `deletes`: its rows may be deletions."""
    return Query(Source(name, Schema.of(**columns), deletes=deletes))


def table(name: str, /, **columns: Type) -> Query:
    """Return a table that does not change."""
    return Query(Source(name, Schema.of(**columns), changes=False))
