"""Lark's tree of a statement to the tree of `mrql_tree`: one method for each alternative of the grammar."""

from __future__ import annotations

import ast
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from dgs.query.mrql import mrql_tree as t

Children = list[Any]


class PatternError(Exception):
    """The text before the colon of `group by` is no pattern. The error becomes Q101 in `mrql_parser`."""

    def __init__(self, at: t.Place) -> None:
        super().__init__(at)
        self.at = at


def _at(meta: Meta) -> t.Place:
    return (meta.line, meta.column)


def _text(token: Token) -> str:
    value: str = ast.literal_eval(token)
    return value


@v_args(meta=True)
class _Patterns(Transformer[Token, Any]):
    """Patterns and types."""

    def name_pattern(self, meta: Meta, children: Children) -> t.Pattern:
        return t.NamePattern(str(children[0]), at=_at(meta))

    def tuple_pattern(self, meta: Meta, children: Children) -> t.Pattern:
        return t.TuplePattern(tuple(children), at=_at(meta))

    def record_pattern(self, meta: Meta, children: Children) -> t.Pattern:
        return t.RecordPattern(_pairs(children), at=_at(meta))

    def named_type(self, meta: Meta, children: Children) -> t.TypeTree:
        return t.TypeTree("name", (str(children[0]),), at=_at(meta))

    def type_field(self, _: Meta, children: Children) -> tuple[str, t.TypeTree]:
        return str(children[0]), children[1]

    def record_type(self, meta: Meta, children: Children) -> t.TypeTree:
        names, types = zip(*children, strict=True)
        return t.TypeTree("record", names, types, at=_at(meta))

    def tuple_type(self, meta: Meta, children: Children) -> t.TypeTree:
        return t.TypeTree("tuple", (), tuple(children), at=_at(meta))

    def bag_type(self, meta: Meta, children: Children) -> t.TypeTree:
        return t.TypeTree("bag", (), tuple(children), at=_at(meta))

    def list_type(self, meta: Meta, children: Children) -> t.TypeTree:
        return t.TypeTree("list", (), tuple(children), at=_at(meta))


@v_args(meta=True)
class _Operands(_Patterns):
    """Constants, constructors, projections and operators."""

    def integer(self, meta: Meta, children: Children) -> t.Tree:
        return t.Constant(int(children[0]), at=_at(meta))

    def floating(self, meta: Meta, children: Children) -> t.Tree:
        return t.Constant(float(children[0]), at=_at(meta))

    def string(self, meta: Meta, children: Children) -> t.Tree:
        return t.Constant(_text(children[0]), at=_at(meta))

    def truth(self, meta: Meta, children: Children) -> t.Tree:
        return t.Constant(children[0] == "true", at=_at(meta))

    def name(self, meta: Meta, children: Children) -> t.Tree:
        return t.Name(str(children[0]), at=_at(meta))

    def arguments(self, _: Meta, children: Children) -> tuple[t.Tree, ...]:
        return tuple(children)

    def call(self, meta: Meta, children: Children) -> t.Tree:
        return t.Call(str(children[0]), children[1] or (), at=_at(meta))

    def tuple_of(self, meta: Meta, children: Children) -> t.Tree:
        return t.TupleOf(tuple(children), at=_at(meta))

    def record_field(self, _: Meta, children: Children) -> tuple[str, t.Tree]:
        return str(children[0]), children[1]

    def record_of(self, meta: Meta, children: Children) -> t.Tree:
        return t.RecordOf(tuple(children), at=_at(meta))

    def bag_of(self, meta: Meta, children: Children) -> t.Tree:
        return t.BagOf(children[0] or (), at=_at(meta))

    def list_of(self, meta: Meta, children: Children) -> t.Tree:
        return t.ListOf(children[0] or (), at=_at(meta))

    def field(self, meta: Meta, children: Children) -> t.Tree:
        return t.FieldOf(children[0], str(children[1]), at=_at(meta))

    def item(self, meta: Meta, children: Children) -> t.Tree:
        return t.ItemOf(children[0], int(children[1]), at=_at(meta))

    def index(self, meta: Meta, children: Children) -> t.Tree:
        return t.ElementAt(children[0], children[1], at=_at(meta))

    def negative(self, meta: Meta, children: Children) -> t.Tree:
        (of,) = children
        if isinstance(of, t.Constant) and not isinstance(of.value, bool | str):
            return t.Constant(-of.value, at=_at(meta))
        return t.Unary("-", of, at=_at(meta))

    def negate(self, meta: Meta, children: Children) -> t.Tree:
        return t.Unary("not", children[0], at=_at(meta))

    def binary(self, meta: Meta, children: Children) -> t.Tree:
        left, sign, right = children
        sign = {"!=": "<>", "union": "+", "mod": "%"}.get(sign, str(sign))
        return t.Binary(sign, left, right, at=_at(meta))


