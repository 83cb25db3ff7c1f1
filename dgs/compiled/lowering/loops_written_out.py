"""Loops and `match` written out as simpler statements: a loop over a tuple as its rounds, one after the other, `match` as `if`.

The body of a round follows the assignment of its item. The code after a `continue` or `break` goes into the branches that do not reach it.

>>> (tree,) = ast.parse("for n in pair: x += n").body
>>> [ast.unparse(ast.fix_missing_locations(one)) for one in rounds_of(tree, [ast.Name("a"), ast.Name("b")])]
['n = a', 'x += n', 'n = b', 'x += n']
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from dgs.compiled.lowering.value_types import Refused

MOST_ROUNDS = 32
"""Loops with more rounds are not written out."""

INSTEAD: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.List, ast.Set, ast.ListComp, ast.SetComp), ": write a tuple"),
    ast.JoinedStr: ": emit the parts of the text, as in (1, x)",
    ast.Lambda: ": write a method",
}
"""Advice on what to write in place of expressions."""


class Given(ast.expr):
    """An expression whose value is already known. `text`: its source, for sentences about expressions that contain it."""

    _fields = ()

    def __init__(self, value: Any, at: ast.AST) -> None:
        super().__init__()
        self.value, self.text = value, text_of(_name_of(at))
        ast.copy_location(self, at)


def text_of(node: ast.AST) -> str:
    """Return an expression as its author wrote it."""
    return ast.unparse(ast.fix_missing_locations(_spelled(node)))


def _spelled(node: Any) -> Any:
    if isinstance(node, Given):
        return ast.Name(node.text)
    if isinstance(node, list):
        return [_spelled(one) for one in node]
    if not isinstance(node, ast.AST):
        return node
    return type(node)(**{field: _spelled(one) for field, one in ast.iter_fields(node)})


def _name_of(node: Any) -> ast.AST:
    """Return the name, in the text, of the variable of a loop, a generator expression or a `match`."""
    if isinstance(node, ast.GeneratorExp):
        return node.generators[0].target
    return node.target if isinstance(node, ast.For) else node.subject if isinstance(node, ast.Match) else node


def rounds_of(node: ast.For, items: Sequence[ast.expr]) -> list[ast.stmt]:
    """Return a loop over these items as statements. Raises Refused if there are too many."""
    if len(items) > MOST_ROUNDS:
        raise Refused(f"a loop of more than {MOST_ROUNDS} rounds is not compiled", node)
    after = list(node.orelse)
    for item in reversed(items):
        assign = ast.copy_location(ast.Assign([node.target], item), node)
        after = _spliced([assign, *_spliced(node.body, [], ast.Continue)], after, ast.Break)
    return after


def _spliced(body: Sequence[ast.stmt], after: list[ast.stmt], end: type[ast.stmt]) -> list[ast.stmt]:
    """Return statements and those after them without `break` or `continue`: unreachable statements are left out."""
    for number, node in enumerate(body):
        if isinstance(node, end):
            return list(body[:number])
        if isinstance(node, (ast.Return, ast.Raise)):
            return list(body[: number + 1])
        if any(isinstance(one, end) for one in _inside(node)):
            if not isinstance(node, ast.If):
                raise Refused("`break` and `continue` are compiled in `if` only", node)
            rest = list(body[number + 1 :])
            ways = [_spliced([*way, *rest], after, end) for way in (node.body, node.orelse)]
            chosen = ast.If(node.test, ways[0] or [ast.Pass()], ways[1])
            return [*body[:number], ast.copy_location(chosen, node)]
    return [*body, *after]


def _inside(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield a statement and those in it that belong to the same loop; of an inner loop only those in its `else`."""
    yield node
    is_loop = isinstance(node, (ast.For, ast.While))
    bodies = [getattr(node, name, []) for name in (("orelse",) if is_loop else ("body", "orelse"))]
    bodies += [case.body for case in getattr(node, "cases", [])]
    for body in bodies:
        for one in body:
            yield from _inside(one)


def branches_of(node: ast.Match, subject: Given) -> list[ast.stmt]:
    """Return a `match` as `if`. Raises Refused for patterns that unpack or name something."""
    after: list[ast.stmt] = []
    for case in reversed(node.cases):
        test = _test(case.pattern, subject)
        if case.guard is not None:
            test = ast.copy_location(ast.BoolOp(ast.And(), [test, case.guard]), case.guard)
        after = [ast.copy_location(ast.If(test, case.body, after), test)]
    return after


def _test(pattern: ast.pattern, subject: Given) -> ast.expr:
    """Return the condition of a pattern."""
    test: ast.expr
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(subject, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        test = ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    elif isinstance(pattern, ast.MatchOr):
        test = ast.BoolOp(ast.Or(), [_test(one, subject) for one in pattern.patterns])
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        test = ast.Constant(True)
    else:
        raise Refused("a pattern of `match` that takes something apart is not compiled: use `if`", pattern)
    return ast.fix_missing_locations(ast.copy_location(test, pattern))


def each(node: ast.GeneratorExp, items: Sequence[ast.expr]) -> list[ast.expr]:
    """Return the value of a generator expression for each of the items. Raises Refused if it has conditions, or several loops."""
    (loop,) = node.generators if len(node.generators) == 1 else (None,)
    if loop is None or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
        raise Refused(f"`{text_of(node)}` is not compiled: it has a condition, or several loops", node)
    name = loop.target.id
    return [_with(node.elt, name, item) for item in items]


def _with(node: Any, name: str, item: ast.expr) -> Any:
    """Return a copy of a syntax tree with an expression in place of a name."""
    if isinstance(node, list):
        return [_with(one, name, item) for one in node]
    if not isinstance(node, ast.AST) or isinstance(node, Given):
        return node
    if isinstance(node, ast.Name) and node.id == name:
        return item
    if isinstance(node, ast.GeneratorExp) and name in map(
        ast.unparse, (one.target for one in node.generators)
    ):
        # inside, the name is a new variable, except in the first iterable
        first, *others = node.generators
        within = ast.comprehension(first.target, _with(first.iter, name, item), first.ifs, first.is_async)
        return ast.copy_location(ast.GeneratorExp(node.elt, [within, *others]), node)
    return ast.copy_location(
        type(node)(**{field: _with(one, name, item) for field, one in ast.iter_fields(node)}), node
    )
