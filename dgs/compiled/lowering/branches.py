"""Lowering branches: their lines, what is known about names in them, and values that depend on the branch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from dgs.compiled.lowering.arithmetic import Arithmetic
from dgs.compiled.lowering.value_types import PYTHON, Refused, joined, scalars_of
from dgs.compiled.lowering.values import NEVER, Value, as_type, of_texts

Known = dict[str, Value]
"""The facts about names that hold with a condition."""


class Branches(Arithmetic):
    """Writes branches. `names`: the values of the names of the update here."""

    def __init__(self, depth: int, prefix: str) -> None:
        super().__init__(depth, prefix)
        self.names: Known = {}
        self._uncertain = 0  # the number of enclosing expressions that are not always computed

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Write the lines of the block one step further in."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def knowing(self, known: Known) -> Iterator[None]:
        """Inside this context, know more about names."""
        before, self.names = self.names, {**self.names, **known}
        self._uncertain += 1
        yield
        self.names = before
        self._uncertain -= 1

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Write the lines of the block, one step further in, to a separate list."""
        before, lines = self.lines, list[str]()
        self.lines = lines
        with self.indented():
            yield lines
        self.lines = before

    def merged(self, ends: list[Value], branches: list[list[str]], node: ast.AST, what: str) -> Value:
        """Return the value that depends on the branch taken, and add the assignments of its scalars to the branches."""
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


def is_test(node: ast.expr) -> bool:
    """Return whether an expression certainly gives a bool."""
    if isinstance(node, ast.BoolOp):
        return all(map(is_test, node.values))
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
