"""The text of a query in a dialect of SQL: every node of the algebra as one statement over its inputs, every scalar as an expression.

Names are quoted and values are written as literals, so no part of a script's text gets here unparsed. Weights do not appear: tables have
each row as often as its weight says. Dialects differ in the class variables and the abstract methods of `Dialect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.relation import Expand, Group, Join, Key, Map, Order, Relation, Source, Union, Where, Window
from dgs.query.scalar import Nested, Scalar, call, column, operands, spelled_out, type_of
from dgs.query.types import Schema, Type


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of a row: their types, and the text of each if it is not the column's name."""

    schema: Schema
    texts: Mapping[str, str] = field(default_factory=dict)


class Dialect(ABC):
    """Writes queries. `given`: texts in place of tables, by name."""

    TYPES: ClassVar[Mapping[str, str]]
    """Names of types; `list`, `struct` and `field` are forms."""

    JOINS: ClassVar[Mapping[str, str]]
    FORMS: ClassVar[Mapping[str, str]]
    """The forms of a bag (`bag`), a record, the rows of a constant table (`values`), and of a column with a row for each item (`rows`)."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = given or {}

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Return a name as an identifier."""

    @abstractmethod
    def literal(self, value: str) -> str:
        """Return a text as a literal."""

    @abstractmethod
    def named(self, name: str, text: str) -> str:
        """Return the text of a part of a record."""

    @abstractmethod
    def aggregate(self, one: Aggregate, schema: Schema) -> str:
        """Return the text of an aggregate, with its type in the algebra."""

    @abstractmethod
    def call(self, scalar: Scalar, names: Names) -> str:
        """Return the text of a call of a function."""

    @abstractmethod
    def cast(self, node: Scalar, names: Names) -> str:
        """Return the text of a cast."""

    @abstractmethod
    def field(self, node: Scalar, names: Names) -> str:
        """Return the text of a field of a record."""

    @abstractmethod
    def nested(self, node: Scalar, names: Names) -> str:
        """Return the text of a query over the items of a bag."""

    @abstractmethod
    def ends(self, node: Window) -> str:
        """Return the text of the ends of the panes that hold a time, each in a row."""

    @abstractmethod
    def group_by(self, keys: Sequence[str]) -> str:
        """Return the GROUP BY of a group, given the texts of its keys."""

    @abstractmethod
    def lacks(self, node: Relation) -> Exception:
        """Return the error of a node that has no statement."""

    def type(self, of: Type) -> str:
        """Return the name of a type."""
        if of.of is not None:
            return self.TYPES["list"].format(self.type(of.of))
        if of.kind == "record":
            parts = (self.TYPES["field"].format(self.quoted(name), self.type(one)) for name, one in of.fields)
            return self.TYPES["struct"].format(", ".join(parts))
        return self.TYPES[of.kind]

    def made(self, form: str, parts: Iterable[str]) -> str:
        """Return the text of a form with its parts."""
        return self.FORMS[form].format(", ".join(parts))

    # -- scalars -------------------------------------------------------------------------------------------------------

    def scalar(self, scalar: Scalar, names: Names) -> str:
        """Return the text of a scalar."""
        scalar = spelled_out(scalar)
        writer = _SCALARS.get(type(scalar))
        return self.call(scalar, names) if writer is None else writer(self, scalar, names)

    def column(self, node: Scalar, names: Names) -> str:
        """Return the text of a column."""
        return names.texts.get(node.name) or self.quoted(node.name)

    def constant(self, node: Scalar, names: Names) -> str:
        """Return the text of a literal."""
        if node.is_string:
            return self.literal(node.this)
        special = f"'{node.this}'" if node.this in ("inf", "nan") else node.this
        return f"CAST({special} AS {self.type(type_of(node, names.schema))})"

    def connected(self, word: str, node: Scalar, names: Names) -> str:
        """Return the text of conditions, connected by a word."""
        return f"({f' {word} '.join(self.scalar(one, names) for one in operands(node))})"

    def case(self, node: Scalar, names: Names) -> str:
        """Return the text of a choice between branches."""
        result = self.type(type_of(node, names.schema))
        texts = [
            f"WHEN {self.scalar(one.this, names)} THEN CAST({self.scalar(one.args['true'], names)} AS {result})"
            for one in node.args["ifs"]
        ]
        otherwise = self.scalar(node.args.get("default") or exp.Null(), names)
        return f"CASE {' '.join(texts)} ELSE {otherwise} END"

    def unified(self, texts: Sequence[str], kinds: Sequence[str]) -> list[str]:
        """Return the texts of numbers with one kind: integers beside floats become floats."""
        is_mixed = {"int64", "float64"} <= set(kinds)
        return [
            f"CAST({text} AS DOUBLE)" if is_mixed and kind == "int64" else text
            for text, kind in zip(texts, kinds, strict=True)
        ]

    def typed(self, scalar: Scalar, names: Names, wanted: Type) -> str:
        """Return the text of a scalar with its type in the algebra, which columns already have."""
        text = self.scalar(scalar, names)
        return text if isinstance(scalar, exp.Column) else f"CAST({text} AS {self.type(wanted)})"

    def value(self, value: Any, of: Type) -> str:
        """Return a value of a table that is written in the text."""
        if value is None:
            return "NULL"
        if of.of is not None:
            inner = of.of
            return self.made("bag", (self.value(one, inner) for one in value))
        if of.kind == "record":
            parts = zip(of.fields, value, strict=True)
            return self.made(
                "record", (self.named(name, self.value(one, kind)) for (name, kind), one in parts)
            )
        return self.literal(str(value)) if of.kind in ("text", "time", "float64") else str(value)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def statement(self, relation: Relation) -> str:
        """Return the statement of a relation. Rows come in any order, except for an `Order`; `Repeat` has no statement."""
        writer: Callable[[Any], str] | None = getattr(self, f"_{type(relation).__name__.lower()}", None)
        if writer is None:
            raise self.lacks(relation)
        return writer(relation)

    def _below(self, relation: Relation) -> str:
        return f"({self.statement(relation)})"

    def _source(self, node: Source) -> str:
        if node.rows is not None:
            return self._constant_table(node)
        names = ", ".join(map(self.quoted, node.columns.names))
        return f"SELECT {names} FROM {self._given.get(node.name) or self.quoted(node.name)}"

    def _constant_table(self, node: Source) -> str:
        if not node.rows:
            nulls = (
                f"CAST(NULL AS {self.type(of)}) AS {self.quoted(name)}" for name, of in node.columns.fields
            )
            return f"SELECT {', '.join(nulls)} WHERE FALSE"
        kinds = node.columns.types
        cells = [
            ", ".join(
                f"CAST({self.value(one, of)} AS {self.type(of)})" for one, of in zip(row, kinds, strict=True)
            )
            for row in node.rows
        ]
        names = ", ".join(map(self.quoted, node.columns.names))
        return f"SELECT * FROM {self.made('values', (f'({row})' for row in cells))} AS v({names})"

    def _map(self, node: Map) -> str:
        names, wanted = Names(node.input.schema), node.schema
        fields = [
            f"{self.typed(one, names, wanted.type(name))} AS {self.quoted(name)}" for name, one in node.fields
        ]
        return f"SELECT {', '.join(fields) or 'NULL'} FROM {self._below(node.input)}"

    def _where(self, node: Where) -> str:
        condition = self.scalar(node.predicate, Names(node.input.schema))
        return f"SELECT * FROM {self._below(node.input)} WHERE {condition}"

    def _expand(self, node: Expand) -> str:
        items = self.scalar(node.items, Names(node.input.schema))
        return f"SELECT *, {self.made('rows', [items])} AS {self.quoted(node.as_)} FROM {self._below(node.input)}"

    def _union(self, node: Union) -> str:
        parts = []
        for part in node.parts:
            names = Names(part.schema)
            columns = [
                f"CAST({self.scalar(column(own), names)} AS {self.type(of)}) AS {self.quoted(name)}"
                for own, (name, of) in zip(part.schema.names, node.schema.fields, strict=True)
            ]
            parts.append(f"SELECT {', '.join(columns)} FROM {self._below(part)}")
        return " UNION ALL ".join(parts)

    def _join(self, node: Join) -> str:
        names = Names(node.both)
        tests = [self.scalar(call("eq", one, other), names) for one, other in node.pairs]
        tests += [] if node.residual is None else [self.scalar(node.residual, names)]
        left, right = self._below(node.left), self._below(node.right)
        return f"SELECT * FROM {left} {self.JOINS[node.how]} JOIN {right} ON {' AND '.join(tests) or 'TRUE'}"

    def _group(self, node: Group) -> str:
        schema, names = node.input.schema, Names(node.input.schema)
        keys = [self.typed(one, names, node.schema.type(name)) for name, one in node.keys]
        fields = [f"{text} AS {self.quoted(name)}" for (name, _), text in zip(node.keys, keys, strict=True)]
        fields += [f"{self.aggregate(one, schema)} AS {self.quoted(name)}" for name, one in node.aggregates]
        by = f" GROUP BY {self.group_by(keys)}" if keys else ""
        return f"SELECT {', '.join(fields) or 'count(*)'} FROM {self._below(node.input)}{by}"

    def _order(self, node: Order) -> str:
        by = ", ".join(
            [*(self._key(one, node.input.schema) for one in node.by), self.everything(node.input.schema)]
        )
        limit = "" if node.limit is None else f" LIMIT {node.limit}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        return f"SELECT * FROM {self._below(node.input)} ORDER BY {by}{limit}{offset}"

    def _key(self, key: Key, schema: Schema) -> str:
        is_column = isinstance(key.scalar, exp.Column)
        by = self.quoted(key.scalar.name) if is_column else self.scalar(key.scalar, Names(schema))
        return f"{by} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"

    def everything(self, schema: Schema) -> str:
        """Return the order by all columns."""
        return ", ".join(f"{self.quoted(name)} ASC NULLS LAST" for name in schema.names)

    def _window(self, node: Window) -> str:
        at, end = self.quoted(node.at), self.quoted(node.as_)
        inner = f"SELECT *, {self.ends(node)} AS {end} FROM {self._below(node.input)} WHERE {at} IS NOT NULL"
        return f"SELECT * FROM ({inner}) WHERE {end} > {at}"


_SCALARS: dict[type, Callable[[Dialect, Any, Names], str]] = {
    exp.Column: lambda self, node, names: self.column(node, names),
    exp.Literal: lambda self, node, names: self.constant(node, names),
    exp.Null: lambda _self, _node, _names: "NULL",
    exp.Boolean: lambda _self, node, _names: "TRUE" if node.this else "FALSE",
    exp.And: lambda self, node, names: self.connected("AND", node, names),
    exp.Or: lambda self, node, names: self.connected("OR", node, names),
    exp.Is: lambda self, node, names: (
        f"({self.scalar(node.this, names)} IS {self.scalar(node.expression, names)})"
    ),
    exp.Case: lambda self, node, names: self.case(node, names),
    exp.Cast: lambda self, node, names: self.cast(node, names),
    exp.Struct: lambda self, node, names: self.made(
        "record", (self.named(one.this.name, self.scalar(one.expression, names)) for one in node.expressions)
    ),
    exp.Dot: lambda self, node, names: self.field(node, names),
    Nested: lambda self, node, names: self.nested(node, names),
}
