"""Lowering arithmetic: operations of Python's numbers on scalars of 64 bits, each with a test for cases in which Python does something else.

A test that succeeds is a *deviation*: the loop stops before the event, and the interpreter processes it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from dgs.compiled.lowering.value_types import BOOL, FLOAT, INT, NONE, NUMBERS, PYTHON, TEXT, Refused, Type
from dgs.compiled.lowering.values import Value, constant, inner, tuple_value

FOLDED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
"""Operations on constants, done by Python itself."""

LARGE, BITS = (ast.Pow, ast.LShift), 64
"""Operations that make large numbers of small ones, and the largest exponent or shift in bits for which they are done."""

CHECKED = {
    ast.Add: "add_checked",
    ast.Sub: "subtract_checked",
    ast.Mult: "multiply_checked",
    ast.FloorDiv: "floor_divide_checked",
    ast.Mod: "modulo_checked",
    ast.LShift: "shift_left_checked",
    ast.RShift: "shift_right_checked",
}
FLOATS_CHECKED = {
    ast.Div: "divide_checked",
    ast.FloorDiv: "float_floor_divide_checked",
    ast.Mod: "float_modulo_checked",
}
BITWISE = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
OF_FLOATS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
EXACT = 2**53
"""Up to here every int is exactly a float."""
MOST_FACTORS = 8
"""Up to this exponent a power of an int is a product."""


class Arithmetic:
    """Writes the lines of one event, and lowers operations on numbers. `depth`: how far lines are indented."""

    def __init__(self, depth: int, prefix: str) -> None:
        self.lines: list[str] = []
        self.depth = depth
        self._prefix, self._count = prefix, 0

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def named(self, text: str) -> str:
        """Write an assignment of an expression to a new name; return the name."""
        name = self.fresh()
        self.put(f"{name} = {text}")
        return name

    def deviate(self, test: str) -> None:
        """Write the lines that leave the event to the interpreter if a test holds."""
        self.put(f"if {test}:")
        self.put("    deviates = True")
        self.put("    at = i")
        self.put("    break")

    def checked(self, call: str) -> str:
        """Write a call that returns a number and whether to deviate; return the name of the number."""
        name, test = self.fresh(), self.fresh()
        self.put(f"{name}, {test} = {call}")
        self.deviate(test)
        return name

    def folded(self, op: ast.AST, *values: Value) -> Value | None:
        """Return an operation on constants as a constant. None unless they are known and Python raises nothing."""
        if type(op) not in FOLDED or not all(value.is_known for value in values):
            return None
        if not all(value.type in (*NUMBERS, TEXT, NONE) for value in values):
            return None
        if isinstance(op, LARGE) and not (values[1].type in NUMBERS and abs(values[1].constant) <= BITS):
            return None
        try:
            return constant(FOLDED[type(op)](*(value.constant for value in values)))
        except (ArithmeticError, TypeError, ValueError, Refused):
            return None

    def some(self, value: Value) -> Value:
        """Return a number that may be None as a plain number; deviate if it is None, where Python raises TypeError."""
        if not value.type.is_optional or value.type.parts[0] not in NUMBERS:
            return value
        self.deviate(f"not {value.scalars[0]}")
        return inner(value)

    def number(self, value: Value, node: ast.AST) -> Value:
        """Return a number as an operand: a bool counts as an int."""
        value = self.some(value)
        if value.type == BOOL:
            return Value(INT, (f"i64({value.scalars[0]})",))
        if value.type in (INT, FLOAT):
            return value
        advice = ": test it for None first" if value.type.is_optional else ""
        raise Refused(f"arithmetic on {value.type!r} is not compiled{advice}", node)

    def as_float(self, value: Value, *, exactly: bool) -> str:
        """Return a number as a float. `exactly`: deviate where an int is too large to be a float."""
        (text,) = value.scalars
        if value.type == FLOAT:
            return text
        if exactly and not (value.is_known and abs(value.constant) <= EXACT):
            return self.checked(f"exact_float({text})")
        return f"float({text})"

    def binary(self, node: ast.AST, op: ast.operator, one: Value, other: Value) -> Value:
        """Lower an operation on two values."""
        if (known := self.folded(op, one, other)) is not None:
            return known
        one, other = self.some(one), self.some(other)
        if type(op) in BITWISE and one.type == other.type == BOOL:
            return Value(BOOL, (self.named(f"{one.scalars[0]} {BITWISE[type(op)]} {other.scalars[0]}"),))
        if isinstance(op, ast.Add) and one.type.name == other.type.name == "tuple":
            return tuple_value([*one.parts, *other.parts])
        a, b = self.number(one, node), self.number(other, node)
        if a.type == b.type == INT:
            return self._of_ints(node, op, a, b)
        if type(op) in OF_FLOATS:
            left, right = (self.as_float(value, exactly=False) for value in (a, b))
            return Value(FLOAT, (self.named(f"{left} {OF_FLOATS[type(op)]} {right}"),))
        if type(op) in FLOATS_CHECKED:
            left, right = (self.as_float(value, exactly=False) for value in (a, b))
            return Value(FLOAT, (self.checked(f"{FLOATS_CHECKED[type(op)]}({left}, {right})"),))
        advice = ": its last digit depends on the machine, that of products and `math.sqrt` does not"
        advice = advice if isinstance(op, ast.Pow) else ""
        raise Refused(f"`{ast.unparse(node)}` of {a.type!r} and {b.type!r} is not compiled{advice}", node)

    def _of_ints(self, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
        if type(op) in CHECKED:
            return Value(INT, (self.checked(f"{CHECKED[type(op)]}({a.scalars[0]}, {b.scalars[0]})"),))
        if type(op) in BITWISE:
            return Value(INT, (self.named(f"{a.scalars[0]} {BITWISE[type(op)]} {b.scalars[0]}"),))
        if isinstance(op, ast.Div):
            left, right = (self.as_float(value, exactly=True) for value in (a, b))
            return Value(FLOAT, (self.checked(f"divide_checked({left}, {right})"),))
        if isinstance(op, ast.Pow) and b.is_known and 0 <= b.constant <= MOST_FACTORS:
            return reduce(
                lambda one, _: self._of_ints(node, ast.Mult(), one, a), range(b.constant), constant(1)
            )
        raise Refused(f"`{ast.unparse(node)}` is not compiled", node)

    def unary(self, node: ast.AST, op: ast.unaryop, value: Value) -> Value:
        """Lower a sign."""
        if (known := self.folded(op, value)) is not None:
            return known
        a = self.number(value, node)
        (text,) = a.scalars
        if isinstance(op, ast.UAdd):
            return Value(a.type, (text,))
        if isinstance(op, ast.USub):
            if a.type == INT:
                return Value(INT, (self.checked(f"subtract_checked(i64(0), {text})"),))
            return Value(FLOAT, (self.named(f"negated({text})"),))
        if isinstance(op, ast.Invert) and a.type == INT:
            return Value(INT, (self.named(f"{text} ^ i64(-1)"),))
        raise Refused(f"`{ast.unparse(node)}` of {a.type!r} is not compiled", node)

    def comparison(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower a comparison of two values."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self._identity(node, op, left, right)
        if isinstance(op, (ast.In, ast.NotIn)):
            # otherwise an object's own equality would decide
            is_plain = left.is_known and left.type != PYTHON
            if is_plain and right.is_known and right.type.name == "tuple":
                return constant((left.constant in right.constant) == isinstance(op, ast.In))
            if (
                right.type.name == "tuple"
                and right.parts
                and all(_present(one.type) in (INT, BOOL, NONE) for one in (left, *right.parts))
            ):
                return self._in_ints(node, left, right.parts, is_positive=isinstance(op, ast.In))
            raise Refused("`in` is compiled for constants, and for ints in a tuple of ints", node)
        if (known := self.folded(op, left, right)) is not None:
            return known
        if isinstance(op, (ast.Eq, ast.NotEq)) and any(map(_may_be_none, (left.type, right.type))):
            return self._equality(node, op, left, right)
        return self._ordered(node, op, left, right)

    def _ordered(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower a comparison of numbers."""
        a, b = self.number(left, node), self.number(right, node)
        sign = COMPARED[type(op)]
        if a.type == b.type:
            return Value(BOOL, (f"({a.scalars[0]} {sign} {b.scalars[0]})",))
        one, other = (self.as_float(value, exactly=True) for value in (a, b))
        return Value(BOOL, (f"({one} {sign} {other})",))

    def _equality(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower `==` or `!=` of values that may be None, which is equal to None only."""
        there = [value.scalars[0] for value in (left, right) if value.type.is_optional]
        if NONE in (left.type, right.type) and (there or {left.type, right.type} & {*NUMBERS}):
            equal = f"(not {there[0]})" if there else "False"
        else:
            numbers = (inner(value) if value.type.is_optional else value for value in (left, right))
            equal = f"({' and '.join([*there, self._ordered(node, ast.Eq(), *numbers).scalars[0]])})"
            if left.type.is_optional and right.type.is_optional:
                equal = f"({equal} or not ({' or '.join(there)}))"
        return Value(BOOL, (equal if isinstance(op, ast.Eq) else f"(not {equal})",))

    def _in_ints(self, node: ast.AST, value: Value, parts: Sequence[Value], *, is_positive: bool) -> Value:
        tests = [self.comparison(node, ast.Eq(), part, value) for part in parts]
        found = " or ".join(test.scalars[0] for test in tests)
        return Value(BOOL, (f"({found})" if is_positive else f"(not ({found}))",))

    def _identity(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        is_positive = isinstance(op, ast.Is)
        if left.type == NONE:
            left, right = right, left
        if right.type != NONE:
            raise Refused("`is` is compiled for None only", node)
        if left.type.is_optional:
            return Value(BOOL, (f"(not {left.scalars[0]})" if is_positive else left.scalars[0],))
        if (
            left.type == NONE
            or left.type in NUMBERS
            or left.type.name in ("tuple", "fields", "record", "text")
        ):
            return constant((left.type == NONE) == is_positive)
        raise Refused(f"whether {left.type!r} is None is not known here", node)

    def truth(self, value: Value, node: ast.AST) -> Value:
        """Return whether a value counts as true."""
        if value.is_known and value.type in (*NUMBERS, NONE, TEXT):
            return constant(bool(value.constant))
        if value.type == BOOL:
            return value
        if value.type in (INT, FLOAT):
            return Value(BOOL, (f"({value.scalars[0]} != 0)",))
        if value.type.is_optional:
            return Value(BOOL, (f"({value.scalars[0]} and {self.truth(inner(value), node).scalars[0]})",))
        if value.type.name in ("tuple", "fields"):
            return constant(value.type.name == "fields" or bool(value.parts))
        raise Refused(f"the truth of {value.type!r} is not compiled", node)


def _may_be_none(of: Type) -> bool:
    return of == NONE or of.is_optional


def _present(of: Type) -> Type:
    """Return the type that an optional type has if the value is not None."""
    return of.parts[0] if of.is_optional else of
