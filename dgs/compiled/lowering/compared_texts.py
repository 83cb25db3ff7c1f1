"""Lowering comparisons of texts of the payload, and of the key of a tag, with constants: each is a column of bools, made before the loop.

>>> test_of(("field", "sky"), "clear"), test_of(("key",), 1) == test_of(("key",), True)
(Test(origin=('field', 'sky'), type='str', wanted='clear'), False)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

from dgs.compiled.lowering.expressions import Expressions
from dgs.compiled.lowering.value_types import BOOL, KEY, NONE, NUMBERS, TEXT, TEXTS
from dgs.compiled.lowering.values import Value, constant


class Test(NamedTuple):
    """The test whether an input is equal to a constant. `origin`: the place of the input. `type`: the constant's type, since 1 == True."""

    origin: tuple[str, ...]
    type: str
    wanted: Any


def test_of(origin: tuple[str, ...], wanted: Any) -> Test:
    """Return the test for a constant."""
    return Test(origin, type(wanted).__name__, wanted)


class ComparedTexts(Expressions):
    """Lowers comparisons with constants. `_tests`: those of the loop so far."""

    _tests: list[Test]

    def comparison(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower a comparison of two values."""
        if _is_compared(right) and isinstance(op, (ast.Eq, ast.NotEq)):
            left, right = right, left
        if not _is_compared(left) or not right.is_known:
            return super().comparison(node, op, left, right)
        is_none = isinstance(op, (ast.Is, ast.IsNot)) and right.type == NONE
        if is_none and left.type == KEY:
            return constant(isinstance(op, ast.IsNot))
        is_plain = right.type in (*NUMBERS, TEXT, NONE)
        if is_none or (is_plain and isinstance(op, (ast.Eq, ast.NotEq))):
            return self._one_of(left, [right], is_positive=isinstance(op, (ast.Eq, ast.Is)))
        are_plain = right.parts and all(part.type in (*NUMBERS, TEXT, NONE) for part in right.parts)
        if are_plain and isinstance(op, (ast.In, ast.NotIn)):
            return self._one_of(left, right.parts, is_positive=isinstance(op, ast.In))
        return super().comparison(node, op, left, right)

    def _one_of(self, value: Value, wanted: Sequence[Value], *, is_positive: bool) -> Value:
        """Return whether a value is equal to one of some constants (or if not `is_positive`, to none)."""
        tests = [test_of(value.origin or (), one.constant) for one in wanted]
        self._tests += [test for test in dict.fromkeys(tests) if test not in self._tests]
        found = " or ".join(f"test{self._tests.index(test)}_here" for test in tests)
        return Value(BOOL, (f"({found})" if is_positive else f"(not ({found}))",))


def _is_compared(value: Value) -> bool:
    return value.type in (TEXTS, KEY) and value.origin is not None
