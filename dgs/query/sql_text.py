"""The text of a query for DuckDB: every node of the algebra as one statement over its inputs.

Names are quoted and values written in full, so nothing of a script's text comes here unread. Weights do not appear: tables have one row
for each row. `scalar_text` is one function of the table of functions with its texts filled in; `Dialect` says which.

>>> from dgs.query.relation import Source
>>> from dgs.query.types import Schema
>>> text_of(Source("flights", Schema.of(carrier=TEXT)))
'SELECT "carrier" FROM "flights"'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dgs.errors import InternalError
from dgs.query.aggregates import Aggregate, UserAggregation
from dgs.query.functions import arguments_of, function_of
from dgs.query.relation import Expand, Group, Join, Key, Map, Order, Relation, Source, Union, Where, Window
from dgs.query.scalar import ITEMS, Nested, Scalar, call, column, kind_of, operands, spelled_out, type_of
from dgs.query.types import TEXT, Schema, Type

TYPES = {
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "text": "VARCHAR",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
    "null": "INTEGER",
}


def type_text(of: Type) -> str:
    """Return DuckDB's name of a type."""
    if of.of is not None:
        return f"{type_text(of.of)}[]"
    if of.kind == "record":
        return f"STRUCT({', '.join(f'{quoted(name)} {type_text(one)}' for name, one in of.fields)})"
    return TYPES[of.kind]


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def scalar_text(scalar: Scalar, schema: Schema) -> str:
    """Return the text of a scalar over a schema."""
    scalar = spelled_out(scalar)
    if isinstance(scalar, exp.Column) and schema.type(scalar.name).kind == "null":
        return "NULL"  # a column of nulls has a type of DuckDB's, which might not fit
    writer = _WRITERS.get(type(scalar))
    if writer is not None:
        return writer(scalar, schema)
    function, parts = function_of(scalar), arguments_of(scalar)
    texts = [scalar_text(one, schema) for one in parts]
    if function.name in ("floor", "ceil", "trunc") and type_of(parts[0], schema).kind == "int64":
        return texts[0]  # DuckDB makes a float of it, which has fewer digits
    if "NULL" in texts and not function.sees_nulls:
        return f"CAST(NULL AS {type_text(type_of(scalar, schema))})"  # DuckDB may not know which function is meant
    if function.unifies:
        types = [type_of(one, schema).kind for one in parts]
        if {"int64", "float64"} <= set(types):
            texts = [
                f"CAST({text} AS DOUBLE)" if kind == "int64" else text
                for text, kind in zip(texts, types, strict=True)
            ]
    return function.duckdb.format(*texts, all=", ".join(texts), digits=digits_text(texts[1:]))


def digits_text(texts: list[str]) -> str:
    """Return further arguments as small integers, each after a comma: a number of digits is no BIGINT."""
    return "".join(f", CAST({text} AS INTEGER)" for text in texts)


def _literal(node: Scalar, schema: Schema) -> str:
    if node.is_string:
        return text_literal(node.this)
    kind = type_of(node, schema)
    special = f"'{node.this}'" if node.this in ("inf", "nan") else node.this
    return f"CAST({special} AS {type_text(kind)})"


def _connected(word: str) -> Callable[[Any, Schema], str]:
    return lambda node, schema: f"({f' {word} '.join(scalar_text(one, schema) for one in operands(node))})"


def _is(node: Scalar, schema: Schema) -> str:
    return f"({scalar_text(node.this, schema)} IS {scalar_text(node.expression, schema)})"


def _case(node: Scalar, schema: Schema) -> str:
    of = type_of(node, schema)
    if of.kind == "null":
        return "NULL"
    result = type_text(of)
    texts = [
        f"WHEN {scalar_text(one.this, schema)} THEN CAST({scalar_text(one.args['true'], schema)} AS {result})"
        for one in node.args["ifs"]
    ]
    return f"CASE {' '.join(texts)} ELSE {scalar_text(node.args.get('default') or exp.Null(), schema)} END"


def _cast(node: Scalar, schema: Schema) -> str:
    inner, wanted = scalar_text(node.this, schema), kind_of(node.args["to"])
    if wanted.kind == "text" and type_of(node.this, schema).kind == "float64":
        inner = f"{inner} + 0.0"  # a negative zero has a sign in DuckDB
    return f"CAST({inner} AS {type_text(wanted)})"


def _struct(node: Scalar, schema: Schema) -> str:
    parts = [f"{quoted(one.this.name)} := {scalar_text(one.expression, schema)}" for one in node.expressions]
    return f"struct_pack({', '.join(parts)})"


def _dot(node: Scalar, schema: Schema) -> str:
    return f"struct_extract({scalar_text(node.this, schema)}, {text_literal(node.expression.name)})"


