"""The text of a query for Spark.

Fields of records may differ only by case, so Spark must distinguish case (`spark.sql.caseSensitive`). Spark has no statement over the items
of a column in each row: a query over a bag becomes array functions. The items of bags come in any order: their reader sorts them.

>>> from dgs.query.scalar import call, column, literal
>>> from dgs.query.types import INT, Schema
>>> spark_text(Where(Source("flights", Schema.of(delay=INT)), call("gt", column("delay"), literal(15))))
'SELECT * FROM (SELECT `delay` FROM `flights`) WHERE (`delay` > CAST(15 AS BIGINT))'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from dgs.query.aggregates import Aggregate
from dgs.query.dialect import Dialect, Names
from dgs.query.errors import QueryError
from dgs.query.functions import arguments_of, function_of
from dgs.query.relation import Group, Map, Order, Relation, Source, Where, Window
from dgs.query.scalar import ITEMS, Scalar, conjuncts, kind_of, type_of
from dgs.query.spark.spark_functions import FUNCTIONS, OF_ITEMS, OF_KIND, ONLY_HERE
from dgs.query.sql_text import digits_text
from dgs.query.types import Schema, Type, bag, record


def spark_text(relation: Relation, views: Mapping[str, str] | None = None) -> str:
    """Return the statement of a relation. `views`: the names of views, in place of the sources' own.

    Rows come in any order, except for an `Order`. Raises QueryError Q501 for anything that Spark lacks; `Repeat` has no statement.
    """
    return _Spark({name: ticked(view) for name, view in (views or {}).items()}).statement(relation)


def scalar_text(scalar: Scalar, schema: Schema) -> str:
    """Return the text of a scalar over a schema. Raises QueryError Q501 if Spark lacks it."""
    return _SPARK.scalar(scalar, Names(schema))


def spark_type(of: Type) -> str:
    """Return Spark's name of a type."""
    return _SPARK.type(of)


def ticked(name: str) -> str:
    """Return a name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


class _Spark(Dialect):
    TYPES: ClassVar = {
        "int64": "BIGINT", "float64": "DOUBLE", "text": "STRING", "bool": "BOOLEAN", "time": "TIMESTAMP_NTZ", "null": "INT",
        "list": "ARRAY<{}>", "struct": "STRUCT<{}>", "field": "{}: {}",
    }  # fmt: skip
    JOINS: ClassVar = {
        "inner": "INNER",
        "left": "LEFT",
        "full": "FULL",
        "semi": "LEFT SEMI",
        "anti": "LEFT ANTI",
    }
    FORMS: ClassVar = {
        "bag": "array({})",
        "record": "named_struct({})",
        "values": "VALUES {}",
        "rows": "explode({})",
    }

    def quoted(self, name: str) -> str:
        return ticked(name)

    def literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def named(self, name: str, text: str) -> str:
        return f"{self.literal(name)}, {text}"

    def group_by(self, keys: Sequence[str]) -> str:
        return ", ".join(keys)

    def lacks(self, node: Relation) -> Exception:
        return _lacking(f"{type(node).__name__} in one statement", node)

    def call(self, scalar: Scalar, names: Names) -> str:
        function, parts = function_of(scalar), arguments_of(scalar)
        texts = [self.scalar(one, names) for one in parts]
        kinds = [type_of(one, names.schema).kind for one in parts]
        if function.unifies:
            texts = self.unified(texts, kinds)
        zero = f"CAST(0 AS {self.type(type_of(scalar, names.schema))})"
        kind = next((one for one in ("float64", "text") if one in kinds), "")
        own = OF_KIND.get((function.name, kind)) or OF_KIND.get((function.name, kind, len(parts)))
        template = own or ONLY_HERE.get(function.name, function.spark)
        return template.format(*texts, all=", ".join(texts), digits=digits_text(texts[1:]), zero=zero)

    def cast(self, node: Scalar, names: Names) -> str:
        inner, wanted = self.scalar(node.this, names), kind_of(node.args["to"])
        if wanted.kind == "int64" and type_of(node.this, names.schema).kind == "float64":
            inner = f"bround(CAST({inner} AS DOUBLE))"
        return f"CAST({inner} AS {self.type(wanted)})"

    def field(self, node: Scalar, names: Names) -> str:
        return f"{self.scalar(node.this, names)}.{ticked(node.expression.name)}"

    def nested(self, node: Scalar, names: Names) -> str:
        return _Items(self.scalar(node.this, names), type_of(node.this, names.schema)).of(node.args["query"])

    def ends(self, node: Window) -> str:
        at, slide, count = ticked(node.at), node.slide, -(-node.size // node.slide)
        ends = f"transform(sequence(0, {count - 1}), n -> {at} - pmod({at}, {slide}) - n * {slide} + {node.size})"
        return f"explode({ends})"

    def aggregate(self, one: Aggregate, schema: Schema) -> str:
        """Return the text of an aggregate. Raises QueryError Q501 for one of a script's own."""
        if one.user is not None:
            problem = f"Spark does not know the aggregation {one.user.name!r}"
            raise QueryError.of("Q501", problem, "Ask it on local or on dgs.", one.span)
        texts = [scalar_text(each, schema) for each in one.arguments]
        result = one.type(schema)
        where = None if one.where is None else scalar_text(one.where, schema)
        if where is not None and one.function in ("arg_min", "arg_max"):
            texts[1] = f"CASE WHEN {where} THEN {texts[1]} END"  # a FILTER would not follow the aggregate
            where = None
        text = one.reduction.spark.format(*(texts or ["*"]))
        distinct = "DISTINCT " if one.distinct else ""
        if one.function == "collect":
            row = texts[0] if len(texts) == 1 else f"struct({', '.join(texts)})"
            # of records, because collect_list drops nulls
            text = f"collect_list({distinct}struct({row} AS v))"
        elif one.distinct:
            text = text.replace("(", "(DISTINCT ", 1)
        text += "" if where is None else f" FILTER (WHERE {where})"
        if one.function == "collect":
            return in_order(f"transform({text}, r -> r.v)", result)
        zero = one.reduction.zero if one.empty == "zero" else None
        text = text if zero is None else f"coalesce({text}, {str(zero).lower()})"
        return f"CAST({text} AS {self.type(result)})"


