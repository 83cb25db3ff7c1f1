"""Lowering expressions: names, attributes of the event, conditions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dgs.compiled.lowering.branches import Branches, Known, is_test
from dgs.compiled.lowering.loops_written_out import (
    INSTEAD,
    MOST_ROUNDS,
    Given,
    branches_of,
    each,
    rounds_of,
    text_of,
)
from dgs.compiled.lowering.method_source import MISSING, Surroundings, is_known
from dgs.compiled.lowering.value_types import (
    BOOL,
    EVENT,
    INT,
    KEY,
    NONE,
    NUMBERS,
    OBJECT,
    PROGRAM,
    PYTHON,
    TAG,
    TEXT,
    ReadsStream,
    Refused,
    Type,
    has_form,
)
from dgs.compiled.lowering.values import NOTHING, Value, constant, inner, of_texts, record_value, tuple_value

PATHS = (ast.Name, ast.Attribute)
"""Expressions about which a condition may tell more."""
Payload = Type | dict[str, Type] | None
"""The type of a column of payloads, types of named columns, or None without payloads."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts about all events of a kind in a lane. `stream`: None if the update does not read it. `has_key`: whether the tags have a key."""

    kind: str
    stream: str | None
    payload: Payload
    has_key: bool


class Expressions(Branches):
    """Lowers the expressions of an update for events of one kind. `locals`: the names that are the update's own."""

    def __init__(
        self, seen: Seen, surroundings: Surroundings, local_names: frozenset[str], depth: int, prefix: str
    ) -> None:
        super().__init__(depth, prefix)
        self._seen, self._surroundings, self._locals = seen, surroundings, local_names
        self._fixed: Known = {}

    def expression(self, node: ast.expr) -> Value:
        """Lower an expression."""
        lower = getattr(self, f"_{type(node).__name__.lower()}", None)
        if lower is None:
            raise Refused(f"`{text_of(node)}` is not compiled{INSTEAD.get(type(node), '')}", node)
        value: Value = lower(node)
        return value

    # -- names and attributes ------------------------------------------------------------------------------------------

    def _given(self, node: Given) -> Value:
        value: Value = node.value
        return value

    def _kept(self, value: Value) -> Value:
        """Return a value whose text is a name, so that it is computed once."""
        if value.is_known or value.origin is not None or not has_form(value.type):
            return value
        return of_texts(
            value.type, [text if text.isidentifier() else self.named(text) for text in value.flat]
        )

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        """Lower `(name := value)`, which must always be computed."""
        if self._uncertain or node.target.id in self._fixed:
            raise Refused(f"`{text_of(node)}` is not compiled here: it may not be computed", node)
        self.names[node.target.id] = value = self._kept(self.expression(node.value))
        return value

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
            advice = ": make it a tuple" if isinstance(found, (list, set, frozenset)) else ""
            raise Refused(f"`{node.id}` is a {type(found).__name__}, which is not compiled{advice}", node)
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
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        try:
            if of.type == PROGRAM:
                return self._known(self._surroundings.of_program(node.attr), node, of)
            if of.type == PYTHON:
                return self._known(self._surroundings.attribute(of.constant, node.attr), node, of)
        except Refused as refused:
            raise Refused(refused.refusal.why, node) from None
        if of.type.of is not None and node.attr in of.type.names:
            return of.parts[of.type.names.index(node.attr)]
        raise Refused(f"`{text_of(node)}` is not compiled", node)

    def _known(self, value: Any, node: ast.AST, owner: Value = NOTHING) -> Value:  # noqa: ARG002 - properties ask for it
        """Return an attribute of the program, a module or a plain object. Of an object that is not a constant, only attributes are used."""
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
        raise Refused(f"`{text_of(node)}` is not compiled", node)

    def _payload(self) -> Value:
        of = self._seen.payload
        if of is None:
            return NOTHING
        if isinstance(of, dict):
            return Value(OBJECT, origin=("payload",))
        return self._of_column("payload", of, ("payload",))

    def _of_column(self, name: str, of: Type, origin: tuple[str, ...]) -> Value:
        """Return the value of an event in a column of payloads."""
        if of == NONE:
            return NOTHING
        texts = (f"{name}_here",) if of in NUMBERS or of.is_optional else ()
        return Value(of, (f"{name}_there_here", *texts) if of.is_optional else texts, origin=origin)

    def _subscript(self, node: ast.Subscript) -> Value:
        of = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, node.slice, of)
        at = self.expression(node.slice)
        if of.origin == ("payload",) and isinstance(self._seen.payload, dict) and at.type == TEXT:
            return self._field(node, at.constant)
        count = len(of.parts)
        if of.type.name == "tuple" and at.type == INT and at.is_known and -count <= at.constant < count:
            return of.parts[int(at.constant)]
        raise Refused(f"`{text_of(node)}` is not compiled", node)

    def _slice(self, node: ast.AST, of: ast.Slice, value: Value) -> Value:
        """Lower a slice of a tuple, with constants."""
        bounds = [NOTHING if one is None else self.expression(one) for one in (of.lower, of.upper, of.step)]
        if value.type.name != "tuple" or not all(one.is_known and one.type in (INT, NONE) for one in bounds):
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        if bounds[2].constant == 0:
            raise Refused("a slice whose step is 0 is not compiled", node)
        return tuple_value(value.parts[slice(*(one.constant for one in bounds))])

    def _field(self, node: ast.AST, name: str) -> Value:
        fields = self._seen.payload
        if not isinstance(fields, dict) or name not in fields:
            raise Refused(f"the payloads have no column {name!r}", node)
        return self._of_column(f"field{list(fields).index(name)}", fields[name], ("field", name))

    # -- composed values -----------------------------------------------------------------------------------------------

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = [one for part in node.elts for one in self._elements(part)]
        value = tuple_value(parts)
        if all(part.is_known and part.type != PYTHON for part in parts):
            return replace(value, constant=tuple(part.constant for part in parts))
        return value

    def _elements(self, node: ast.expr) -> Sequence[Value]:
        """Return the values of an element of a tuple: several if it is `*of`."""
        if not isinstance(node, ast.Starred):
            return (self.expression(node),)
        value = self.expression(node.value)
        if value.type.name != "tuple":
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        return value.parts

    def _dict(self, node: ast.Dict) -> Value:
        found: dict[str, Value] = {}
        for key, of in zip(node.keys, node.values, strict=True):
            value = self.expression(of)
            if key is None and value.type.name == "record":
                found |= dict(zip(value.type.names, value.parts, strict=True))
            elif key is None and value.origin == ("payload",) and isinstance(self._seen.payload, dict):
                found |= {name: self._field(of, name) for name in self._seen.payload}
            elif isinstance(key, ast.Constant) and type(key.value) is str:
                found[key.value] = value
            else:
                raise Refused("a dict that is emitted or kept needs constant texts as keys", node)
        if not found:
            raise Refused("an empty dict is not compiled", node)
        return record_value(list(found), list(found.values()))

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
        with self.indented(), self.knowing({}):
            self.put(f"{name} = {self._chain(node, right, rest[1:]).scalars[0]}")
        return Value(BOOL, (name,))

    # -- items of loops ------------------------------------------------------------------------------------------------

    def items(self, node: ast.expr) -> list[Value]:
        """Return the items of a loop or of a generator expression. Raises Refused if their number is not known."""
        if isinstance(node, ast.GeneratorExp):
            given = [Given(value, node) for value in self.items(node.generators[0].iter)]
            return [self._kept(self.expression(one)) for one in each(node, given)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            of = self._name(node.func).constant
            if of is range:
                return self._numbers(node)
            if of is reversed and len(node.args) == 1:
                return self.items(node.args[0])[::-1]
            if of is zip or (of is enumerate and len(node.args) == 1):
                parts = [self.items(one) for one in node.args]
                if of is enumerate:
                    parts = [[constant(number) for number in range(len(parts[0]))], *parts]
                return [tuple_value(pair) for pair in zip(*parts, strict=False)]
        value = self._kept(self.expression(node))
        if value.type.name != "tuple":
            raise Refused(f"a loop over `{text_of(node)}` is not compiled: its length is not known", node)
        return list(value.parts)

    def _numbers(self, node: ast.Call) -> list[Value]:
        """Return the numbers of a range."""
        bounds = [self.expression(one) for one in node.args]
        try:
            if all(one.is_known and one.type == INT for one in bounds):
                return [constant(one) for one in range(*(one.constant for one in bounds))[: MOST_ROUNDS + 1]]
        except (TypeError, ValueError):  # for example a step of 0, for which the interpreter raises
            pass
        raise Refused(f"`{text_of(node)}` is not compiled: its bounds are not known", node)

    def _written_out(self, node: ast.For | ast.Match) -> list[ast.stmt]:
        """Return a loop or a `match` as simpler statements."""
        if isinstance(node, ast.Match):
            return branches_of(node, Given(self._kept(self.expression(node.subject)), node))
        return rounds_of(node, [Given(value, node) for value in self.items(node.iter)])

    # -- conditions ----------------------------------------------------------------------------------------------------

    def condition(self, node: ast.expr, *, as_value: bool = False) -> tuple[Value, Known, Known]:
        """Lower a condition; return it, and what is known about names if it holds, and if it does not.

        `as_value`: it is used as a value, so it must be a bool.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value, yes, no = self.condition(node.operand)
            if value.is_known:
                return constant(not value.constant), no, yes
            return Value(BOOL, (f"(not {value.scalars[0]})",)), no, yes
        if isinstance(node, ast.BoolOp):
            return self._joined_conditions(node, node.values, as_value=as_value)
        value = self.expression(node)
        if isinstance(node, ast.Compare):
            return value, *self._known_after(node, value)
        if as_value and value.type != BOOL:
            raise Refused("`and` and `or` of values that are no bools give one of them: use `if`", node)
        known = self._narrowed(node, inner(value)) if value.type.is_optional else {}
        return self.truth(value, node), known, {}

    def _known_after(self, node: ast.Compare, value: Value) -> tuple[Known, Known]:
        """Return what is known about names if a comparison holds, and if it does not: whether something is None."""
        is_one = len(node.ops) == 1 and isinstance(node.left, PATHS) and not value.is_known
        if not is_one or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return {}, {}
        of = self.expression(node.left)
        if not of.type.is_optional:
            return {}, {}
        some, none = self._narrowed(node.left, inner(of)), self._narrowed(node.left, NOTHING)
        return (none, some) if isinstance(node.ops[0], ast.Is) else (some, none)

    def _narrowed(self, node: ast.expr, value: Value) -> Known:
        """Return what is known about names if an expression (a name, or a part of a named tuple) has this value."""
        if isinstance(node, ast.Name) and node.id in self.names:
            return {node.id: value}
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, PATHS):
            return {}
        whole = self.expression(node.value)
        if whole.type.of is None or node.attr not in whole.type.names:
            return {}
        pairs = zip(whole.type.names, whole.parts, strict=True)
        parts = [value if name == node.attr else part for name, part in pairs]
        return self._narrowed(node.value, tuple_value(parts, whole.type.of))

    def _joined_conditions(
        self, node: ast.BoolOp, operands: list[ast.expr], *, as_value: bool
    ) -> tuple[Value, Known, Known]:
        """Lower `and` or `or`: later operands are computed only if they count, since they may deviate."""
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
        if all(map(is_test, node.values)):
            return self._joined_conditions(node, node.values, as_value=True)[0]
        first, *others = node.values
        if not isinstance(first, ast.Name):
            first = Given(self._kept(self.expression(first)), first)
        rest = ast.copy_location(ast.BoolOp(node.op, others), node) if len(others) > 1 else others[0]
        ways = (rest, first) if isinstance(node.op, ast.And) else (first, rest)
        return self._ifexp(ast.copy_location(ast.IfExp(first, *ways), node))

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
