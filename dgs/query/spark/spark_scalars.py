"""The text of scalars and aggregates for Spark. A query over a bag becomes functions of arrays.

>>> from dgs.query.scalar import call, column, literal
>>> from dgs.query.types import INT, Schema
>>> scalar_text(call("gt", column("delay"), literal(15)), Names(Schema.of(delay=INT)))
'(`delay` > CAST(15 AS BIGINT))'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.errors import QueryError
from dgs.query.functions import arguments_of, function_of
from dgs.query.relation import Group, Map, Order, Relation, Source, Where
from dgs.query.scalar import ITEMS, Nested, Scalar, conjuncts, kind_of, operands, spelled_out, type_of
from dgs.query.sql_text import digits_text
from dgs.query.types import Schema, Type, bag, record

TYPES = {
    "int64": "BIGINT", "float64": "DOUBLE", "text": "STRING", "bool": "BOOLEAN", "time": "TIMESTAMP_NTZ", "null": "INT",
}  # fmt: skip

ONLY_HERE = {
    "div": "(CASE WHEN {1} <> 0 THEN CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE) WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN {0} > 0 AND NOT isnan({0}) THEN CAST('inf' AS DOUBLE) WHEN {0} < 0 THEN CAST('-inf' AS DOUBLE) ELSE CAST('nan' AS DOUBLE) END)",
    "list_sum": "(CASE WHEN size(filter({0}, x -> x IS NOT NULL)) > 0 THEN aggregate(filter({0}, x -> x IS NOT NULL), {zero}, (a, x) -> a + x) END)",
    "list_avg": "(CASE WHEN size(filter({0}, x -> x IS NOT NULL)) > 0 THEN aggregate(filter({0}, x -> x IS NOT NULL), CAST(0 AS DOUBLE), (a, x) -> a + x)"
    " / size(filter({0}, x -> x IS NOT NULL)) END)",
}
"""Functions whose text needs more than that of the table: division by 0 is an error in Spark, and it has no sums of arrays."""

_FIRST = "(CASE WHEN {1} < 0 THEN length({0}) + {1} ELSE {1} - 1 END)"
_BEFORE, _TO = (
    f"least(greatest({chosen}({_FIRST}, {_FIRST} + {{2}}), 0), length({{0}}))"
    for chosen in ("least", "greatest")
)
_NEAREST = (  # the rounding error of t = a * m decides where t is just between two integers
    "aggregate(array(struct(abs({0}) AS a, power(10.0D, abs({1})) AS m)), CAST(NULL AS DOUBLE), (_, v) -> aggregate(array(struct("
    "if({1} < 0, v.a / v.m, v.a * v.m) AS t, v.a * 134217729 - (v.a * 134217729 - v.a) AS a, v.m * 134217729 - (v.m * 134217729 - v.m) AS m)),"
    " CAST(NULL AS DOUBLE), (_, h) -> (CASE WHEN h.t >= 4503599627370496D THEN v.a WHEN {1} < 0 THEN"
    " (floor(h.t) + if(v.a >= (floor(h.t) + 0.5D) * v.m, 1, 0)) * v.m ELSE (floor(h.t) + if(h.t - floor(h.t) > 0.5D OR h.t - floor(h.t) = 0.5D"
    " AND h.a * h.m - h.t + h.a * (v.m - h.m) + (v.a - h.a) * h.m + (v.a - h.a) * (v.m - h.m) >= 0, 1, 0)) / v.m END)))"
)

_WHOLE = (
    "(CASE WHEN {1} >= 0 OR {0} IS NULL THEN {0} WHEN {1} < -18 THEN 0 WHEN {1} < 0 THEN ({0} DIV CAST(power(10, -{1}) AS BIGINT)"
    " + if(abs({0} % CAST(power(10, -{1}) AS BIGINT)) >= 5 * CAST(power(10, -1 - {1}) AS BIGINT), CAST(sign({0}) AS INT), 0))"
    " * CAST(power(10, -{1}) AS BIGINT) END)"
)

OF_KIND = {
    ("array_size", "text"): "length({0})",
    ("length", "text"): "length({0})",
    ("mod", "float64"): "(CASE WHEN {1} = 0 AND {0} IS NOT NULL THEN double('nan') ELSE {0} % {1} END)",
    ("round", "float64", 2): "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN {1} < -300 THEN if(abs({0}) < double('inf'), 0.0D, {0}) WHEN {1} > 300 OR {0} = 0 THEN {0}"
    f" WHEN {{0}} < 0 THEN -{_NEAREST} ELSE {_NEAREST} END)",
    ("round", "", 2): _WHOLE,
    ("substring", "text", 3): "(CASE WHEN {1} IS NOT NULL AND {2} IS NOT NULL"
    f" THEN substring({{0}}, {_BEFORE} + 1, {_TO} - {_BEFORE}) END)",
}
"""Functions whose text is another one where an argument is of this kind, or if they have so many."""

OF_ITEMS = {"count": "list_count", "sum": "list_sum", "avg": "list_avg", "min": "list_min", "max": "list_max"}
"""Aggregates of a bag's items, with the functions of arrays that they are."""


