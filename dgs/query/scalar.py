"""Scalars: expressions over the columns of one row, as trees of sqlglot, with their types and their meaning in Python.

`bound` gives both. Logic is three-valued: a comparison with null is null, and in `and` and `or` a false or a true may decide alone.

>>> schema = Schema.of(price=INT, disc=INT)
>>> revenue = call("mul", column("price"), call("sub", literal(100), column("disc")))
>>> bound(revenue, schema).type, bound(revenue, schema)((500, 10))
(Type(kind='int64', of=None, fields=(), nullable=True), 45000)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, cast

from sqlglot import exp

from dgs.query import meanings
from dgs.query.errors import QueryError, Span
from dgs.query.functions import arguments_of, function_of
from dgs.query.types import BOOL, FLOAT, INT, NULL, TEXT, TIME, Schema, Type, bag, list_of, record, unified

Scalar = exp.Expression
Row = tuple[Any, ...]


class Nested(exp.Expression):
    """A query over the items of a bag, as a scalar: `this` is the bag, `query` a relation over `Source(ITEMS, ...)`.

    The items' record fields are the columns of that source; items that are not records have the one column `item`. The result is a
    bag of the query's rows, a list if the query is an `Order`.
    """

    arg_types = {"this": True, "query": True}  # noqa: RUF012 - as sqlglot declares it
    meaning: ClassVar[Callable[[Any, Iterable[Row]], tuple[Row, ...]]]
    """The function that evaluates a query over items: `evaluate` sets it, since that module needs this one."""


ITEMS = "$items"
"""The name of the source that a nested query reads."""


def column(name: str) -> Scalar:
    """Return a scalar that is a column. The algebra compares columns by this form alone."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def literal(value: Any) -> Scalar:
    """Return a scalar that is a constant: None, a bool, int, float, text or datetime."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int) and value == -(2**63):
        return call("sub", literal(value + 1), literal(1))  # without its sign, the number does not fit
    if isinstance(value, (int, float)):
        number = exp.Literal.number(repr(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, dt.datetime):
        return call("to_time", literal(value.isoformat(sep=" ")))
    return exp.Literal.string(value)


def call(name: str, *arguments: Scalar) -> Scalar:
    """Return a call of a function of the table `functions.FUNCTIONS`, or of `and`, `or` and `isnull`."""
    if name in ("and", "or"):
        connect = exp.And if name == "and" else exp.Or
        return connect(this=arguments[0].copy(), expression=arguments[1].copy())
    if name == "isnull":
        return exp.Is(this=arguments[0].copy(), expression=exp.Null())
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def when(condition: Scalar, then: Scalar, otherwise: Scalar | None = None) -> Scalar:
    """Return `case when condition then ... else ... end`; null without the last."""
    branch = exp.If(this=condition.copy(), true=then.copy())
    return exp.Case(ifs=[branch], default=(otherwise or exp.Null()).copy())


def struct(**fields: Scalar) -> Scalar:
    """Return a record of named scalars."""
    parts = [
        exp.PropertyEQ(this=exp.Identifier(this=name, quoted=True), expression=one.copy())
        for name, one in fields.items()
    ]
    return exp.Struct(expressions=parts)


def field(of: Scalar, name: str) -> Scalar:
    """Return a field of a record."""
    return exp.Dot(this=of.copy(), expression=exp.Identifier(this=name, quoted=True))


def columns_of(scalar: Scalar) -> tuple[str, ...]:
    """Return the names of the columns that a scalar reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(one.name for one in scalar.find_all(exp.Column)))


def substituted(scalar: Scalar, given: Mapping[str, Scalar]) -> Scalar:
    """Return a scalar with other scalars in place of columns; columns that are not given stay."""

    def replaced(node: exp.Expression) -> exp.Expression:
        is_given = isinstance(node, exp.Column) and node.name in given
        return given[node.name].copy() if is_given else node

    return scalar.transform(replaced)


def conjuncts(predicate: Scalar | None) -> list[Scalar]:
    """Return the parts of a conjunction; none for no predicate and for `true`."""
    if predicate is None or predicate == exp.true():
        return []
    if isinstance(predicate, exp.Paren):
        return conjuncts(predicate.this)
    if isinstance(predicate, exp.And):
        return [one for part in operands(predicate) for one in conjuncts(part)]
    return [predicate]


def all_of(parts: Sequence[Scalar]) -> Scalar:
    """Return the conjunction of predicates, `true` if there are none."""
    return connected(exp.And, [one.copy() for one in parts]) if parts else exp.true()


