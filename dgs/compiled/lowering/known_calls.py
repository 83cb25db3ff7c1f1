"""Lowering calls of what Python brings along: `min`, `max`, `abs`, `float`, `bool`, classes of named tuples, and their `_replace`."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from dgs.compiled.lowering.expressions import Expressions
from dgs.compiled.lowering.method_source import is_known
from dgs.compiled.lowering.value_types import FLOAT, INT, NUMBERS, PYTHON, Refused, is_named_tuple
from dgs.compiled.lowering.values import Value, constant, tuple_value


class KnownCalls(Expressions):
    """Lowers calls of builtins and of classes of named tuples."""

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_replace":
            return self._replaced(node, self.expression(node.func.value))
        name = ast.unparse(node.func)
        try:
            of = self.expression(node.func)
        except Refused:
            raise Refused(f"a call of `{name}` is not compiled", node) from None
        if of.type != PYTHON or any(isinstance(one, ast.Starred) for one in node.args):
            raise Refused(f"a call of `{name}` is not compiled", node)
        if is_named_tuple(of.constant):
            return self._named_tuple(node, of.constant)
        values = [self.expression(argument) for argument in node.args]
        if not node.keywords:
            if of.constant in (builtins.min, builtins.max) and len(values) > 1:
                return self._extreme(node, values, ">" if of.constant is builtins.max else "<")
            if of.constant is builtins.abs and len(values) == 1:
                return self._absolute(self.number(values[0], node))
            if of.constant is builtins.float and len(values) == 1:
                number = self.number(values[0], node)
                return Value(FLOAT, (self.named(self.as_float(number, exactly=False)),))
            if of.constant is builtins.bool and len(values) == 1:
                return self.truth(values[0], node)
        raise Refused(f"a call of `{name}` is not compiled", node)

    def _named_tuple(self, node: ast.Call, of: Any) -> Value:
        given = {name: self.expression(one) for name, one in zip(of._fields, node.args, strict=False)}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in given:
                raise Refused(f"`{ast.unparse(node)}` is not compiled", node)
            given[keyword.arg] = self.expression(keyword.value)
        for name, value in of._field_defaults.items():
            if name not in given and is_known(value):
                given[name] = constant(value, node)
        if len(node.args) > len(of._fields) or given.keys() != set(of._fields):
            raise Refused(f"`{ast.unparse(node)}` does not give each field of {of.__name__} once", node)
        return tuple_value([given[name] for name in of._fields], of)

    def _replaced(self, node: ast.Call, before: Value) -> Value:
        """Lower `_replace` of a named tuple."""
        new = {one.arg: self.expression(one.value) for one in node.keywords}
        if before.type.of is None or node.args or not new.keys() <= set(before.type.names):
            raise Refused(f"`{ast.unparse(node)}` is not compiled", node)
        pairs = zip(before.type.names, before.parts, strict=True)
        return tuple_value([new.get(name, part) for name, part in pairs], before.type.of)

    def _extreme(self, node: ast.AST, values: list[Value], sign: str) -> Value:
        """Lower `min` or `max`: the first value unless a later one is strictly better, also for NaN and -0.0."""
        best = values[0]
        for value in values[1:]:
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
