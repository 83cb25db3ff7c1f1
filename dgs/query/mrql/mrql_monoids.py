"""User aggregations of MRQL: `aggregation name(plus, zero)`, tested on small values for the laws of a commutative monoid.

Leaves add up parts in any order, so plus must be commutative and associative, and zero must change nothing. A difference is Q303,
with at most three cases that show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import isclose
from typing import TYPE_CHECKING, Any

from dgs.query import aggregates
from dgs.query.errors import QueryError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block
from dgs.query.mrql.mrql_terms import UserAggregation, Value
from dgs.query.scalar import Scalar, bound, column
from dgs.query.types import Schema, Type

if TYPE_CHECKING:
    from dgs.query.mrql.mrql_values import Values

SAMPLES: dict[str, list[Any]] = {
    "int64": [-2, -1, 0, 1, 2, 3, 7],
    "float64": [-2.0, -0.5, 0.0, 1.0, 1.5, 4.0],
    "text": ["", "a", "b", "ab"],
    "bool": [False, True],
}


def user_aggregation(values: Values, user: UserAggregation, argument: Scalar) -> aggregates.UserAggregation:
    """Return the aggregation of the algebra for arguments of a type. Raises QueryError Q303 if it is not a commutative monoid."""
    definition = user.definition
    zero = values.value(definition.zero, user.names, Block())
    of = values.type_of(argument)
    wider = of if of.kind == "float64" else values.type_of(zero)
    values.types["left"] = values.types["right"] = wider
    left, right = column("left"), column("right")
    plus = _plus(values, user, left, right)
    found = _broken_laws(plus, zero, wider)
    cases = list(islice(found, 3))
    if cases:
        problem = f"{definition.name!r} is no commutative monoid: {'; '.join(cases)}"
        remedy = "The parts of a stream are added up in any order. Let plus be commutative and associative, with zero neutral."
        raise values.text.error("Q303", definition.at, problem, remedy)
    return aggregates.UserAggregation(definition.name, plus, zero)


def _plus(values: Values, user: UserAggregation, left: Scalar, right: Scalar) -> Scalar:
    definition, block = user.definition, Block()
    if isinstance(definition.plus, tuple):
        first, second, body = definition.plus
        names = user.names.with_({first: Value(left), second: Value(right)})
        return values.value(body, names, block)
    operands = tuple(t.Name(name, at=definition.at) for name in (" left", " right"))
    names = user.names.with_({" left": Value(left), " right": Value(right)})
    if definition.plus in ("+", "-", "*", "/"):
        return values.value(t.Binary(definition.plus, *operands, at=definition.at), names, block)
    name = {"min": "least", "max": "greatest"}.get(definition.plus, definition.plus)
    return values.value(t.Call(name, operands, at=definition.at), names, block)


def _broken_laws(plus: Scalar, zero: Scalar, of: Type) -> Iterator[str]:
    added = bound(plus, Schema((("left", of), ("right", of))))
    neutral = bound(zero, Schema(()))(())
    samples = SAMPLES.get(of.kind, [])
    for one in samples:
        if _differ(_added(added, one, neutral), one):
            yield f"plus({one!r}, zero) is {_added(added, one, neutral)!r}"
    for one, other in product(samples, samples):
        first, second = _added(added, one, other), _added(added, other, one)
        if one != other and _differ(first, second) and samples.index(one) < samples.index(other):
            yield f"plus({one!r}, {other!r}) is {first!r}, plus({other!r}, {one!r}) is {second!r}"
    for one, other, third in product(samples, repeat=3):
        first = _added(added, _added(added, one, other), third)
        second = _added(added, one, _added(added, other, third))
        if _differ(first, second):
            yield f"plus(plus({one!r}, {other!r}), {third!r}) is {first!r}, plus({one!r}, plus({other!r}, {third!r})) is {second!r}"


def _added(added: Any, one: Any, other: Any) -> Any:
    try:
        return None if one is None or other is None else added((one, other))
    except QueryError:
        return None  # beyond 64 bits, or a division by zero: these values say nothing


def _differ(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    if isinstance(one, float) and isinstance(other, float):
        return not isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) and not (one != one and other != other)  # noqa: PLR0124
    return bool(one != other)