_SPARK = _Spark()


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


class _Items:
    """A query over the items of an array, as array functions. Its result is the array of its rows, which are records."""

    def __init__(self, array: str, of: Type) -> None:
        self._array, self._item = array, of.of

    def of(self, query: Relation) -> str:
        """Return the text of a query. Raises QueryError Q501 for a query that Spark's functions cannot express."""
        match query:
            case Source(name=name) if name == ITEMS:
                said = self._items(query)
            case Where():
                names = _of_item(query.input)
                said = f"filter({self.of(query.input)}, i -> coalesce({_SPARK.scalar(query.predicate, names)}, FALSE))"
            case Map():
                said = self._rows(query.fields, query)
            case Group(aggregates=()) if query.keys:
                said = f"array_distinct({self._rows(query.keys, query)})"
            case Group(keys=()):
                said = self._aggregated(query)
            case Order(by=(), limit=None, offset=0):
                said = in_order(self.of(query.input), bag(record(*query.schema.fields)))
            case _:
                raise _lacking(f"a {type(query).__name__} over the items of a bag", query)
        return said

    def _items(self, source: Source) -> str:
        """Return the items as records with the columns of the source."""
        is_record = self._item is not None and self._item.kind == "record"
        own = self._item.fields if self._item is not None else ()
        if is_record and source.schema.names == Schema(own).names:
            return self._array
        texts = [f"i.{ticked(name)}" for name, _ in own] if is_record else ["i"]
        parts = [
            f"{_SPARK.literal(name)}, {text}" for name, text in zip(source.schema.names, texts, strict=True)
        ]
        return f"transform({self._array}, i -> named_struct({', '.join(parts)}))"

    def _rows(self, fields: Any, query: Map | Group) -> str:
        names = _of_item(query.input)
        typed = (
            f"{_SPARK.literal(name)}, CAST({_SPARK.scalar(one, names)} AS {_SPARK.type(query.schema.type(name))})"
            for name, one in fields
        )
        return f"transform({self.of(query.input)}, i -> named_struct({', '.join(typed)}))"

    def _aggregated(self, query: Group) -> str:
        items, parts = self.of(query.input), []
        names = _of_item(query.input)
        for name, one in query.aggregates:
            kept = items
            for condition in conjuncts(one.where):
                kept = f"filter({kept}, i -> coalesce({_SPARK.scalar(condition, names)}, FALSE))"
            parts.append(f"{_SPARK.literal(name)}, {self._aggregate(one, kept, query, names)}")
        return f"array(named_struct({', '.join(parts)}))"

    def _aggregate(self, one: Aggregate, kept: str, query: Group, names: Names) -> str:
        if one.function == "count" and not one.arguments:
            return f"CAST(size({kept}) AS BIGINT)"
        if one.function not in (*OF_ITEMS, "collect") or len(one.arguments) != 1:
            raise _lacking(f"{one.function} over the items of a bag", query)
        values = f"transform({kept}, i -> {_SPARK.scalar(one.arguments[0], names)})"
        values = f"array_distinct({values})" if one.distinct else values
        if one.function == "collect":
            return in_order(values, one.type(query.input.schema))
        function, result = OF_ITEMS[one.function], one.type(query.input.schema)
        zero = f"CAST(0 AS {_SPARK.type(result)})"
        text = (ONLY_HERE.get(function) or FUNCTIONS[function]).format(values, zero=zero)
        empty = one.reduction.zero if one.empty == "zero" else None
        text = text if empty is None else f"coalesce({text}, {str(empty).lower()})"
        return f"CAST({text} AS {_SPARK.type(result)})"


def _of_item(node: Relation) -> Names:
    return Names(node.schema, {one: f"i.{ticked(one)}" for one in node.schema.names})


def _lacking(what: str, node: Relation) -> QueryError:
    """Return the error of a query that Spark cannot express."""
    remedy = "Ask it on local or on dgs, or write it as a group of rows."
    return QueryError.of("Q501", f"Spark cannot say {what}", remedy, node.span)
