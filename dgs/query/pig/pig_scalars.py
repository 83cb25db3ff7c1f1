"""Expressions of Pig Latin as scalars of the algebra, with their Pig types.

A bytearray takes the type that its operator needs: in arithmetic a double. A text that is not a number becomes null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dgs.query.errors import QueryError
from dgs.query.pig import pig_functions as functions
from dgs.query.pig.pig_casts import as_number, as_type, met, over_items, record_of
from dgs.query.pig.pig_scope import Scope, Value
from dgs.query.pig.pig_types import (
    BOOLEAN,
    CHARARRAY,
    DOUBLE,
    INTEGER,
    LONG,
    NULL,
    PigType,
    columns,
    declared_type,
)
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.relation import Map
from dgs.query.scalar import call, column, field, literal, when

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "neq", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def value_of(node: pig.Expression, scope: Scope) -> Value:
    """Return an expression as a scalar. Raises QueryError with its place."""
    try:
        return _MAKERS[type(node)](node, scope)
    except QueryError as error:
        if error.facts["span"] is None:
            span = scope.source.span(node.at)
            raise QueryError(**(error.facts | {"span": span, "where": str(span)})) from None
        raise


def condition_of(node: pig.Expression, scope: Scope) -> Value:
    """Return an expression that must be true or false. Raises QueryError Q204."""
    found = value_of(node, scope)
    if found.type not in (BOOLEAN, NULL):
        raise scope.error("Q204", f"a condition is needed here, and this is {found.type}", "", node.at)
    return found


def _name(node: pig.Name, scope: Scope) -> Value:
    return scope.field(node)


def _parameter(node: pig.Parameter, scope: Scope) -> Value:
    if node.name not in scope.parameters:
        remedy = f"Give it: -p {node.name}=..."
        raise scope.error("Q120", f"the parameter ${node.name} has no value", remedy, node.at)
    given = scope.parameters[node.name]
    for read in (int, float):
        try:
            return _constant(read(given))
        except ValueError:
            continue
    return _constant(given)


def _literal(node: pig.Literal, _scope: Scope) -> Value:
    return _constant(node.value)


def _constant(value: float | str | bool | None) -> Value:
    types = {bool: BOOLEAN, int: INTEGER, float: DOUBLE, str: CHARARRAY, type(None): NULL}
    return Value(literal(value), types[type(value)])


def _star(node: pig.Expression, scope: Scope) -> Value:
    raise scope.error("Q101", "all fields cannot stand here", "Name one.", node.at)


def _dot(node: pig.Dot, scope: Scope) -> Value:
    base = value_of(node.base, scope)
    if base.type.name == "tuple":
        chosen = [_of_tuple(base, one, scope) for one in node.fields]
        return chosen[0][1] if len(chosen) == 1 else record_of([(name, value) for name, value in chosen])
    if base.type.name != "bag":
        problem = f"a field of {base.type}, where a tuple or a bag is needed"
        raise scope.error("Q204", problem, "", node.at)
    inner = replace(scope, fields=base.type.inside, values={})
    places = [inner.place(one) for one in node.fields]
    fields = tuple(base.type.inside[place] for place in places)
    return over_items(
        base,
        fields,
        lambda source, names: Map(
            source,
            tuple((new, column(names[place])) for new, place in zip(columns(fields), places, strict=True)),
        ),
    )


def _of_tuple(base: Value, name: pig.Name | pig.Position, scope: Scope) -> tuple[str | None, Value]:
    place = scope.place(name, base.type.inside)
    inside = base.type.inside
    return inside[place].name, Value(field(base.scalar, columns(inside)[place]), inside[place].type)


def _lookup(node: pig.Lookup, scope: Scope) -> Value:
    base, key = value_of(node.base, scope), value_of(node.key, scope)
    if base.type.name != "map":
        raise scope.error("Q204", f"# looks into a map, and this is {base.type}", "", node.at)
    of = base.type.inside[0].type if base.type.inside else PigType("bytearray")
    return Value(call("map_value", base.scalar, as_type(key, CHARARRAY).scalar), of)


def _call(node: pig.Call, scope: Scope) -> Value:
    found = functions.FUNCTIONS.get(node.function.upper())
    if node.function in scope.functions:
        return scope.functions[node.function]([value_of(one, scope) for one in node.arguments])
    if found is None:
        raise _no_function(node, scope)
    if not found.least <= len(node.arguments) <= found.most:
        wanted = found.least if found.least == found.most else f"{found.least} to {found.most}"
        problem = (
            f"{node.function} takes {wanted} argument{'' if wanted == 1 else 's'}, not {len(node.arguments)}"
        )
        raise scope.error("Q206", problem, "", node.at)
    return found.make([value_of(one, scope) for one in node.arguments])


def _no_function(node: pig.Call, scope: Scope) -> QueryError:
    known = [*functions.FUNCTIONS, *scope.functions]
    error = scope.unknown("function", node.function, known, node.at)
    remedy = error.facts["remedy"] if error.facts["remedy"].startswith("Did") else ""
    return scope.error(
        "Q205", error.facts["problem"], remedy or "Write it in Python in a <% %> section.", node.at
    )


def _operation(node: pig.Operation, scope: Scope) -> Value:
    operator = node.operator
    if operator in ("and", "or", "not"):
        return Value(call(operator, *(condition_of(one, scope).scalar for one in node.operands)), BOOLEAN)
    if operator == "if":
        return _choice(node.operands, scope)
    parts = [value_of(one, scope) for one in node.operands]
    if operator in ARITHMETIC:
        return _arithmetic(operator, parts)
    if operator in COMPARISONS:
        return _compared(COMPARISONS[operator], parts)
    return _OTHERS[operator](parts)


def _negative(parts: Sequence[Value]) -> Value:
    (one,) = map(as_number, parts)
    return Value(call("neg", one.scalar), one.type)


def _is_null(parts: Sequence[Value]) -> Value:
    return Value(call("isnull", parts[0].scalar), BOOLEAN)


def _matches(parts: Sequence[Value]) -> Value:
    return Value(call("matches", *(as_type(one, CHARARRAY).scalar for one in parts)), BOOLEAN)


def _compared(name: str, parts: Sequence[Value]) -> Value:
    left, right = met(parts)
    return Value(call(name, left.scalar, right.scalar), BOOLEAN)


def _any_equal(parts: Sequence[Value]) -> Value:
    tests = [_compared("eq", (parts[0], one)).scalar for one in parts[1:]]
    found = tests[0]
    for one in tests[1:]:
        found = call("or", found, one)
    return Value(found, BOOLEAN)


_OTHERS: dict[str, Callable[[Sequence[Value]], Value]] = {
    "negative": _negative,
    "is null": _is_null,
    "matches": _matches,
    "in": _any_equal,
}


def _arithmetic(operator: str, parts: Sequence[Value]) -> Value:
    left, right = map(as_number, parts)
    is_whole = {left.type.name, right.type.name} <= {"int", "long", "null"}
    kind = DOUBLE if not is_whole else INTEGER if left.type == right.type == INTEGER else LONG
    name = "intdiv" if operator == "/" and is_whole else ARITHMETIC[operator]
    if is_whole and operator in "/%":
        return Value(call(name, left.scalar, call("nullif", right.scalar, literal(0))), kind)
    return Value(call(name, left.scalar, right.scalar), kind)


def _choice(operands: Sequence[pig.Expression], scope: Scope) -> Value:
    test = condition_of(operands[0], scope)
    then, otherwise = met([value_of(one, scope) for one in operands[1:]])
    unless_null = when(call("isnull", test.scalar), literal(None), otherwise.scalar)  # Pig's rule for nulls
    return Value(when(test.scalar, then.scalar, unless_null), then.type)


def _cast(node: pig.Cast, scope: Scope) -> Value:
    return as_type(value_of(node.operand, scope), declared_type(pig.FieldType(node.type)), is_asked=True)


def _build(node: pig.Build, scope: Scope) -> Value:
    parts = [(_given_name(one), value_of(one, scope)) for one in node.elements]
    if node.kind == "tuple":
        return record_of(parts)
    return functions.FUNCTIONS["TOBAG" if node.kind == "bag" else "TOMAP"].make([value for _, value in parts])


def _given_name(node: pig.Expression) -> str | None:
    return node.text if isinstance(node, pig.Name) else None


_MAKERS: dict[type, Callable[..., Value]] = {
    pig.Name: _name,
    pig.Position: _name,
    pig.Parameter: _parameter,
    pig.Literal: _literal,
    pig.Star: _star,
    pig.FieldRange: _star,
    pig.Dot: _dot,
    pig.Lookup: _lookup,
    pig.Call: _call,
    pig.Operation: _operation,
    pig.Cast: _cast,
    pig.Build: _build,
}
