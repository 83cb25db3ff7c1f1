"""Lowering expressions: names, attributes of the event, conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dgs.compiled.lowering.arithmetic import Arithmetic
from dgs.compiled.lowering.method_source import MISSING, Surroundings, is_known
from dgs.compiled.lowering.value_types import (
    BOOL,
    EVENT,
    INT,
    KEY,
    NUMBERS,
    OBJECT,
    PROGRAM,
    PYTHON,
    TAG,
    TEXT,
    ReadsStream,
    Refused,
    Type,
    joined,
    scalars_of,
)
from dgs.compiled.lowering.values import (
    NEVER,
    NOTHING,
    Value,
    as_type,
    constant,
    inner,
    of_texts,
    record_value,
    tuple_value,
)

Known = dict[str, Value]
"""The facts about names that hold with a condition."""
Payload = Type | dict[str, Type] | None
"""The type of a column of payloads, types of named columns, or None without payloads."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts about all events of a kind in a lane. `stream`: None if nobody has asked for it. `has_key`: whether their tags have one."""

    kind: str
    stream: str | None
    payload: Payload
    has_key: bool


class Expressions(Arithmetic):
    """Lowers the expressions of an update for events of one kind. `locals`: the names that are the update's own."""

    def __init__(
        self, seen: Seen, surroundings: Surroundings, local_names: frozenset[str], depth: int, prefix: str
    ) -> None:
        super().__init__(depth, prefix)
        self._seen, self._surroundings, self._locals = seen, surroundings, local_names
        self.names: Known = {}

    def expression(self, node: ast.expr) -> Value:
        """Lower an expression."""
        lower = getattr(self, f"_{type(node).__name__.lower()}", None)
        if lower is None:
            raise Refused(f"`{ast.unparse(node)}` is not compiled", node)
        value: Value = lower(node)
        return value

    # -- names and attributes ------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        return constant(node.value, node)

    def _name(self, node: ast.Name) -> Value:
        if node.id.startswith("__") and not node.id.endswith("__"):
            raise Refused(f"`{node.id}` has another name inside a class", node)
        if node.id in self._locals:
            if node.id not in self.names:
                raise Refused(f"`{node.id}` may have no value here", node)
            return self.names[node.id]
        found = self._surroundings.name(node.id)
        if found is MISSING:
            raise Refused(f"`{node.id}` is not defined", node)
        if not is_known(found) and not callable(found):
            raise Refused(f"`{node.id}` is a {type(found).__name__}, which is not compiled", node)
        return constant(found, node)

    def _attribute(self, node: ast.Attribute) -> Value:
        of = self.expression(node.value)
        if of.type == EVENT:
            return self._of_event(node)
        if of.type == TAG and node.attr == "kind":
            return constant(self._seen.kind)
        if of.type == TAG and node.attr == "key":
            return Value(KEY, origin=("key",)) if self._seen.has_key else NOTHING
        if node.attr.startswith("__"):
            raise Refused(f"`{ast.unparse(node)}` is not compiled", node)
        try:
            if of.type == PROGRAM:
                return self._known(self._surroundings.of_program(node.attr), node)
            if of.type == PYTHON:
                return self._known(self._surroundings.attribute(of.constant, node.attr), node)
        except Refused as refused:
            raise Refused(refused.refusal.why, node) from None
        if of.type.of is not None and node.attr in of.type.names:
            return of.parts[of.type.names.index(node.attr)]
        raise Refused(f"`{ast.unparse(node)}` is not compiled", node)

    def _known(self, value: Any, node: ast.AST) -> Value:
        """Return what the program, a module or a plain object has. Of an object that is no constant only attributes are used."""
        return constant(value, node) if is_known(value) else Value(PYTHON, constant=value)

    def _of_event(self, node: ast.Attribute) -> Value:
        if node.attr == "tag":
            return Value(TAG)
        if node.attr == "stream":
            if self._seen.stream is None:
                raise ReadsStream("the name of the stream is read", node)
            return constant(self._seen.stream)
        if node.attr == "ts":
            return Value(INT, ("ts_here",), origin=("ts",))
        if node.attr == "payload":
            return self._payload()
        raise Refused(f"`{ast.unparse(node)}` is not compiled", node)

    def _payload(self) -> Value:
        of = self._seen.payload
        if of is None:
            return NOTHING
        if isinstance(of, dict) or of == OBJECT:
            return Value(OBJECT, origin=("payload",))
        return Value(of, ("payload_here",), origin=("payload",))

    def _subscript(self, node: ast.Subscript) -> Value:
        of, at = self.expression(node.value), self.expression(node.slice)
        if of.origin == ("payload",) and isinstance(self._seen.payload, dict) and at.type == TEXT:
            return self._field(node, at.constant)
        count = len(of.parts)
        if of.type.name == "tuple" and at.type == INT and at.is_known and -count <= at.constant < count:
            return of.parts[int(at.constant)]
        raise Refused(f"`{ast.unparse(node)}` is not compiled", node)

    def _field(self, node: ast.AST, name: str) -> Value:
        fields = self._seen.payload
        if not isinstance(fields, dict) or name not in fields:
            raise Refused(f"the payloads have no column {name!r}", node)
        number = list(fields).index(name)
        texts = (f"field{number}_here",) if fields[name] in NUMBERS else ()
        return Value(fields[name], texts, origin=("field", name))

    # -- composed values -----------------------------------------------------------------------------------------------

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = [self.expression(part) for part in node.elts]
        value = tuple_value(parts)
        if all(part.is_known and part.type != PYTHON for part in parts):
            return replace(value, constant=tuple(part.constant for part in parts))
        return value

    def _dict(self, node: ast.Dict) -> Value:
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        if len(names) != len(node.keys) or not names or not all(type(name) is str for name in names):
            raise Refused("a record needs constant texts as names", node)
        if len(set(names)) != len(names):
            raise Refused("two values of a record have one name", node)
        return record_value([str(name) for name in names], [self.expression(value) for value in node.values])

    # -- operations ----------------------------------------------------------------------------------------------------

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(node, node.op, self.expression(node.left), self.expression(node.right))

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.condition(node)[0]
        return self.unary(node, node.op, self.expression(node.operand))

    def _compare(self, node: ast.Compare) -> Value:
        if (divides := self._divides(node)) is not None:
            return divides
        return self._chain(
            node, self.expression(node.left), list(zip(node.ops, node.comparators, strict=True))
        )

    def _divides(self, node: ast.Compare) -> Value | None:
        """Lower `x % y == 0`, which does not ask for the sign of the remainder."""
        of, to = node.left, node.comparators[0]
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            return None
        if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Mod):
            return None
        if not isinstance(to, ast.Constant) or type(to.value) is not int or to.value != 0:
            return None
        a, b = self.expression(of.left), self.expression(of.right)
        if a.is_known or {a.type, b.type} != {INT}:
            return self.comparison(node, node.ops[0], self.binary(of, of.op, a, b), constant(0))
        sign = "==" if isinstance(node.ops[0], ast.Eq) else "!="
        return Value(
            BOOL, (f"({self.checked(f'remainder_checked({a.scalars[0]}, {b.scalars[0]})')} {sign} 0)",)
        )

    def _chain(self, node: ast.Compare, left: Value, rest: list[tuple[ast.cmpop, ast.expr]]) -> Value:
        op, right = rest[0][0], self.expression(rest[0][1])
        first = self.comparison(node, op, left, right)
        if len(rest) == 1:
            return first
        if first.is_known:
            return self._chain(node, right, rest[1:]) if first.constant else first
        name = self.named("False")
        self.put(f"if {first.scalars[0]}:")
        with self.indented():
            self.put(f"{name} = {self._chain(node, right, rest[1:]).scalars[0]}")
        return Value(BOOL, (name,))

    # -- conditions ----------------------------------------------------------------------------------------------------

    def condition(self, node: ast.expr, *, as_value: bool = False) -> tuple[Value, Known, Known]:
        """Lower a condition; return it, and what is known of names where it holds, and where it does not.

        `as_value`: it is used as a value, and so must be a bool.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value, yes, no = self.condition(node.operand)
            if value.is_known:
                return constant(not value.constant), no, yes
            return Value(BOOL, (f"(not {value.scalars[0]})",)), no, yes
        if isinstance(node, ast.BoolOp):
            return self._joined_conditions(node, node.values, as_value=as_value)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Name):
            value, name = self.expression(node), node.left.id
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and not value.is_known:
                some, none = {name: inner(self.names[name])}, {name: NOTHING}
                return (value, none, some) if isinstance(node.ops[0], ast.Is) else (value, some, none)
            return value, {}, {}
        value = self.expression(node)
        if as_value and value.type != BOOL:
            raise Refused("`and` and `or` of values that are no bools give one of them: use `if`", node)
        return self.truth(value, node), {}, {}

    def _joined_conditions(
        self, node: ast.BoolOp, operands: list[ast.expr], *, as_value: bool
    ) -> tuple[Value, Known, Known]:
        """Lower `and` or `or`: later operands are computed only where they count, as they may deviate."""
        is_and = isinstance(node.op, ast.And)
        first, yes, no = self.condition(operands[0], as_value=as_value)
        if len(operands) == 1:
            return first, yes, no
        if first.is_known:
            if first.constant != is_and:
                return first, {}, {}
            return self._joined_conditions(node, operands[1:], as_value=as_value)
        name = self.named(repr(not is_and))
        self.put(f"if {first.scalars[0] if is_and else f'not {first.scalars[0]}'}:")
        with self.indented(), self.knowing(yes if is_and else no):
            rest, more_yes, more_no = self._joined_conditions(node, operands[1:], as_value=as_value)
            self.put(f"{name} = {rest.scalars[0]}")
        value = Value(BOOL, (name,))
        return (value, {**yes, **more_yes}, {}) if is_and else (value, {}, {**no, **more_no})

    def _boolop(self, node: ast.BoolOp) -> Value:
        """Lower `and` or `or` as a value, which is one of the operands: all must be bools."""
        return self._joined_conditions(node, node.values, as_value=True)[0]

    def _ifexp(self, node: ast.IfExp) -> Value:
        test, yes, no = self.condition(node.test)
        if test.is_known:
            with self.knowing(yes if test.constant else no):
                return self.expression(node.body if test.constant else node.orelse)
        ends = []
        for branch, known in ((node.body, yes), (node.orelse, no)):
            with self.apart() as lines, self.knowing(known):
                ends.append((self.expression(branch), lines))
        value = self.merged([end for end, _ in ends], [lines for _, lines in ends], node, "this")
        self.put_branches(test.scalars[0], [lines for _, lines in ends])
        return value

    # -- branches ------------------------------------------------------------------------------------------------------

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Write the lines of the block one step further in."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def knowing(self, known: Known) -> Iterator[None]:
        """In the block, know more of names."""
        before, self.names = self.names, {**self.names, **known}
        yield
        self.names = before

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Write the lines of the block, one step further in, to a list of their own."""
        before, lines = self.lines, list[str]()
        self.lines = lines
        with self.indented():
            yield lines
        self.lines = before

    def merged(self, ends: list[Value], branches: list[list[str]], node: ast.AST, what: str) -> Value:
        """Return the value that is one of two, and add to the branches what gives it its scalars."""
        if PYTHON in (ends[0].type, ends[1].type) and ends[0].constant is not ends[1].constant:
            raise Refused(f"{what} is one of two objects", node)
        if ends[0].is_same(ends[1]) or ends[1] == NEVER:
            return ends[0]
        if ends[0] == NEVER:
            return ends[1]
        of = joined(ends[0].type, ends[1].type, node, what=what)
        names = [self.fresh() for _ in scalars_of(of)]
        for end, lines in zip(ends, branches, strict=True):
            texts = as_type(end, of, node)
            lines += [
                "    " * (self.depth + 1) + f"{n} = {text}" for n, text in zip(names, texts, strict=True)
            ]
        return of_texts(of, names)

    def put_branches(self, test: str, branches: list[list[str]]) -> None:
        """Write an `if` with the lines of its two branches."""
        empty = ["    " * (self.depth + 1) + "pass"]
        self.put(f"if {test}:")
        self.lines += branches[0] or empty
        if branches[1]:
            self.put("else:")
            self.lines += branches[1]
