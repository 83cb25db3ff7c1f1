"""The text of a query for Spark: every node of the algebra as one statement over its inputs.

Names are quoted and values written in full, so nothing of a script's text comes here unread. Fields of records may differ by case alone,
so Spark must tell cases apart (`spark.sql.caseSensitive`). Spark has no statement over the items of a column of each row: a query over a bag
becomes functions of arrays. The items of bags come in any order: their reader sorts them.

>>> from dgs.query.scalar import call, column, literal
>>> from dgs.query.types import INT, Schema
>>> spark_text(Where(Source("flights", Schema.of(delay=INT)), call("gt", column("delay"), literal(15))))
'SELECT * FROM (SELECT `delay` FROM `flights`) WHERE (`delay` > CAST(15 AS BIGINT))'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from dgs.query.relation import Expand, Group, Join, Key, Map, Order, Relation, Source, Union, Where, Window
from dgs.query.scalar import Scalar, call
from dgs.query.spark.spark_scalars import (
    Names,
    aggregate_text,
    lacking,
    scalar_text,
    spark_type,
    text_literal,
    ticked,
)
from dgs.query.types import Type


def spark_text(relation: Relation, given: Mapping[str, str] | None = None) -> str:
    """Return the statement of a relation. `given`: the names of views, in place of the sources' own.

    Rows come in any order, but for an `Order`. Raises QueryError Q501 for what Spark lacks; `Repeat` has no statement.
    """
    writer = _NODES.get(type(relation).__name__)
    if writer is None:
        raise lacking(f"{type(relation).__name__} in one statement", relation)
    return writer(relation, given or {})


Given = Mapping[str, str]


def _below(node: Relation, given: Given) -> str:
    return f"({spark_text(node, given)})"


def _source(node: Source, given: Given) -> str:
    names = ", ".join(map(ticked, node.columns.names))
    return (
        _constant(node)
        if node.rows is not None
        else f"SELECT {names} FROM {ticked(given.get(node.name, node.name))}"
    )


def _map(node: Map, given: Given) -> str:
    names = Names(node.input.schema)
    fields = [f"{_typed(one, names, node.schema.type(name))} AS {ticked(name)}" for name, one in node.fields]
    return f"SELECT {', '.join(fields) or 'NULL'} FROM {_below(node.input, given)}"


def _where(node: Where, given: Given) -> str:
    return f"SELECT * FROM {_below(node.input, given)} WHERE {scalar_text(node.predicate, Names(node.input.schema))}"


def _expand(node: Expand, given: Given) -> str:
    items = scalar_text(node.items, Names(node.input.schema))
    return f"SELECT *, explode({items}) AS {ticked(node.as_)} FROM {_below(node.input, given)}"


def _union(node: Union, given: Given) -> str:
    parts = []
    for part in node.parts:
        columns = [
            f"CAST({ticked(own)} AS {spark_type(of)}) AS {ticked(name)}"
            for own, (name, of) in zip(part.schema.names, node.schema.fields, strict=True)
        ]
        parts.append(f"SELECT {', '.join(columns)} FROM {_below(part, given)}")
    return " UNION ALL ".join(parts)


JOINS = {"inner": "INNER", "left": "LEFT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


def _join(node: Join, given: Given) -> str:
    names = Names(node.both)
    tests = [scalar_text(call("eq", one, other), names) for one, other in node.pairs]
    tests += [] if node.residual is None else [scalar_text(node.residual, names)]
    left, right = _below(node.left, given), _below(node.right, given)
    return f"SELECT * FROM {left} {JOINS[node.how]} JOIN {right} ON {' AND '.join(tests) or 'TRUE'}"


def _group(node: Group, given: Given) -> str:
    of, names = node.input.schema, Names(node.input.schema)
    keys = [_typed(one, names, node.schema.type(name)) for name, one in node.keys]
    fields = [f"{text} AS {ticked(name)}" for (name, _), text in zip(node.keys, keys, strict=True)]
    fields += [f"{aggregate_text(one, of)} AS {ticked(name)}" for name, one in node.aggregates]
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(fields) or 'count(*)'} FROM {_below(node.input, given)}{by}"


def _order(node: Order, given: Given) -> str:
    names = Names(node.input.schema)
    by = ", ".join(
        [
            *(_key(one, names) for one in node.by),
            *(f"{ticked(one)} ASC NULLS LAST" for one in node.schema.names),
        ]
    )
    bounds = ("" if node.limit is None else f" LIMIT {node.limit}") + (
        f" OFFSET {node.offset}" if node.offset else ""
    )
    return f"SELECT * FROM {_below(node.input, given)} ORDER BY {by}{bounds}"


def _key(key: Key, names: Names) -> str:
    nulls = "FIRST" if key.nulls_first else "LAST"
    return f"{scalar_text(key.scalar, names)} {'DESC' if key.descending else 'ASC'} NULLS {nulls}"


def _window(node: Window, given: Given) -> str:
    at, end, count = ticked(node.at), ticked(node.as_), -(-node.size // node.slide)
    ends = f"transform(sequence(0, {count - 1}), n -> {at} - pmod({at}, {node.slide}) - n * {node.slide} + {node.size})"
    inner = f"SELECT *, explode({ends}) AS {end} FROM {_below(node.input, given)} WHERE {at} IS NOT NULL"
    return f"SELECT * FROM ({inner}) WHERE {end} > {at}"


_NODES: dict[str, Callable[[Any, Given], str]] = {
    "Source": _source, "Map": _map, "Where": _where, "Expand": _expand, "Union": _union, "Join": _join, "Group": _group,
    "Order": _order, "Window": _window,
}  # fmt: skip


def _constant(node: Source) -> str:
    rows = [
        ", ".join(
            f"CAST({_value(value, of)} AS {spark_type(of)})"
            for value, of in zip(row, node.columns.types, strict=True)
        )
        for row in node.rows or ()
    ]
    if not rows:
        nulls = (f"CAST(NULL AS {spark_type(of)}) AS {ticked(name)}" for name, of in node.columns.fields)
        return f"SELECT {', '.join(nulls)} WHERE FALSE"
    return f"SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS v({', '.join(map(ticked, node.columns.names))})"


def _value(value: Any, of: Type) -> str:
    if value is None:
        return "NULL"
    if of.of is not None:
        return f"array({', '.join(_value(one, of.of) for one in value)})"
    if of.kind == "record":
        parts = (
            f"{text_literal(name)}, {_value(one, kind)}"
            for (name, kind), one in zip(of.fields, value, strict=True)
        )
        return f"named_struct({', '.join(parts)})"
    return text_literal(str(value)) if of.kind in ("text", "time", "float64") else str(value)


def _typed(scalar: Scalar, names: Names, wanted: Type) -> str:
    text = scalar_text(scalar, names)
    return text if isinstance(scalar, exp.Column) else f"CAST({text} AS {spark_type(wanted)})"
