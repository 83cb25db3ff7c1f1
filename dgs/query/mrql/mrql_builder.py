"""From lark's tree of a statement to the tree of `mrql_tree`: one maker for each alternative of the grammar.

A maker gets the place of its alternative and the values of the parts inside, None for parts that the text leaves out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from lark import Token, Transformer
from lark.tree import Meta

from dgs.query.mrql import mrql_tree as t

Maker = Callable[..., Any]


class PatternError(Exception):
    """The text before the colon of `group by` is not a pattern. The error becomes Q101 in `mrql_parser`."""

    def __init__(self, at: t.Place) -> None:
        super().__init__(at)
        self.at = at


class _Builder(Transformer[Token, Any]):
    NAME, INT, FLOAT = staticmethod(str), staticmethod(int), staticmethod(float)
    STRING = staticmethod(ast.literal_eval)

    def __default__(self, data: str, children: list[Any], meta: Meta) -> Any:
        """Return the value of an alternative, by its maker."""
        return MAKERS[str(data)]((meta.line, meta.column), *children)


def as_pattern(tree: t.Tree) -> t.Pattern:
    """Return the pattern before the colon of `group by`, which the grammar reads as an expression. Raises PatternError."""
    match tree:
        case t.Name(name=name):
            return t.NamePattern(name, at=tree.at)
        case t.TupleOf(items=items):
            return t.TuplePattern(tuple(as_pattern(one) for one in items), at=tree.at)
        case t.RecordOf(items=named):
            return t.RecordPattern(tuple((name, as_pattern(one)) for name, one in named), at=tree.at)
    raise PatternError(tree.at)


def _node(kind: Callable[..., t.Tree]) -> Maker:
    return lambda at, *parts: kind(*parts, at=at)


def _of_all(kind: Callable[..., t.Tree]) -> Maker:
    return lambda at, *parts: kind(parts, at=at)


def _of_any(kind: Callable[..., t.Tree]) -> Maker:
    return lambda at, items: kind(items or (), at=at)


def _type(kind: str) -> Maker:
    return lambda at, *parts: t.TypeTree(kind, (), parts, at=at)


def _parts(_at: t.Place, *parts: Any) -> tuple[Any, ...]:
    return parts


def _only(_at: t.Place, part: Any) -> Any:
    return part


def _negative(at: t.Place, of: t.Tree) -> t.Tree:
    if isinstance(of, t.Constant) and not isinstance(of.value, bool | str):
        return t.Constant(-of.value, at=at)
    return t.Unary("-", of, at=at)


def _binary(at: t.Place, left: t.Tree, sign: str, right: t.Tree) -> t.Tree:
    return t.Binary({"!=": "<>", "union": "+", "mod": "%"}.get(sign, str(sign)), left, right, at=at)


def _let(at: t.Place, *parts: Any) -> t.Tree:
    *bindings, found = parts
    for pattern, value in reversed(bindings):
        found = t.Let(pattern, value, found, at=at)
    return found  # type: ignore[no-any-return]


def _select(at: t.Place, distinct: str | None, head: t.Tree, *parts: Any) -> t.Tree:
    *generators, where, group, having, order = parts
    return t.Select(distinct is not None, head, tuple(generators), where, group, having, order or (), at=at)


def _repeat(at: t.Place, *parts: Any) -> t.Tree:
    pattern, start, body, until, limit, warm = parts
    return t.RepeatOf(pattern, start, body, until, limit, warm is not None, at=at)


def _reader(at: t.Place, word: str, kind: str, *parts: t.Tree) -> t.Tree:
    rows = next((one for one in parts if isinstance(one, t.TypeTree)), None)
    arguments = tuple(one for one in parts if not isinstance(one, t.TypeTree))
    return t.ReaderOf(word == "stream", kind, arguments, rows, at=at)


def _function(at: t.Place, name: str, parameters: tuple[str, ...] | None, *rest: t.Tree) -> t.Statement:
    return t.Function(name, parameters or (), rest[-1], at=at)


MAKERS: dict[str, Maker] = {
    # patterns and types
    "name_pattern": _node(t.NamePattern),
    "tuple_pattern": _of_all(t.TuplePattern),
    "record_pattern": lambda at, *parts: t.RecordPattern(
        tuple(zip(parts[::2], parts[1::2], strict=True)), at=at
    ),
    "named_type": lambda at, name: t.TypeTree("name", (name,), at=at),
    "type_field": _parts,
    "record_type": lambda at, *fields: t.TypeTree("record", *zip(*fields, strict=True), at=at),
    "tuple_type": _type("tuple"),
    "bag_type": _type("bag"),
    "list_type": _type("list"),
    # constants, constructors, projections and operators
    "integer": _node(t.Constant),
    "floating": _node(t.Constant),
    "string": _node(t.Constant),
    "truth": lambda at, word: t.Constant(word == "true", at=at),
    "name": _node(t.Name),
    "arguments": _parts,
    "call": lambda at, name, arguments: t.Call(name, arguments or (), at=at),
    "tuple_of": _of_all(t.TupleOf),
    "record_field": _parts,
    "record_of": _of_all(t.RecordOf),
    "bag_of": _of_any(t.BagOf),
    "list_of": _of_any(t.ListOf),
    "field": _node(t.FieldOf),
    "item": _node(t.ItemOf),
    "index": _node(t.ElementAt),
    "negative": _negative,
    "negate": lambda at, of: t.Unary("not", of, at=at),
    "binary": _binary,
    # expressions that bind names
    "let": _let,
    "binding": _parts,
    "if_then": _node(t.IfThen),
    "quantified": lambda at, word, *parts: t.Quantified(word == "some", *parts, at=at),
    "argument_of": lambda at, word, *parts: t.ArgumentOf(word == "argmin", *parts, at=at),
    "generator": _parts,
    "same": lambda at, pattern, source: (pattern, t.Same(source, at=at)),
    "where": _only,
    "having": _only,
    "group": lambda _, first, key: (None, first) if key is None else (as_pattern(first), key),
    "order": _parts,
    "order_key": lambda _, value, way: (value, way == "desc"),
    "select": _select,
    "repeat": _repeat,
    "row_type": _only,
    "reader": _reader,
    "incr": _only,  # every query is kept up to date, so the word changes nothing
    # statements
    "assign": _node(t.Assign),
    "output": _node(t.Output),
    "store": lambda at, place, source: t.Output(source, place, at=at),
    "parameter": lambda _, name, _type: name,
    "parameters": _parts,
    "function": _function,
    "macro": _function,
    "operator": lambda _, sign: str(sign),
    "named": _only,
    "anonymous": _parts,
    "plus": _only,
    "aggregation": lambda at, name, plus, value, _type: t.Aggregation(name, plus, value, at=at),
}
"""The maker of each alternative of the grammar."""

BUILD = _Builder()
"""Makes the tree of a statement."""