def spark_type(of: Type) -> str:
    """Return Spark's name of a type."""
    if of.of is not None:
        return f"ARRAY<{spark_type(of.of)}>"
    if of.kind == "record":
        return f"STRUCT<{', '.join(f'{ticked(name)}: {spark_type(one)}' for name, one in of.fields)}>"
    return TYPES[of.kind]


def ticked(name: str) -> str:
    """Return a name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def in_order(array: str, of: Type) -> str:
    """Return the text of an array in the order of its items, with nulls last, also those in records."""
    if of.of is None or of.of.kind != "record":
        return f"array_sort({array})"
    return f"array_sort({array}, (a, b) -> CASE {' '.join(_orders('a', 'b', of.of))} ELSE 0 END)"


def _orders(one: str, other: str, of: Type) -> Iterator[str]:
    """Yield the branches that compare two values."""
    if of.kind == "record":
        for name, part in of.fields:
            yield from _orders(f"{one}.{ticked(name)}", f"{other}.{ticked(name)}", part)
        return
    for a, b, found in ((one, other, -1), (other, one, 1)):
        yield f"WHEN {a} < {b} OR ({a} IS NOT NULL AND {b} IS NULL) THEN {found}"


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of a row: their types, and the text of each where it is not the column's name."""

    schema: Schema
    texts: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.texts.get(name) or ticked(name)


def scalar_text(scalar: Scalar, names: Names) -> str:
    """Return the text of a scalar. Raises QueryError Q501 if Spark lacks it."""
    scalar = spelled_out(scalar)
    writer = _WRITERS.get(type(scalar))
    if writer is not None:
        return writer(scalar, names)
    function, parts = function_of(scalar), arguments_of(scalar)
    texts = [scalar_text(one, names) for one in parts]
    kinds = [type_of(one, names.schema).kind for one in parts]
    if function.unifies and {"int64", "float64"} <= set(kinds):
        texts = [
            f"CAST({text} AS DOUBLE)" if kind == "int64" else text
            for text, kind in zip(texts, kinds, strict=True)
        ]
    zero = f"CAST(0 AS {spark_type(type_of(scalar, names.schema))})"
    kind = next((one for one in ("float64", "text") if one in kinds), "")
    own = OF_KIND.get((function.name, kind)) or OF_KIND.get((function.name, kind, len(parts)))
    template = own or ONLY_HERE.get(function.name, function.spark)
    return template.format(*texts, all=", ".join(texts), digits=digits_text(texts[1:]), zero=zero)


def _literal(node: Scalar, names: Names) -> str:
    if node.is_string:
        return text_literal(node.this)
    special = f"'{node.this}'" if node.this in ("inf", "nan") else node.this
    return f"CAST({special} AS {spark_type(type_of(node, names.schema))})"


