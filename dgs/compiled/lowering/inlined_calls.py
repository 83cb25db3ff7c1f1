"""Lowering calls of the user's own functions: methods of the program and of plain objects that it has, and functions of modules.

The body of the function is lowered in place of the call. So it may do what an update may do, except change a dict state.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType

from dgs.compiled.lowering.entries import CHANGED, ENTRY, THERE, Entries, NoEntries
from dgs.compiled.lowering.loops_written_out import text_of
from dgs.compiled.lowering.method_source import definition, is_known
from dgs.compiled.lowering.value_types import EMIT, EVENT, PROGRAM, PYTHON, ReadsStream, Refused
from dgs.compiled.lowering.values import NEVER, NOTHING, Value, constant

OF_ENTRY = (THERE, ENTRY, CHANGED)
MOST_DEEP = 8
"""The most nested calls."""
MOST_BRANCHES = 32
"""The most branches of inlined functions: the code after a branch is lowered once for each of its ends."""
UNUSUAL = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # fmt: skip


class InlinedCalls(Entries):
    """Lowers calls of the user's own functions."""

    _deep = 0
    _branches = 0
    _is_certain = False
    _fixed: dict[str, Value]

    def _statement(self, node: ast.stmt) -> bool:
        """Lower a statement of an update; return whether it always returns."""
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and self._is_super(node.func.value):
            return self._inlined(node, self._surroundings.of_base(node.func.attr), (Value(PROGRAM),))
        callee = self._callee(node.func)
        return super()._call(node) if callee is None else self._inlined(node, *callee)

    def _callee(self, node: ast.expr) -> tuple[FunctionType, tuple[Value, ...]] | None:
        """Return the user's function that a name refers to, and the value that it is bound to, if any; None for anything else."""
        path = node
        while isinstance(path, ast.Attribute):
            path = path.value
        if not isinstance(path, ast.Name):
            return None
        try:
            of = self.expression(node)
        except Refused:
            return None
        if of.type != PYTHON:
            return None
        if isinstance(of.constant, FunctionType) and of.constant is not dataclasses.replace:
            return of.constant, ()
        if isinstance(of.constant, MethodType) and isinstance(of.constant.__func__, FunctionType):
            return of.constant.__func__, (self._owner(of.constant.__self__),)
        return None

    def _is_super(self, node: ast.expr) -> bool:
        """Whether an expression is `super()` in a method of the program."""
        if (
            not isinstance(node, ast.Call)
            or node.args
            or node.keywords
            or not isinstance(node.func, ast.Name)
        ):
            return False
        first = self.names.get(self._surroundings.of.__code__.co_varnames[0], NOTHING)
        return node.func.id == "super" and self._name(node.func).constant is super and first.type == PROGRAM

    def _owner(self, owner: object) -> Value:
        return Value(PROGRAM) if self._surroundings.is_program(owner) else Value(PYTHON, constant=owner)

    def _inlined(self, node: ast.Call, function: FunctionType, bound: tuple[Value, ...]) -> Value:
        given = [self._kept(self.expression(one)) for one in node.args]
        named = {one.arg: self._kept(self.expression(one.value)) for one in node.keywords}
        return self._returned(node, text_of(node.func), function, [*bound, *given], named)

    def _known(self, value: object, node: ast.AST, owner: Value = NOTHING) -> Value:
        """Return an attribute of the program, a module or a plain object; for a property the result of its function."""
        if type(value) is not property:
            return super()._known(value, node)
        if not isinstance(value.fget, FunctionType):
            raise Refused("a property without a function of Python is not compiled", node)
        return self._returned(node, value.fget.__name__, value.fget, [owner], {})

    def _returned(
        self,
        node: ast.AST,
        name: str,
        function: FunctionType,
        given: Sequence[Value],
        named: dict[str | None, Value],
    ) -> Value:
        """Return what a function returns for some arguments."""
        if self._deep >= MOST_DEEP:
            raise Refused(f"`{name}` calls itself, or calls go deeper than {MOST_DEEP}", node)
        try:
            tree, names = definition(function), self._parameters(function, given, named)
            with self._inside(function, names):
                return self._kept(self._value_of(tree.body))
        except (NoEntries, ReadsStream):
            raise
        except Refused as refused:
            where, why = f"in `{name}`: ", str(refused.refusal)
            raise Refused(where + why.rpartition(where)[2], node) from None  # the function may call itself

    def _parameters(
        self, function: FunctionType, given: Sequence[Value], named: dict[str | None, Value]
    ) -> dict[str, Value]:
        """Return the values of a function's parameters. Raises Refused unless each is given once."""
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount]
        is_usual = not (code.co_flags & UNUSUAL or code.co_kwonlyargcount or code.co_posonlyargcount)
        found = dict(zip(parameters, given, strict=False))
        if not is_usual or len(given) > len(parameters) or found.keys() & named.keys() or None in named:
            raise Refused("`yield`, `async`, `*` and `/` in functions and their calls are not compiled")
        found |= {name: value for name, value in named.items() if name is not None}
        defaults = function.__defaults__ or ()
        for name, value in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            if name not in found and is_known(value):
                found[name] = constant(value)
        if found.keys() != set(parameters):
            raise Refused("it is called without some of its parameters, or with others")
        return found

    @contextmanager
    def _inside(self, function: FunctionType, names: dict[str, Value]) -> Iterator[None]:
        """Inside this context, names are those of a function."""
        before = self.names, self._fixed, self._locals, self._surroundings, self._is_certain
        self._is_certain = False  # the call may be in an expression that is not always computed
        self._deep += 1
        self.names = {**{name: self.names[name] for name in OF_ENTRY if name in self.names}, **names}
        fixed = (PROGRAM, EVENT, EMIT)
        self._fixed = {
            n: value for n, value in names.items() if value.type in fixed or value.type.name == "dict"
        }
        self._locals = frozenset((*function.__code__.co_varnames, *function.__code__.co_cellvars))
        self._surroundings = self._surroundings.inside(function)
        try:
            yield
        finally:
            self._deep -= 1
            self.names, self._fixed, self._locals, self._surroundings, self._is_certain = before

    def _value_of(self, body: Sequence[ast.stmt]) -> Value:
        for number, node in enumerate(body):
            if isinstance(node, ast.Return):
                return NOTHING if node.value is None else self.expression(node.value)
            if isinstance(node, ast.Raise):
                self._statement(node)
                return NEVER
            if isinstance(node, ast.If):
                return self._value_of_if(node, body[number + 1 :])
            if isinstance(node, (ast.For, ast.Match)):
                return self._value_of([*self._written_out(node), *body[number + 1 :]])
            self._statement(node)
        return NOTHING

    def _value_of_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> Value:
        """Return what an `if` and the statements after it return."""
        test, yes, no = self.condition(node.test)
        if test.is_known:
            self.names |= yes if test.constant else no
            return self._value_of([*(node.body if test.constant else node.orelse), *rest])
        self._branches += 1
        if self._branches > MOST_BRANCHES:
            raise Refused(f"functions that are called have more than {MOST_BRANCHES} branches", node)
        before, was_certain, self._is_certain = dict(self.names), self._is_certain, False
        ends = []
        for body, known in ((node.body, yes), (node.orelse, no)):
            self.names = {**before, **known}
            with self.apart() as lines:
                ends.append((self._kept(self._value_of([*body, *rest])), lines))
        self.names, self._is_certain = before, was_certain
        branches = [lines for _, lines in ends]
        value = self.merged([end for end, _ in ends], branches, node, "what is returned")
        self.put_branches(test.scalars[0], branches)
        return value

    def store(self, target: ast.Subscript, value: Value) -> None:
        """Lower `state[key] = value`, which only the update itself may do."""
        if self._deep:
            raise Refused("a function that changes the state is not compiled", target)
        super().store(target, value)