def connected(word: Callable[..., Any], parts: Sequence[Scalar]) -> Scalar:
    """Return parts connected by AND or OR, without copying them."""
    return reduce(lambda one, other: word(this=one, expression=other), parts)


def operands(node: Scalar) -> list[Scalar]:
    """Return the operands of a chain of ANDs or ORs."""
    return cast("list[Scalar]", list(node.flatten(unnest=False)))


def spelled_out(node: Scalar) -> Scalar:
    """Return IN, BETWEEN, IF and CASE with a subject in terms of AND, OR and CASE with conditions; any other node unchanged."""
    if isinstance(node, exp.Between):
        return all_of([call("gte", node.this, node.args["low"]), call("lte", node.this, node.args["high"])])
    if isinstance(node, exp.In):
        tests = [call("eq", node.this, one) for one in node.expressions]
        return connected(exp.Or, tests) if tests else exp.false()
    if isinstance(node, exp.If):
        return when(node.this, node.args["true"], node.args.get("false"))
    subject = node.args.get("this") if isinstance(node, exp.Case) else None
    if subject is None:
        return node
    tests = [call("eq", subject, one.this) for one in node.args["ifs"]]
    branches = [
        exp.If(this=test, true=one.args["true"].copy())
        for test, one in zip(tests, node.args["ifs"], strict=True)
    ]
    return exp.Case(ifs=branches, default=(node.args.get("default") or exp.Null()).copy())


@dataclass(frozen=True, slots=True)
class Bound:
    """A scalar bound to a schema: its type, and its value for a row, called as a function."""

    type: Type
    value: Callable[[Row], Any]

    def __call__(self, row: Row) -> Any:
        """Return the value for a row. Raises QueryError Q701 or Q704."""
        return self.value(row)


def type_of(scalar: Scalar, schema: Schema) -> Type:
    """Return the type of a scalar. Raises QueryError Q201, Q204, Q205, Q206."""
    return bound(scalar, schema).type


def bound(scalar: Scalar, schema: Schema, span: Span | None = None) -> Bound:
    """Bind a scalar to a schema. Raises QueryError Q201, Q204, Q205, Q206, with the place of the scalar if it has one."""
    node = spelled_out(scalar)
    try:
        return _BINDERS.get(type(node), _call)(node, schema)
    except QueryError as error:
        place = scalar.meta.get("span") or span
        if error.facts["span"] is None and place is not None:
            raise QueryError(**(error.facts | {"span": place, "where": str(place)})) from None
        raise


def _call(node: Scalar, schema: Schema) -> Bound:
    function = function_of(node)
    parts = [bound(one, schema) for one in arguments_of(node)]
    if function.unifies and any(one.type == TIME for one in parts):
        parts = [_as_time(one, of) for one, of in zip(parts, arguments_of(node), strict=True)]
    result = function.type([one.type for one in parts])
    if function.unifies and {one.type.kind for one in parts} >= {"int64", "float64"}:
        parts = [_as_float(one) for one in parts]
    values, python = [one.value for one in parts], function.python
    if function.sees_nulls:
        return Bound(result, lambda row: python(*[value(row) for value in values]))

    def strict(row: Row) -> Any:
        given = [value(row) for value in values]
        return None if any(one is None for one in given) else python(*given)

    return Bound(result, strict)


def _as_time(part: Bound, node: Scalar) -> Bound:
    """Return a text that is compared with a time as a time."""
    return _cast(_time_cast(node), Schema(())) if isinstance(node, exp.Literal) and node.is_string else part


def _time_cast(node: Scalar) -> Scalar:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("timestamp"))


def _as_float(part: Bound) -> Bound:
    if part.type.kind != "int64":
        return part
    value = part.value
    return Bound(FLOAT, lambda row: None if (found := value(row)) is None else float(found))


def _column(node: Scalar, schema: Schema) -> Bound:
    place = schema.index(node.name, node.meta.get("span"))
    return Bound(schema.types[place], lambda row: row[place])


def _literal(node: Scalar, schema: Schema) -> Bound:  # noqa: ARG001 - as all binders
    text = node.this
    if node.is_string:
        return Bound(TEXT, lambda _: text)
    value: Any = float(text) if any(mark in text for mark in ".eEin") else meanings.number(int(text))
    return Bound(FLOAT if isinstance(value, float) else INT, lambda _: value)


def _null(node: Scalar, schema: Schema) -> Bound:  # noqa: ARG001
    return Bound(NULL, lambda _: None)


