"""Aggregates: functions of the rows of a group, each with its type, its meaning over weighted values, and its text for DuckDB.

>>> Aggregate("sum", (column("delay"),)).over([((10,), 2), ((None,), 1)])
20
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from dgs.query.errors import QueryError, Span
from dgs.query.meanings import divided, number
from dgs.query.scalar import Scalar, bound, column
from dgs.query.types import BOOL, FLOAT, INT, Schema, Type, bag, one_float, order_key, record

Weighted = Sequence[tuple[tuple[Any, ...], int]]
"""Arguments of an aggregate with their weights, no weight 0."""

__all__ = ["AGGREGATES", "Aggregate", "Reduction", "UserAggregation", "Weighted", "column"]


@dataclass(frozen=True, slots=True)
class UserAggregation:
    """An aggregation that a script defines: `plus` is a scalar over the columns `left` and `right`, `zero` its neutral value."""

    name: str
    plus: Scalar
    zero: Scalar


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of `arguments`: a name of `AGGREGATES`, or `user`.

    `count` without arguments counts rows, with an argument its values that are not null. `distinct`: different values only. `where`: only
    rows for which it is true. `empty`: the value of a sum, and of `some` and `all`, of no values: "null" as in SQL, "zero" as in MRQL.
    `is_exact`: DuckDB rounds a sum of floats once, as the interpreter always does.
    """

    function: str
    arguments: tuple[Scalar, ...] = ()
    distinct: bool = False
    where: Scalar | None = None
    empty: Literal["null", "zero"] = "null"
    user: UserAggregation | None = None
    is_exact: bool = False
    span: Span | None = field(default=None, compare=False, kw_only=True)

    @property
    def reduction(self) -> Reduction:
        """The entry of the function in the table. Raises QueryError Q205, Q206."""
        found = AGGREGATES.get(self.function)
        if found is None:
            raise QueryError.of("Q205", f"no aggregate {self.function!r}", span=self.span)
        if not found.least <= len(self.arguments) <= found.most:
            problem = (
                f"{self.function} takes {found.least} to {found.most} arguments, not {len(self.arguments)}"
            )
            raise QueryError.of("Q206", problem, span=self.span)
        return found

    def type(self, schema: Schema) -> Type:
        """Return the type of the result. Raises QueryError Q204, Q205, Q206."""
        rule = self.reduction.type
        if self.where is not None:
            bound(self.where, schema, self.span)
        return rule([bound(one, schema, self.span).type for one in self.arguments])

    def over(self, values: Weighted) -> Any:
        """Return the result for the arguments of a group's rows."""
        weights: dict[tuple[Any, ...], int] = {}
        for given, weight in values:
            weights[given] = weights.get(given, 0) + weight
        kept = [(given, weight) for given, weight in weights.items() if weight]
        if self.distinct:
            kept = [(given, 1) for given, weight in kept if weight > 0]
        if self.user is not None:
            return _by_user(self.user, kept)
        found = self.reduction.python(kept)
        return self.reduction.zero if found is None and self.empty == "zero" else found


@dataclass(frozen=True, slots=True)
class Reduction:
    """The facts about an aggregate: `duckdb` and `spark` are texts with `{0}` and `{1}` for its arguments."""

    python: Callable[[Weighted], Any]
    type: Callable[[Sequence[Type]], Type]
    duckdb: str
    spark: str
    least: int = 1
    most: int = 1
    zero: Any = None


def _present(values: Weighted) -> list[tuple[Any, int]]:
    return [(given[0], weight) for given, weight in values if given[0] is not None]


def _count(values: Weighted) -> int:
    return sum(weight for given, weight in values if not given or given[0] is not None)


def exact_sum(values: Sequence[tuple[Any, int]]) -> Any:
    """Return the sum of numbers by weight, rounded once; NaN and infinities as IEEE adds them."""
    if not values or not isinstance(values[0][0], float):
        return sum(one * weight for one, weight in values)
    if all(math.isfinite(one) for one, _ in values):
        return _as_float(sum((Fraction(one) * weight for one, weight in values), Fraction(0)))
    return one_float(sum(one * weight for one, weight in values))


