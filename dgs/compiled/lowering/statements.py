"""Lowering the statements of an update, for events of one kind: the lines of a loop's body.

State scalars are `s0`, `s1`, ...; they change only when the update returns, so an event that deviates has changed nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, MethodType

from dgs.compiled.lowering.compared_texts import Test
from dgs.compiled.lowering.expressions import Seen
from dgs.compiled.lowering.inlined_calls import InlinedCalls
from dgs.compiled.lowering.loops_written_out import text_of
from dgs.compiled.lowering.method_source import Surroundings, definition
from dgs.compiled.lowering.value_types import (
    EMIT,
    EVENT,
    NONE,
    PROGRAM,
    PYTHON,
    Refused,
    Type,
    dict_of,
    has_form,
    joined,
    scalars_of,
)
from dgs.compiled.lowering.values import NOTHING, Value, as_type, inner, of_texts

INSTEAD: dict[type[ast.AST], str] = {
    ast.While: ": write `for` over a range of constants",
    ast.Try: ": ask with `if` what would raise",
    ast.FunctionDef: ": write it outside of update",
}
"""Advice on what to write in place of statements."""


@dataclass(frozen=True, slots=True)
class Site:
    """A call of `emit`. `value`: the output. `columns`: the scalars that it writes. `is_always`: whether every event reaches it."""

    number: int
    value: Value
    columns: tuple[str, ...]
    is_always: bool


@dataclass(slots=True)
class Sites:
    """The sites of a loop so far, in the order of the text. `are_some`: no single kind has all events of the lane. `tests`: those of the loop."""

    are_some: bool
    found: list[Site] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)


class Lowering(InlinedCalls):
    """Lowers an update for events of one kind. `returned`: the type of the state that it returns."""

    def __init__(
        self,
        function: FunctionType,
        surroundings: Surroundings,
        seen: Seen,
        state: Type,
        sites: Sites,
        *,
        depth: int,
        prefix: str,
        children: int = 0,
    ) -> None:
        code = function.__code__
        names = frozenset((*code.co_varnames, *code.co_cellvars))
        super().__init__(seen, surroundings, names, state, depth=depth, prefix=prefix)
        self._state, self._sites, self.returned = state, sites, state
        self._tests = sites.tests
        self._is_certain = not sites.are_some  # whether every event of the lane reaches this line
        self._returns = 0  # statements so far that may have ended an event
        tree = definition(function)
        program, before, event, emit = (argument.arg for argument in tree.args.args)
        self._fixed = {program: Value(PROGRAM), event: Value(EVENT), emit: Value(EMIT)}
        self.names = {**self._fixed, before: of_texts(state, state_names(state))}
        if state.name == "dict":
            self._fixed[before] = self.names[before]
            self.begin_entry()
        self._may_be_none = state == NONE or state.is_optional
        for child in range(children):
            self.names[before] = self._joined(self.names[before], child, tree)
        if not self._block(tree.body):
            if not self._may_be_none:
                raise Refused("update does not return a state on every path", tree)
            self._return(ast.copy_location(ast.Return(None), tree))
        if state.name == "dict":
            self.returned = joined(self.returned, dict_of(self.wider), tree, what="the state")

    def _joined(self, base: Value, child: int, node: ast.AST) -> Value:
        """Lower `join` of the base state with the partial state of a child, if it has one here."""
        join = self._surroundings.of_program("join")
        bound = (Value(PROGRAM),) if isinstance(join, MethodType) else ()
        function = join.__func__ if isinstance(join, MethodType) else join
        if not isinstance(function, FunctionType) or (
            bound and not self._surroundings.is_program(join.__self__)
        ):
            raise Refused("join is no plain method", node)
        partial = of_texts(self._state, [f"{name}_here" for name in partial_names(self._state, child)])
        with self.apart() as lines:
            found = self._returned(node, "join", function, [*bound, base, partial], {})
        branches = [lines, list[str]()]
        value = self.merged([found, base], branches, node, "the state")
        self.put_branches(f"there{child}_here", branches)
        return value

    def _block(self, body: list[ast.stmt]) -> bool:
        """Lower statements; return whether they always return."""
        return any(self._statement(node) for node in body)

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, (ast.Return, ast.Raise)):
            self._end(node)
            return True
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, (ast.For, ast.Match)):
            return self._block(self._written_out(node))
        if isinstance(node, ast.Assert):
            self._assert(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            value = self._kept(self.expression(node.value))
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assign(target, value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Name, ast.Subscript)):
            before = self.expression(node.target)
            self._assign(node.target, self.binary(node, node.op, before, self.expression(node.value)))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._emit(node.value)
        elif not self._does_nothing(node):
            advice = INSTEAD.get(type(node), "")
            raise Refused(f"`{text_of(node).splitlines()[0]}` is not compiled{advice}", node)
        return False

    def _assert(self, node: ast.Assert) -> None:
        """Leave an event whose test fails to the interpreter. Under `python -O` there are no tests."""
        if __debug__:
            test, yes, _ = self.condition(node.test)
            if not test.is_known or not test.constant:
                self.deviate("True" if test.is_known else f"not {test.scalars[0]}")
            self.names |= yes

    def _does_nothing(self, node: ast.stmt) -> bool:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return is_text or isinstance(node, ast.Pass)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name) and target.id not in self._fixed:
            self.names[target.id] = value
        elif isinstance(target, ast.Subscript) and self._is_state(target.value):
            self.store(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(value.parts):
            if value.type.name != "tuple" or any(isinstance(one, ast.Starred) for one in target.elts):
                raise Refused(f"{value.type!r} is not taken apart", target)
            for part, one in zip(target.elts, value.parts, strict=True):
                self._assign(part, one)
        else:
            raise Refused(f"an assignment of {value.type!r} to `{text_of(target)}` is not compiled", target)

    def _if(self, node: ast.If) -> bool:
        test, yes, no = self.condition(node.test)
        if test.is_known:
            self.names |= yes if test.constant else no
            return self._block(node.body if test.constant else node.orelse)
        before, was_certain, self._is_certain = dict(self.names), self._is_certain, False
        returns_before = self._returns
        ends = []
        for body, known in ((node.body, yes), (node.orelse, no)):
            self.names = {**before, **known}
            with self.apart() as lines:
                returns = self._block(body)
            left = {n: before[n] if value is known.get(n) else value for n, value in self.names.items()}
            ends.append((returns, self.names if returns else left, lines, self.names))
        self._is_certain = was_certain and self._returns == returns_before
        branches = [lines for _, _, lines, _ in ends]
        if ends[0][0] or ends[1][0]:
            self.names = ends[1][3] if ends[0][0] else ends[0][3]
        else:
            self._merge_names(ends[0][1], ends[1][1], branches, node)
        self.put_branches(test.scalars[0], branches)
        return ends[0][0] and ends[1][0]

    def _merge_names(
        self, one: dict[str, Value], other: dict[str, Value], branches: list[list[str]], node: ast.AST
    ) -> None:
        """Keep the names that have a value after both branches."""
        names = [name for name in one if name in other]
        self.names = {n: self.merged([one[n], other[n]], branches, node, f"`{n}`") for n in names}

    def _end(self, node: ast.Return | ast.Raise) -> None:
        """End the event: the interpreter then raises."""
        if isinstance(node, ast.Raise):
            self.deviate("True")
        else:
            self._return(node)

    def _return(self, node: ast.Return) -> None:
        self._returns += 1
        value = NOTHING if node.value is None else self.expression(node.value)
        if value.type.name == "dict":
            self.end_entry(node)
            self.put("continue")
            return
        if not has_form(value.type):
            raise Refused(f"a state with {value.type!r} in it is not compiled", node)
        if not self._may_be_none and (value.type == NONE or value.type.is_optional):
            # The interpreter decides whether None is a state or a `return` is missing.
            self.deviate("True" if value.type == NONE else f"not {value.scalars[0]}")
            if value.type == NONE:
                return
            value = inner(value)
        self.returned = joined(self.returned, value.type, node, what="the state")
        if self.returned == self._state:  # otherwise the update is lowered again, with the wider state
            names, texts = state_names(self._state), as_type(value, self._state, node)
            changed = [pair for pair in zip(names, texts, strict=True) if pair[0] != pair[1]]
            if changed:
                self.put(f"{', '.join(n for n, _ in changed)} = {', '.join(text for _, text in changed)}")
        self.put("continue")

    def _emit(self, call: ast.Call) -> None:
        if self._callee(call.func) is not None:
            self.expression(call)  # only its own statements count
            return
        if self.expression(call.func).type != EMIT:
            raise Refused(f"a call of `{text_of(call.func)}` is not compiled", call)
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise Refused("emit takes one value", call)
        value = self.expression(call.args[0])
        number, columns = len(self._sites.found), list[str]()
        row = "u" if self._is_certain else f"u64(c{number})"
        for text, scalar in written(value, call):
            self.put(f"o{number}_{len(columns)}[{row}] = {text}")
            columns.append(scalar)
        if not self._is_certain:
            self.put(f"r{number}[{row}] = i")
            self.put(f"c{number} += 1")
        self._sites.found.append(Site(number, value, tuple(columns), self._is_certain))


def state_names(state: Type) -> list[str]:
    """Return the names of the scalars of a state in the text of a loop."""
    return [f"s{number}" for number in range(len(scalars_of(state)))]


def partial_names(state: Type, child: int) -> list[str]:
    """Return the names of the columns of partial states of a child."""
    return [f"p{child}_{number}" for number in range(len(scalars_of(state)))]


def written(value: Value, node: ast.AST | None = None) -> Iterator[tuple[str, str]]:
    """Yield the texts and types of the scalars of an output that a loop has to write. The rest is taken from the input."""
    if value.type == PYTHON:
        raise Refused("a module, a class, a function or an object is not emitted", node)
    if value.origin is not None or value.is_known:
        return
    if value.parts:
        for part in value.parts:
            yield from written(part, node)
    elif has_form(value.type):
        yield from zip(value.flat, scalars_of(value.type), strict=True)
    else:
        raise Refused(f"{value.type!r} is not emitted", node)
