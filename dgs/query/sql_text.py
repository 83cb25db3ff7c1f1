"""The text of a query for DuckDB.

>>> from dgs.query.relation import Source
>>> from dgs.query.types import Schema
>>> text_of(Source("flights", Schema.of(carrier=TEXT)))
'SELECT "carrier" FROM "flights"'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dgs.errors import InternalError
from dgs.query.aggregates import Aggregate, UserAggregation
from dgs.query.dialect import Dialect, Names
from dgs.query.functions import arguments_of, function_of
from dgs.query.relation import Relation, Window
from dgs.query.scalar import ITEMS, Scalar, kind_of, type_of
from dgs.query.types import TEXT, Schema, Type


def text_of(relation: Relation, given: Mapping[str, str] | None = None) -> str:
    """Return the statement of a relation. `given`: texts in place of tables.

    Rows come in any order, but for an `Order`. `Repeat` has no statement: `iterate` runs it.
    """
    return _Duck(given).statement(relation)


def scalar_text(scalar: Scalar, schema: Schema) -> str:
    """Return the text of a scalar over a schema."""
    return _DUCK.scalar(scalar, Names(schema))


def type_text(of: Type) -> str:
    """Return DuckDB's name of a type."""
    return _DUCK.type(of)


def digits_text(texts: list[str]) -> str:
    """Return further arguments as small integers, each after a comma: DuckDB takes no BIGINT as a number of digits."""
    return "".join(f", CAST({text} AS INTEGER)" for text in texts)


class _Duck(Dialect):
    TYPES: ClassVar = {
        "int64": "BIGINT", "float64": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN", "time": "TIMESTAMP", "null": "INTEGER",
        "list": "{}[]", "struct": "STRUCT({})", "field": "{} {}",
    }  # fmt: skip
    JOINS: ClassVar = {"inner": "INNER", "left": "LEFT", "full": "FULL", "semi": "SEMI", "anti": "ANTI"}
    FORMS: ClassVar = {
        "bag": "[{}]",
        "record": "struct_pack({})",
        "values": "(VALUES {})",
        "rows": "unnest({})",
    }

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def named(self, name: str, text: str) -> str:
        return f"{self.quoted(name)} := {text}"

    def group_by(self, keys: Sequence[str]) -> str:
        return ", ".join(str(place + 1) for place in range(len(keys)))

    def lacks(self, node: Relation) -> Exception:
        return InternalError(problem=f"{type(node).__name__} has no statement")

    def column(self, node: Scalar, names: Names) -> str:
        if names.schema.type(node.name).kind == "null":
            return "NULL"  # DuckDB gives a column of nulls a type that might not fit
        return super().column(node, names)

    def call(self, scalar: Scalar, names: Names) -> str:
        function, parts = function_of(scalar), arguments_of(scalar)
        texts = [self.scalar(one, names) for one in parts]
        if function.name in ("floor", "ceil", "trunc") and type_of(parts[0], names.schema).kind == "int64":
            return texts[0]  # DuckDB would make a float of it, with fewer digits
        if "NULL" in texts and not function.sees_nulls:
            # otherwise DuckDB may find the function ambiguous
            return f"CAST(NULL AS {self.type(type_of(scalar, names.schema))})"
        if function.unifies:
            texts = self.unified(texts, [type_of(one, names.schema).kind for one in parts])
        return function.duckdb.format(*texts, all=", ".join(texts), digits=digits_text(texts[1:]))

    def case(self, node: Scalar, names: Names) -> str:
        return "NULL" if type_of(node, names.schema).kind == "null" else super().case(node, names)

    def cast(self, node: Scalar, names: Names) -> str:
        inner, wanted = self.scalar(node.this, names), kind_of(node.args["to"])
        if wanted.kind == "text" and type_of(node.this, names.schema).kind == "float64":
            inner = f"{inner} + 0.0"  # a negative zero has a sign in DuckDB
        return f"CAST({inner} AS {self.type(wanted)})"

    def field(self, node: Scalar, names: Names) -> str:
        return f"struct_extract({self.scalar(node.this, names)}, {self.literal(node.expression.name)})"

    def nested(self, node: Scalar, names: Names) -> str:
        query: Relation = node.args["query"]
        of = type_of(node.this, names.schema).of
        is_record = of is not None and of.kind == "record"
        listed = self.scalar(node.this, names)
        own = Schema(of.fields).names if is_record and of is not None else ("item",)
        columns = [
            f"i.{self.quoted(name)} AS {self.quoted(name)}" if is_record else "i AS item" for name in own
        ]
        given = f"(SELECT {', '.join(columns)} FROM (SELECT unnest({listed}, recursive := false) AS i))"
        row = self.made("record", (self.named(name, self.quoted(name)) for name in query.schema.names))
        order = "" if query.is_ordered else f" ORDER BY {self.everything(query.schema)}"
        made = f"(SELECT coalesce(list({row}{order}), []) FROM ({text_of(query, {ITEMS: given})}))"
        return f"CASE WHEN {listed} IS NOT NULL THEN {made} END"

    def ends(self, node: Window) -> str:
        at, slide, count = self.quoted(node.at), node.slide, -(-node.size // node.slide)
        return f"(CAST(floor({at} / {slide}) AS BIGINT) * {slide} - unnest(range({count})) * {slide}) + {node.size}"

    def aggregate(self, one: Aggregate, schema: Schema) -> str:
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
            text = (
                text.replace(own, f"{own}{condition} AND ")
                if own in text
                else _filtered(text, one, condition)
            )
        zero = one.reduction.zero if one.empty == "zero" else None
        if zero is not None:
            text = f"coalesce({text}, {zero})"
        if one.function == "collect":
            text = f"coalesce({text}, [])"
        return f"CAST({text} AS {self.type(result)})"


_DUCK = _Duck()

_END = ") AS DOUBLE)"
"""The end of a call of a function that returns a float as text: DuckDB would turn a returned NaN into null."""


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


__all__ = ["TEXT", "scalar_text", "text_of", "type_text"]