def _connected(word: str) -> Callable[[Any, Names], str]:
    return lambda node, names: f"({f' {word} '.join(scalar_text(one, names) for one in operands(node))})"


def _is(node: Scalar, names: Names) -> str:
    return f"({scalar_text(node.this, names)} IS {scalar_text(node.expression, names)})"


def _case(node: Scalar, names: Names) -> str:
    result = spark_type(type_of(node, names.schema))
    texts = [
        f"WHEN {scalar_text(one.this, names)} THEN CAST({scalar_text(one.args['true'], names)} AS {result})"
        for one in node.args["ifs"]
    ]
    return f"CASE {' '.join(texts)} ELSE {scalar_text(node.args.get('default') or exp.Null(), names)} END"


def _cast(node: Scalar, names: Names) -> str:
    inner, wanted = scalar_text(node.this, names), kind_of(node.args["to"])
    if wanted.kind == "int64" and type_of(node.this, names.schema).kind != "int64":
        inner = (
            f"bround(CAST({inner} AS DOUBLE))"
            if type_of(node.this, names.schema).kind == "float64"
            else inner
        )
    return f"CAST({inner} AS {spark_type(wanted)})"


def _struct(node: Scalar, names: Names) -> str:
    parts = [
        f"{text_literal(one.this.name)}, {scalar_text(one.expression, names)}" for one in node.expressions
    ]
    return f"named_struct({', '.join(parts)})"


def _nested(node: Scalar, names: Names) -> str:
    of = type_of(node.this, names.schema)
    return _Items(scalar_text(node.this, names), of).of(node.args["query"])


class _Items:
    """A query over the items of an array, as functions of arrays. It gives the array of its rows, which are records."""

    def __init__(self, array: str, of: Type) -> None:
        self._array, self._item = array, of.of

    def of(self, query: Relation) -> str:
        """Return the text of a query. Raises QueryError Q501 for a query that Spark's functions do not say."""
        match query:
            case Source(name=name) if name == ITEMS:
                said = self._items(query)
            case Where():
                names = _of_item(query.input, "i")
                said = f"filter({self.of(query.input)}, i -> coalesce({scalar_text(query.predicate, names)}, FALSE))"
            case Map():
                said = self._rows(query.fields, query)
            case Group(aggregates=()) if query.keys:
                said = f"array_distinct({self._rows(query.keys, query)})"
            case Group(keys=()):
                said = self._aggregated(query)
            case Order(by=(), limit=None, offset=0):
                said = in_order(self.of(query.input), bag(record(*query.schema.fields)))
            case _:
                raise lacking(f"a {type(query).__name__} over the items of a bag", query)
        return said

    def _items(self, source: Source) -> str:
        """Return the items as records with the columns of the source."""
        is_record = self._item is not None and self._item.kind == "record"
        own = self._item.fields if self._item is not None else ()
        if is_record and source.schema.names == Schema(own).names:
            return self._array
        texts = [f"i.{ticked(name)}" for name, _ in own] if is_record else ["i"]
        parts = [
            f"{text_literal(name)}, {text}" for name, text in zip(source.schema.names, texts, strict=True)
        ]
        return f"transform({self._array}, i -> named_struct({', '.join(parts)}))"

    def _rows(self, fields: Any, query: Map | Group) -> str:
        names = _of_item(query.input, "i")
        typed = (
            f"{text_literal(name)}, CAST({scalar_text(one, names)} AS {spark_type(query.schema.type(name))})"
            for name, one in fields
        )
        return f"transform({self.of(query.input)}, i -> named_struct({', '.join(typed)}))"

    def _aggregated(self, query: Group) -> str:
        items, parts = self.of(query.input), []
        names = _of_item(query.input, "i")
        for name, one in query.aggregates:
            kept = items
            for condition in conjuncts(one.where):
                kept = f"filter({kept}, i -> coalesce({scalar_text(condition, names)}, FALSE))"
            parts.append(f"{text_literal(name)}, {self._aggregate(one, kept, query, names)}")
        return f"array(named_struct({', '.join(parts)}))"

    def _aggregate(self, one: Aggregate, kept: str, query: Group, names: Names) -> str:
        if one.function == "count" and not one.arguments:
            return f"CAST(size({kept}) AS BIGINT)"
        if one.function not in (*OF_ITEMS, "collect") or len(one.arguments) != 1:
            raise lacking(f"{one.function} over the items of a bag", query)
        values = f"transform({kept}, i -> {scalar_text(one.arguments[0], names)})"
        values = f"array_distinct({values})" if one.distinct else values
        if one.function == "collect":
            return in_order(values, one.type(query.input.schema))
        function, result = OF_ITEMS[one.function], one.type(query.input.schema)
        zero = f"CAST(0 AS {spark_type(result)})"
        text = (ONLY_HERE.get(function) or _FUNCTIONS[function]).format(values, zero=zero)
        empty = one.reduction.zero if one.empty == "zero" else None
        text = text if empty is None else f"coalesce({text}, {str(empty).lower()})"
        return f"CAST({text} AS {spark_type(result)})"