def _boolean(node: Scalar, schema: Schema) -> Bound:  # noqa: ARG001
    value = bool(node.this)
    return Bound(BOOL, lambda _: value)


def _truth(node: Scalar, schema: Schema) -> Bound:
    found = bound(node, schema)
    if found.type.kind not in ("bool", "null"):
        raise QueryError.of("Q204", f"{found.type} where a condition is needed")
    return found


def _connective(deciding: bool) -> Callable[[Any, Schema], Bound]:
    """Return the binder of AND or OR. `deciding`: the value that decides alone; otherwise a null makes the result null."""

    def binder(node: Scalar, schema: Schema) -> Bound:
        parts = [_truth(one, schema) for one in operands(node)]

        def value(row: Row) -> Any:
            found: bool | None = not deciding
            for part in parts:
                one = part(row)
                if one is deciding:
                    return deciding
                if one is None:
                    found = None
            return found

        return Bound(BOOL, value)

    return binder


def _is(node: Scalar, schema: Schema) -> Bound:
    part, wanted = bound(node.this, schema), bound(node.expression, schema)((None,))
    return Bound(BOOL, lambda row: part(row) is wanted)


def _case(node: Scalar, schema: Schema) -> Bound:
    branches = [(_truth(one.this, schema), bound(one.args["true"], schema)) for one in node.args["ifs"]]
    default = bound(node.args.get("default") or exp.Null(), schema)
    result = unified([*(then.type for _, then in branches), default.type])
    if result == FLOAT:
        branches = [(test, _as_float(then)) for test, then in branches]
        default = _as_float(default)

    def chosen(row: Row) -> Any:
        for test, then in branches:
            if test(row):
                return then(row)
        return default(row)

    return Bound(result, chosen)


def kind_of(wanted: exp.DataType) -> Type:
    """Return our type for one of sqlglot. Raises QueryError Q204."""
    name = wanted.this.name if hasattr(wanted.this, "name") else str(wanted.this)
    for result, names in _KINDS.items():
        if name in names:
            return result
    raise QueryError.of("Q204", f"no type {name.lower()}: there are int64, float64, bool, text and time")


_KINDS = {
    INT: ("BIGINT", "INT", "SMALLINT", "TINYINT"),
    FLOAT: ("DOUBLE", "FLOAT", "DECIMAL"),
    TEXT: ("TEXT", "VARCHAR", "CHAR"),
    BOOL: ("BOOLEAN",),
    TIME: ("TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"),
}


def _cast(node: Scalar, schema: Schema) -> Bound:
    part, wanted = bound(node.this, schema), kind_of(node.args["to"])
    is_time, becomes_time = part.type.kind == "time", wanted == TIME
    has_no_form = becomes_time != is_time and "text" not in (part.type.kind, wanted.kind)
    if part.type.kind != "null" and (part.type.of is not None or part.type.kind == "record" or has_no_form):
        raise QueryError.of("Q204", f"{part.type} cannot be cast to {wanted}")
    return Bound(
        wanted, lambda row: None if (found := part(row)) is None else meanings.cast(found, wanted.kind)
    )


def _struct(node: Scalar, schema: Schema) -> Bound:
    parts = [(one.this.name, bound(one.expression, schema)) for one in node.expressions]
    result = record(*((name, part.type) for name, part in parts)).required()
    return Bound(result, lambda row: tuple(part(row) for _, part in parts))


def _dot(node: Scalar, schema: Schema) -> Bound:
    part, name = bound(node.this, schema), node.expression.name
    fields = Schema(part.type.fields)
    place = fields.index(name)
    return Bound(fields.types[place], lambda row: None if (found := part(row)) is None else found[place])


def items_schema(of: Type) -> Schema:
    """Return the columns of the items of a bag or list."""
    item = of.of or NULL
    return Schema(item.fields) if item.kind == "record" else Schema((("item", item),))


def _nested(node: Scalar, schema: Schema) -> Bound:
    part, query = bound(node.this, schema), node.args["query"]
    is_record = part.type.of is not None and part.type.of.kind == "record"
    row_type = record(*query.schema.fields)

    def run(row: Row) -> Any:
        items = part(row)
        rows = items if is_record or items is None else [(one,) for one in items]
        return None if rows is None else Nested.meaning(query, rows)

    return Bound(list_of(row_type) if query.is_ordered else bag(row_type), run)


_BINDERS: dict[type, Callable[[Any, Schema], Bound]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _connective(deciding=False),
    exp.Or: _connective(deciding=True),
    exp.Is: _is,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Struct: _struct,
    exp.Dot: _dot,
    Nested: _nested,
}