def _as_float(value: Fraction) -> float:
    try:
        return one_float(float(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _sum(values: Weighted) -> Any:
    some = _present(values)
    return number(exact_sum(some)) if _count(values) > 0 else None


def _avg(values: Weighted) -> Any:
    count = _count(values)
    return divided(float(exact_sum(_present(values))), float(count)) if count > 0 else None


def _variance(values: Weighted, less: int) -> float | None:
    some, count = _present(values), _count(values)
    if count <= less:
        return None
    if not all(math.isfinite(one) for one, _ in some):
        return math.nan
    mean = sum((Fraction(one) * weight for one, weight in some), Fraction(0)) / count
    squares = sum(((Fraction(one) - mean) ** 2 * weight for one, weight in some), Fraction(0))
    return _as_float(squares / (count - less))


def _deviation(values: Weighted, less: int) -> float | None:
    found = _variance(values, less)
    return None if found is None else math.sqrt(found) if found >= 0 else math.nan


def _extreme(choose: Callable[..., Any]) -> Callable[[Weighted], Any]:
    return lambda values: choose(
        (one for one, weight in _present(values) if weight > 0), key=order_key, default=None
    )


def _by_second(choose: Callable[..., Any]) -> Callable[[Weighted], Any]:
    """Return the first argument where the second is extreme; of several rows, that of the first."""

    def chosen(values: Weighted) -> Any:
        pairs = [given for given, weight in values if weight > 0 and given[1] is not None]
        if not pairs:
            return None
        best = choose((given[1] for given in pairs), key=order_key)
        return min((given[0] for given in pairs if given[1] == best), key=order_key)

    return chosen


def _truth(decisive: bool) -> Callable[[Weighted], Any]:
    def decided(values: Weighted) -> bool | None:
        some = [one for one, weight in _present(values) if weight > 0]
        return None if not some else decisive if decisive in some else not decisive

    return decided


def _repeated(values: Weighted) -> list[Any]:
    return sorted((given[0] for given, weight in values for _ in range(weight)), key=order_key)


def _collect(values: Weighted) -> tuple[Any, ...]:
    return tuple(_repeated(values))


def _median(values: Weighted) -> Any:
    some = [one for one in _repeated(values) if one is not None]
    if not some:
        return None
    low, high = some[(len(some) - 1) // 2], some[len(some) // 2]
    return one_float(low if low == high else low + (high - low) / 2)  # two infinities have no difference


def _by_user(user: UserAggregation, values: Weighted) -> Any:
    zero = bound(user.zero, Schema(()))
    schema = Schema((("left", zero.type), ("right", zero.type)))
    plus, total = bound(user.plus, schema), zero(())
    for one in _repeated(values):
        total = plus((total, one))
    return total


def _number(result: Type | None) -> Callable[[Sequence[Type]], Type]:
    def rule(types: Sequence[Type]) -> Type:
        if not types[0].is_number:
            raise QueryError.of("Q204", f"{types[0]} where a number is needed")
        return result or (FLOAT if types[0].kind == "float64" else INT)

    return rule


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _bool(types: Sequence[Type]) -> Type:
    if types[0].kind not in ("bool", "null"):
        raise QueryError.of("Q204", f"{types[0]} where a condition is needed")
    return BOOL


def _as_list(types: Sequence[Type]) -> Type:
    return bag(
        types[0] if len(types) == 1 else record(*((f"f{place}", one) for place, one in enumerate(types)))
    )


_FIRST = "first({{0}} ORDER BY {{1}} {}, {{0}} ASC NULLS LAST) FILTER (WHERE {{1}} IS NOT NULL)"
_FIRST_IN_SPARK = (
    "try_element_at(array_sort(collect_list(CASE WHEN {{1}} IS NOT NULL THEN struct({{1}} AS k, {{0}} AS v) END), (a, b) ->"
    " CASE WHEN a.k {0} b.k THEN -1 WHEN b.k {0} a.k THEN 1 WHEN a.v < b.v OR (a.v IS NOT NULL AND b.v IS NULL) THEN -1"
    " WHEN b.v < a.v OR (b.v IS NOT NULL AND a.v IS NULL) THEN 1 ELSE 0 END), 1).v"
)

AGGREGATES: dict[str, Reduction] = {
    "count": Reduction(_count, lambda _: INT.required(), "count({0})", "count({0})", 0, 1),
    "sum": Reduction(_sum, _number(None), "sum({0})", "sum({0})", zero=0),
    "avg": Reduction(_avg, _number(FLOAT), "avg({0})", "avg({0})"),
    "var_pop": Reduction(lambda v: _variance(v, 0), _number(FLOAT), "var_pop({0})", "var_pop({0})"),
    "var_samp": Reduction(lambda v: _variance(v, 1), _number(FLOAT), "var_samp({0})", "var_samp({0})"),
    "stddev_pop": Reduction(lambda v: _deviation(v, 0), _number(FLOAT), "stddev_pop({0})", "stddev_pop({0})"),
    "stddev_samp": Reduction(lambda v: _deviation(v, 1), _number(FLOAT), "stddev_samp({0})", "stddev_samp({0})"),
    "min": Reduction(_extreme(min), _same, "min({0})", "min({0})"),
    "max": Reduction(_extreme(max), _same, "max({0})", "max({0})"),
    "arg_min": Reduction(_by_second(min), _same, _FIRST.format("ASC"), _FIRST_IN_SPARK.format("<"), 2, 2),
    "arg_max": Reduction(_by_second(max), _same, _FIRST.format("DESC"), _FIRST_IN_SPARK.format(">"), 2, 2),
    "some": Reduction(_truth(True), _bool, "bool_or({0})", "bool_or({0})", zero=False),
    "all": Reduction(_truth(False), _bool, "bool_and({0})", "bool_and({0})", zero=True),
    "median": Reduction(_median, _number(FLOAT), "median({0})", "median({0})"),
    "collect": Reduction(_collect, _as_list, "list_sort(list({0}), 'ASC', 'NULLS LAST')", "array_sort(collect_list({0}))"),
    "user": Reduction(_collect, _same, "", ""),
}  # fmt: skip
"""The aggregates by name. `count`, `sum`, `avg`, `min` and `max` skip nulls, `collect` keeps them."""