def _nested(node: Scalar, schema: Schema) -> str:
    query: Relation = node.args["query"]
    of = type_of(node.this, schema).of
    is_record = of is not None and of.kind == "record"
    item = "unnest({}, recursive := false)"
    listed = scalar_text(node.this, schema)
    items = f"(SELECT {item.format(listed)} AS i)"
    names = Schema(of.fields).names if is_record and of is not None else ("item",)
    columns = [f"i.{quoted(name)} AS {quoted(name)}" if is_record else "i AS item" for name in names]
    given = f"(SELECT {', '.join(columns)} FROM {items})"
    row = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in query.schema.names)
    order = "" if query.is_ordered else f" ORDER BY {_everything(query.schema)}"
    text = text_of(query, {ITEMS: given})
    made = f"(SELECT coalesce(list(struct_pack({row}){order}), []) FROM ({text}))"
    return f"CASE WHEN {listed} IS NOT NULL THEN {made} END"


_WRITERS: dict[type, Callable[[Any, Schema], str]] = {
    exp.Column: lambda node, _schema: quoted(node.name),
    exp.Literal: _literal,
    exp.Null: lambda _node, _schema: "NULL",
    exp.Boolean: lambda node, _schema: "TRUE" if node.this else "FALSE",
    exp.And: _connected("AND"),
    exp.Or: _connected("OR"),
    exp.Is: _is,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Struct: _struct,
    exp.Dot: _dot,
    Nested: _nested,
}


def aggregate_text(one: Aggregate, schema: Schema) -> str:
    """Return the text of an aggregate, with the type that the algebra gives it."""
    result = one.type(schema)
    texts = [scalar_text(each, schema) for each in one.arguments]
    if one.user is not None:
        return _by_user(one, one.user, texts[0], schema)
    text = _exact(one, texts[0]) if one.is_exact else one.reduction.duckdb.format(*(texts or ["*"]))
    if one.distinct:
        start = "list(" if one.is_exact or one.function == "collect" else "("
        text = text.replace(start, f"{start}DISTINCT ", 1)
    if one.where is not None:
        condition = scalar_text(one.where, schema)
        own = " FILTER (WHERE "
        text = text.replace(own, f"{own}{condition} AND ") if own in text else _filtered(text, one, condition)
    zero = one.reduction.zero if one.empty == "zero" else None
    if zero is not None:
        text = f"coalesce({text}, {zero})"
    if one.function == "collect":
        text = f"coalesce({text}, [])"
    return f"CAST({text} AS {type_text(result)})"


_END = ") AS DOUBLE)"
"""How a call of a function ends whose text is a float: DuckDB would make null of a NaN that it is given back."""


def _exact(one: Aggregate, argument: str) -> str:
    return f"CAST(exact_{one.function}(list(CAST({argument} AS DOUBLE)){_END}"


def _by_user(one: Aggregate, user: UserAggregation, argument: str, schema: Schema) -> str:
    """Return the text of a user's aggregation: its sorted values, folded in that order."""
    of = one.type(schema)
    kept = "" if one.where is None else f" FILTER (WHERE {scalar_text(one.where, schema)})"
    values = f"list_sort(list({'DISTINCT ' if one.distinct else ''}{argument}){kept}, 'ASC', 'NULLS LAST')"
    plus = scalar_text(user.plus, Schema.of(left=of, right=of))
    zero = f"CAST({scalar_text(user.zero, Schema(()))} AS {type_text(of)})"
    return f'list_reduce(coalesce({values}, []), lambda "left", "right": CAST({plus} AS {type_text(of)}), {zero})'


def _filtered(text: str, one: Aggregate, condition: str) -> str:
    filtered = f" FILTER (WHERE {condition})"
    if one.is_exact:
        return f"{text.removesuffix(_END)}{filtered}{_END}"
    return text.replace("), 'ASC'", f"){filtered}, 'ASC'") if one.function == "collect" else text + filtered


def text_of(relation: Relation, given: dict[str, str] | None = None) -> str:
    """Return the statement of a relation. `given`: texts in place of tables.

    Rows come in any order, but for an `Order`. `Repeat` has no statement: `iterate` runs it.
    """
    return _Texts(given or {}).of(relation)


