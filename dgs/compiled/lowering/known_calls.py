"""Lowering calls of Python's own functions: functions of numbers, classes of named tuples, and their `_replace`."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import BuiltinFunctionType
from typing import Any

from dgs.compiled.lowering.compared_texts import ComparedTexts
from dgs.compiled.lowering.loops_written_out import Given, each, text_of
from dgs.compiled.lowering.method_source import is_known
from dgs.compiled.lowering.value_types import (
    BOOL,
    FLOAT,
    INT,
    NUMBERS,
    PYTHON,
    TEXT,
    Refused,
    Type,
    defaults_of,
    is_frozen,
    is_named_tuple,
)
from dgs.compiled.lowering.values import NOTHING, Value, constant, tuple_value

WHOLE = {math.floor: "floor_of", math.ceil: "ceiling_of", math.trunc: "", int: "", round: "nearest_of"}
"""Functions that make an int of a number, and the operation that first finds the next whole float. Truncation needs none."""
TESTS = {math.isnan: "{0} != {0}", math.isinf: "magnitude({0}) == INFINITY", math.isfinite: "magnitude({0}) < INFINITY"}  # fmt: skip
"""Functions that test a float."""
WITH_DEFAULT = 2
"""The arguments of `get` with a default."""


class KnownCalls(ComparedTexts):
    """Lowers calls of builtins, of `math`, and of classes of named tuples."""

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_replace":
            return self._replaced(node, [node.func.value, *node.args], "tuple")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner = self.expression(node.func.value)
            if owner.origin == ("payload",) and isinstance(self._seen.payload, dict):
                return self._got_field(node, self._seen.payload)
        refused = Refused(f"a call of `{text_of(node.func)}` is not compiled", node)
        try:
            of = self.expression(node.func)
        except Refused:
            raise refused from None
        is_builtin = type(of.constant) is BuiltinFunctionType and len(node.args) == 1 and not node.keywords
        if is_builtin and isinstance(node.args[0], ast.GeneratorExp):
            return self._of_items(node, node.args[0], of.constant)
        if of.type != PYTHON or any(isinstance(one, ast.Starred) for one in node.args):
            raise refused
        if (made := self._made(node, of.constant)) is not None:
            return made
        values = [self.expression(argument) for argument in node.args]
        is_plain = type(of.constant) in (BuiltinFunctionType, type) and not node.keywords
        found = self._of_function(node, of.constant, values) if is_plain and values else None
        if found is None:
            raise refused
        return found

    def _made(self, node: ast.Call, of: Any) -> Value | None:
        """Return the object that a class of named tuples or frozen dataclasses makes, or that `replace` makes; None for anything else."""
        if is_named_tuple(of) or is_frozen(of):
            return self._of_fields(node, of)
        return self._replaced(node, node.args, "fields") if of is dataclasses.replace else None

    def _of_function(self, node: ast.Call, of: Callable[..., Any], values: list[Value]) -> Value | None:
        """Return the result of a function for some values; None if the function is not compiled."""
        first, *others = values
        if of in (min, max, sum) and not others and first.type.name == "tuple" and first.parts:
            first, *others = first.parts
            if of is sum:
                return self._sum(node, [first, *others])
            if not others:
                return first
        if of in (min, max) and others:
            return self._extreme(node, [first, *others], ">" if of is builtins.max else "<")
        if of is divmod and len(others) == 1:
            parts = [self.binary(node, op, first, others[0]) for op in (ast.FloorDiv(), ast.Mod())]
            return tuple_value(parts)
        return None if others else self._of_one(node, of, first)

    def _of_one(self, node: ast.Call, of: Callable[..., Any], value: Value) -> Value | None:
        """Return the result of a function for one value; None if the function is not compiled."""
        if of is len and value.type.name == "tuple":
            return constant(len(value.parts))
        if of is bool:
            return self.truth(value, node)
        if of in WHOLE:
            return self._whole(self.number(value, node), WHOLE[of])
        if of is abs:
            return self._absolute(self.number(value, node))
        return self._of_float(node, of, value) if of in (*TESTS, float, math.fabs, math.sqrt) else None

    def _of_float(self, node: ast.Call, of: Callable[..., Any], value: Value) -> Value:
        """Return the result of a function for one value, which it takes as a float."""
        if of is float and value.is_known and value.type == TEXT:
            return constant(_read(value.constant), node)
        text = self.named(self.as_float(self.number(value, node), exactly=False))
        if of in TESTS:
            return Value(BOOL, (self.named(TESTS[of].format(text)),))
        if of is math.sqrt:
            return Value(FLOAT, (self.checked(f"root_checked({text})"),))
        return Value(FLOAT, (text if of is float else self.named(f"magnitude({text})"),))

    def _sum(self, node: ast.AST, values: list[Value]) -> Value:
        values = [self.some(value) for value in values]
        if any(value.type not in (INT, BOOL) for value in values):
            raise Refused(
                "sum is compiled for ints: how it adds floats depends on the version of Python", node
            )
        return reduce(lambda one, other: self.binary(node, ast.Add(), one, other), values, constant(0))

    def _whole(self, value: Value, operation: str) -> Value:
        if value.type == INT:
            return value
        (text,) = value.scalars
        return Value(INT, (self.checked(f"whole_checked({f'{operation}({text})' if operation else text})"),))

    def _of_items(self, node: ast.Call, given: ast.GeneratorExp, of: Callable[..., Any]) -> Value:
        """Return the result of a function for a generator expression. `any` and `all` stop when their value is certain."""
        if of not in (any, all):  # these take all items
            found = self._of_function(node, of, [tuple_value(self.items(given))])
            if found is None:
                raise Refused(f"`{text_of(node)}` is not compiled", node)
            return found
        items = self.items(given.generators[0].iter)
        tests = each(given, [Given(value, given) for value in items])
        if not tests:
            return constant(of is all)
        op = ast.Or() if of is any else ast.And()
        return self.condition(ast.copy_location(ast.BoolOp(op, tests), node))[0]

    def _got_field(self, node: ast.Call, fields: Mapping[str, Type]) -> Value:
        """Lower `event.payload.get(name)`: every payload of a batch has the same names."""
        values = [self.expression(argument) for argument in node.args]
        if node.keywords or not values or values[0].type != TEXT or len(values) > WITH_DEFAULT:
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        if values[0].constant in fields:
            return self._field(node, values[0].constant)
        return values[1] if len(values) > 1 else NOTHING

    def _of_fields(self, node: ast.Call, of: Any) -> Value:
        """Lower a call of the class of named tuples, or of frozen dataclasses."""
        defaults = defaults_of(of)
        given = {name: self.expression(one) for name, one in zip(defaults, node.args, strict=False)}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in given:
                raise Refused(f"`{text_of(node)}` is not compiled", node)
            given[keyword.arg] = self.expression(keyword.value)
        for name, value in defaults.items():
            if name not in given and is_known(value):
                given[name] = constant(value, node)
        if len(node.args) > len(defaults) or given.keys() != defaults.keys():
            raise Refused(f"`{text_of(node)}` does not give each field of {of.__name__} once", node)
        return tuple_value([given[name] for name in defaults], of)

    def _replaced(self, node: ast.Call, given: Sequence[ast.expr], kind: str) -> Value:
        """Lower `_replace` of a named tuple, or `dataclasses.replace`. `given`: the only argument. `kind`: the name of the type that has it."""
        if len(given) != 1:
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        before = self.expression(given[0])
        new = {one.arg: self.expression(one.value) for one in node.keywords}
        if before.type.of is None or before.type.name != kind or not new.keys() <= set(before.type.names):
            raise Refused(f"`{text_of(node)}` is not compiled", node)
        pairs = zip(before.type.names, before.parts, strict=True)
        return tuple_value([new.get(name, part) for name, part in pairs], before.type.of)

    def _extreme(self, node: ast.AST, values: list[Value], sign: str) -> Value:
        """Lower `min` or `max`: the first value unless a later one is strictly better, also for NaN and -0.0."""
        best, *others = map(self.some, values)
        for value in others:
            if best.type != value.type or value.type not in NUMBERS:
                raise Refused("min and max are compiled for numbers of one type", node)
            kept, other = best.scalars[0], value.scalars[0]
            best = Value(best.type, (self.named(f"{other} if {other} {sign} {kept} else {kept}"),))
        return best

    def _absolute(self, value: Value) -> Value:
        (text,) = value.scalars
        if value.type == FLOAT:
            return Value(FLOAT, (self.named(f"magnitude({text})"),))
        minus = self.checked(f"subtract_checked(i64(0), {text})")
        return Value(INT, (self.named(f"{text} if {text} >= 0 else {minus}"),))


def _read(text: str) -> float:
    """Return the float of a text such as "inf". Raises Refused."""
    try:
        return float(text)
    except ValueError:
        raise Refused(f"float({text!r}) raises") from None