@v_args(meta=True)
class _Builder(_Operands):
    """Expressions with parts of their own and statements."""

    def let(self, meta: Meta, children: Children) -> t.Tree:
        *bindings, body = children
        found: t.Tree = body
        for pattern, value in reversed(bindings):
            found = t.Let(pattern, value, found, at=_at(meta))
        return found

    def binding(self, _: Meta, children: Children) -> tuple[t.Pattern, t.Tree]:
        return children[0], children[1]

    def if_then(self, meta: Meta, children: Children) -> t.Tree:
        return t.IfThen(*children, at=_at(meta))

    def quantified(self, meta: Meta, children: Children) -> t.Tree:
        word, pattern, source, condition = children
        return t.Quantified(word == "some", pattern, source, condition, at=_at(meta))

    def argument_of(self, meta: Meta, children: Children) -> t.Tree:
        word, pattern, source, value = children
        return t.ArgumentOf(word == "argmin", pattern, source, value, at=_at(meta))

    def generator(self, _: Meta, children: Children) -> tuple[t.Pattern, t.Tree]:
        return children[0], children[1]

    def same(self, meta: Meta, children: Children) -> tuple[t.Pattern, t.Tree]:
        return children[0], t.Same(children[1], at=_at(meta))

    def where(self, _: Meta, children: Children) -> t.Tree:
        tree: t.Tree = children[0]
        return tree

    having = where

    def group(self, _: Meta, children: Children) -> tuple[t.Pattern | None, t.Tree]:
        first, second = children
        return (None, first) if second is None else (as_pattern(first), second)

    def order(self, _: Meta, children: Children) -> tuple[tuple[t.Tree, bool], ...]:
        return tuple(children)

    def order_key(self, _: Meta, children: Children) -> tuple[t.Tree, bool]:
        return children[0], children[1] == "desc"

    def select(self, meta: Meta, children: Children) -> t.Tree:
        distinct, head, *generators, where, group, having, order = children
        return t.Select(
            distinct is not None, head, tuple(generators), where, group, having, order or (), at=_at(meta)
        )

    def repeat(self, meta: Meta, children: Children) -> t.Tree:
        pattern, start, body, until, limit, warm = children
        bound = None if limit is None else int(limit)
        return t.RepeatOf(pattern, start, body, until, bound, warm is not None, at=_at(meta))

    def row_type(self, _: Meta, children: Children) -> t.TypeTree:
        tree: t.TypeTree = children[0]
        return tree

    def reader(self, meta: Meta, children: Children) -> t.Tree:
        word, kind, *rest = children
        rows = [one for one in rest if isinstance(one, t.TypeTree)]
        arguments = tuple(one for one in rest if not isinstance(one, t.TypeTree))
        return t.ReaderOf(word == "stream", str(kind), arguments, rows[0] if rows else None, at=_at(meta))

    def incr(self, _: Meta, children: Children) -> t.Tree:
        tree: t.Tree = children[0]  # every query is kept up to date: the word changes nothing
        return tree

    def assign(self, meta: Meta, children: Children) -> t.Statement:
        return t.Assign(str(children[0]), children[1], at=_at(meta))

    def output(self, meta: Meta, children: Children) -> t.Statement:
        return t.Output(children[0], at=_at(meta))

    def store(self, meta: Meta, children: Children) -> t.Statement:
        return t.Output(children[1], _text(children[0]), at=_at(meta))

    def parameter(self, _: Meta, children: Children) -> str:
        return str(children[0])

    def parameters(self, _: Meta, children: Children) -> tuple[str, ...]:
        return tuple(children)

    def function(self, meta: Meta, children: Children) -> t.Statement:
        return t.Function(str(children[0]), children[1] or (), children[-1], at=_at(meta))

    macro = function

    def operator(self, _: Meta, children: Children) -> str:
        return str(children[0])

    named = operator

    def anonymous(self, _: Meta, children: Children) -> tuple[str, str, t.Tree]:
        return str(children[0]), str(children[1]), children[2]

    def plus(self, _: Meta, children: Children) -> Any:
        return children[0]

    def aggregation(self, meta: Meta, children: Children) -> t.Statement:
        return t.Aggregation(str(children[0]), children[1], children[2], at=_at(meta))


def _pairs(children: Children) -> tuple[tuple[str, Any], ...]:
    return tuple((str(name), value) for name, value in zip(children[::2], children[1::2], strict=True))


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


BUILD = _Builder()
"""Makes the tree of a statement."""
