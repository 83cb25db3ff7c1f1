"""Graphs and scalars as text, for traces and reports.

>>> from dgs.query.relation import INT, Schema, Source, Where
>>> print(text_of(Where(Source("flights", Schema.of(delay=INT)), call("gt", column("delay"), literal(15)))))
Where delay > 15
  Source flights
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.functions import FUNCTIONS, arguments_of, name_of
from dgs.query.relation import (
    Expand,
    Group,
    Join,
    Key,
    Map,
    Order,
    Relation,
    Repeat,
    Script,
    Source,
    Where,
    Window,
)
from dgs.query.rewrite.shared_graph import SharedGraph
from dgs.query.scalar import Nested, Scalar, call, column, literal

__all__ = ["call", "column", "literal", "scalar_text", "text_of"]


def text_of(given: Script | Relation) -> str:
    """Return a graph as text: each node on a line, with its inputs below it. The inputs of a repeated node are left out."""
    script = Script.of(given)
    graph = SharedGraph(script)
    lines: list[str] = []
    for name, node in graph.script.outputs:
        depth = 0 if isinstance(given, Relation) else 1
        lines += [f"{name}:"] * depth
        _draw(graph, node, depth, lines, set())
    return "\n".join(lines)


def _draw(graph: SharedGraph, node: Relation, depth: int, lines: list[str], seen: set[int]) -> None:
    is_again = id(node) in seen and bool(node.inputs)
    lines.append("  " * depth + node_text(node) + (" (as above)" if is_again else ""))
    if not is_again:
        seen.add(id(node))
        for one in node.inputs:
            _draw(graph, one, depth + 1, lines, seen)


def node_text(node: Relation) -> str:
    """Return a node in a line, without its inputs."""
    match node:
        case Source():
            said = node.name
        case Map():
            said = _named(node.fields)
        case Where():
            said = scalar_text(node.predicate)
        case Expand():
            said = f"{scalar_text(node.items)} as {node.as_}"
        case Join():
            said = f"{node.how}{_condition(node)}"
        case Group():
            by = f"by {_named(node.keys)}" if node.keys else ""
            said = f"{by}: {_named(node.aggregates)}" if node.aggregates else by
        case Order():
            said = _order(node)
        case Window():
            said = f"{node.unit} {node.size} slide {node.slide} of {node.at} as {node.as_}"
        case Repeat():
            said = ", ".join(node.names) + ("" if node.limit is None else f" limit {node.limit}")
        case _:
            said = ""
    return f"{type(node).__name__} {said}".replace(" :", ":").rstrip()


def _condition(node: Join) -> str:
    parts = [f"{scalar_text(one)} = {scalar_text(other)}" for one, other in node.pairs]
    parts += [] if node.residual is None else [scalar_text(node.residual)]
    return f" on {' and '.join(parts)}" if parts else ""


def _order(node: Order) -> str:
    parts = [f"by {', '.join(map(_key, node.by))}"] if node.by else []
    parts += [] if node.limit is None else [f"limit {node.limit}"]
    return " ".join([*parts, *([f"offset {node.offset}"] if node.offset else [])])


def _named(fields: Any) -> str:
    parts = []
    for name, one in fields:
        said = _aggregate(one) if isinstance(one, Aggregate) else scalar_text(one)
        parts.append(name if said == name else f"{name} = {said}")
    return ", ".join(parts)


def _aggregate(one: Aggregate) -> str:
    name = one.user.name if one.user is not None else one.function
    said = ", ".join(map(scalar_text, one.arguments))
    where = "" if one.where is None else f" where {scalar_text(one.where)}"
    return f"{name}({'distinct ' if one.distinct else ''}{said}){where}"


def _key(key: Key) -> str:
    return (
        scalar_text(key.scalar)
        + (" desc" if key.descending else "")
        + (" nulls first" if key.nulls_first else "")
    )


def scalar_text(scalar: Scalar) -> str:
    """Return a scalar as text."""
    said = _scalar(scalar)
    is_whole = said.startswith("(") and said.endswith(")") and _closes_last(said)
    return said[1:-1] if is_whole else said


def _closes_last(said: str) -> bool:
    """Return whether the first bracket is closed by the last character."""
    depth = 0
    for place, one in enumerate(said):
        depth += {"(": 1, ")": -1}.get(one, 0)
        if depth == 0:
            return place == len(said) - 1
    return False


def _scalar(scalar: Scalar) -> str:
    match scalar:
        case exp.Column():
            said = scalar.name
        case exp.Paren():
            said = f"({scalar_text(scalar.this)})"
        case exp.And() | exp.Or():
            said = f"({_scalar(scalar.this)} {scalar.key} {_scalar(scalar.expression)})"
        case exp.Is():
            said = f"({_scalar(scalar.this)} is {_scalar(scalar.expression)})"
        case exp.Dot():
            said = f"{_scalar(scalar.this)}.{scalar.expression.name}"
        case exp.Struct():
            fields = (f"{one.this.name}: {scalar_text(one.expression)}" for one in scalar.expressions)
            said = f"<{', '.join(fields)}>"
        case Nested():
            query = " <- ".join(line.strip() for line in text_of(scalar.args["query"]).splitlines())
            said = f"query({scalar_text(scalar.this)}: {query})"
        case _:
            said = _function(scalar)
    return said


def _function(scalar: Scalar) -> str:
    function = FUNCTIONS.get(name_of(scalar))
    if function is None:
        said = str(scalar.sql(comments=False))
        return said.lower() if isinstance(scalar, (exp.Null, exp.Boolean)) else said
    parts = arguments_of(scalar)
    if function.duckdb.startswith("({0} ") and len(parts) == 2:  # noqa: PLR2004 - an operator between two sides
        return function.duckdb.format(*map(_scalar, parts))
    return f"{function.name}({', '.join(map(scalar_text, parts))})"