_FUNCTIONS = {
    "list_count": "size(filter({0}, x -> x IS NOT NULL))",
    "list_min": "array_min({0})",
    "list_max": "array_max({0})",
}


def _of_item(node: Relation, name: str) -> Names:
    return Names(node.schema, {one: f"{name}.{ticked(one)}" for one in node.schema.names})


def lacking(what: str, node: Relation) -> QueryError:
    """Return the error of a query that Spark cannot say."""
    remedy = "Ask it on local or on dgs, or write it as a group of rows."
    return QueryError.of("Q501", f"Spark cannot say {what}", remedy, node.span)


_WRITERS: dict[type, Callable[[Any, Names], str]] = {
    exp.Column: lambda node, names: names[node.name],
    exp.Literal: _literal,
    exp.Null: lambda _node, _names: "NULL",
    exp.Boolean: lambda node, _names: "TRUE" if node.this else "FALSE",
    exp.And: _connected("AND"),
    exp.Or: _connected("OR"),
    exp.Is: _is,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Struct: _struct,
    exp.Dot: lambda node, names: f"{scalar_text(node.this, names)}.{ticked(node.expression.name)}",
    Nested: _nested,
}


def aggregate_text(one: Aggregate, schema: Schema) -> str:
    """Return the text of an aggregate, with the type that the algebra gives it. Raises QueryError Q501 for one of a script's own."""
    if one.user is not None:
        problem = f"Spark does not know the aggregation {one.user.name!r}"
        raise QueryError.of("Q501", problem, "Ask it on local or on dgs.", one.span)
    names = Names(schema)
    texts = [scalar_text(each, names) for each in one.arguments]
    result = one.type(schema)
    where = None if one.where is None else scalar_text(one.where, names)
    if where is not None and one.function in ("arg_min", "arg_max"):
        texts[1], where = (
            f"CASE WHEN {where} THEN {texts[1]} END",
            None,
        )  # a FILTER would not follow the aggregate
    text = one.reduction.spark.format(*(texts or ["*"]))
    distinct = "DISTINCT " if one.distinct else ""
    if one.function == "collect":
        row = texts[0] if len(texts) == 1 else f"struct({', '.join(texts)})"
        text = f"collect_list({distinct}struct({row} AS v))"  # of records, because it leaves out nulls
    elif one.distinct:
        text = text.replace("(", "(DISTINCT ", 1)
    text += "" if where is None else f" FILTER (WHERE {where})"
    if one.function == "collect":
        return in_order(f"transform({text}, r -> r.v)", result)
    zero = one.reduction.zero if one.empty == "zero" else None
    text = text if zero is None else f"coalesce({text}, {str(zero).lower()})"
    return f"CAST({text} AS {spark_type(result)})"