class _Texts:
    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def of(self, relation: Relation) -> str:
        writer: Callable[[Any], str] | None = getattr(self, f"_{type(relation).__name__.lower()}", None)
        if writer is None:
            raise InternalError(problem=f"{type(relation).__name__} has no statement")
        return writer(relation)

    def below(self, relation: Relation) -> str:
        return f"({self.of(relation)})"

    def _source(self, node: Source) -> str:
        names = ", ".join(map(quoted, node.columns.names))
        if node.rows is not None:
            return _constant(node)
        return f"SELECT {names} FROM {self._given.get(node.name) or quoted(node.name)}"

    def _map(self, node: Map) -> str:
        schema, wanted = node.input.schema, node.schema
        fields = [f"{_typed(one, schema, wanted.type(name))} AS {quoted(name)}" for name, one in node.fields]
        return f"SELECT {', '.join(fields) or 'NULL'} FROM {self.below(node.input)}"

    def _where(self, node: Where) -> str:
        return (
            f"SELECT * FROM {self.below(node.input)} WHERE {scalar_text(node.predicate, node.input.schema)}"
        )

    def _expand(self, node: Expand) -> str:
        items = scalar_text(node.items, node.input.schema)
        return f"SELECT *, unnest({items}) AS {quoted(node.as_)} FROM {self.below(node.input)}"

    def _union(self, node: Union) -> str:
        parts = []
        for part in node.parts:
            columns = [
                f"CAST({scalar_text(column(own), part.schema)} AS {type_text(of)}) AS {quoted(name)}"
                for own, (name, of) in zip(part.schema.names, node.schema.fields, strict=True)
            ]
            parts.append(f"SELECT {', '.join(columns)} FROM {self.below(part)}")
        return " UNION ALL ".join(parts)

    def _join(self, node: Join) -> str:
        tests = [scalar_text(call("eq", one, other), node.both) for one, other in node.pairs]
        if node.residual is not None:
            tests.append(scalar_text(node.residual, node.both))
        left, right = self.below(node.left), self.below(node.right)
        words = {"inner": "INNER", "left": "LEFT", "full": "FULL", "semi": "SEMI", "anti": "ANTI"}
        condition = " AND ".join(tests) or "TRUE"
        return f"SELECT * FROM {left} {words[node.how]} JOIN {right} ON {condition}"

    def _group(self, node: Group) -> str:
        schema = node.input.schema
        keys = [_typed(one, schema, node.schema.type(name)) for name, one in node.keys]
        fields = [f"{text} AS {quoted(name)}" for (name, _), text in zip(node.keys, keys, strict=True)]
        fields += [f"{aggregate_text(one, schema)} AS {quoted(name)}" for name, one in node.aggregates]
        by = f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
        return f"SELECT {', '.join(fields) or 'count(*)'} FROM {self.below(node.input)}{by}"

    def _order(self, node: Order) -> str:
        schema = node.input.schema
        by = ", ".join([*(_key(one, schema) for one in node.by), _everything(schema)])
        limit = "" if node.limit is None else f" LIMIT {node.limit}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        return f"SELECT * FROM {self.below(node.input)} ORDER BY {by}{limit}{offset}"

    def _window(self, node: Window) -> str:
        at, count = quoted(node.at), -(-node.size // node.slide)
        start = f"(CAST(floor({at} / {node.slide}) AS BIGINT) * {node.slide} - unnest(range({count})) * {node.slide})"
        end = quoted(node.as_)
        inner = (
            f"SELECT *, {start} + {node.size} AS {end} FROM {self.below(node.input)} WHERE {at} IS NOT NULL"
        )
        return f"SELECT * FROM ({inner}) WHERE {end} > {at}"


def _constant(node: Source) -> str:
    names = node.columns.names
    rows = node.rows or ()
    cells = [
        ", ".join(
            f"CAST({value_text(value, of)} AS {type_text(of)})"
            for value, of in zip(row, node.columns.types, strict=True)
        )
        for row in rows
    ]
    if not cells:
        nulls = ", ".join(
            f"CAST(NULL AS {type_text(of)}) AS {quoted(name)}" for name, of in node.columns.fields
        )
        return f"SELECT {nulls} WHERE FALSE"
    values = ", ".join(f"({cell})" for cell in cells)
    return f"SELECT * FROM (VALUES {values}) AS v({', '.join(map(quoted, names))})"


def value_text(value: Any, of: Type) -> str:
    """Return a value of a table that is written in the text."""
    if value is None:
        return "NULL"
    if of.of is not None:
        return f"[{', '.join(value_text(one, of.of) for one in value)}]"
    if of.kind == "record":
        parts = zip(of.fields, value, strict=True)
        return f"struct_pack({', '.join(f'{quoted(name)} := {value_text(one, kind)}' for (name, kind), one in parts)})"
    return text_literal(str(value)) if of.kind in ("text", "time", "float64") else str(value)


def _typed(scalar: Scalar, schema: Schema, wanted: Type) -> str:
    """Return the text of a scalar that DuckDB gives the type of the algebra. A float has no negative zero, as in the interpreter."""
    text = scalar_text(scalar, schema)
    if isinstance(scalar, exp.Column):
        return text
    return f"CAST({text} AS {type_text(wanted)})"


def _key(key: Key, schema: Schema) -> str:
    nulls = "FIRST" if key.nulls_first else "LAST"
    is_column = isinstance(key.scalar, exp.Column)
    by = quoted(key.scalar.name) if is_column else scalar_text(key.scalar, schema)
    return f"{by} {'DESC' if key.descending else 'ASC'} NULLS {nulls}"


def _everything(schema: Schema) -> str:
    return ", ".join(f"{quoted(name)} ASC NULLS LAST" for name in schema.names)


__all__ = ["TEXT", "aggregate_text", "quoted", "scalar_text", "text_of", "type_text"]
