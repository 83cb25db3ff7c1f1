"""The source of a method as a syntax tree, which is certainly the code that runs, and the values that the method reads from outside."""

from __future__ import annotations

import ast
import inspect
import linecache
from abc import ABCMeta
from enum import EnumMeta
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from dgs.compiled.lowering.value_types import Refused, is_named_tuple
from dgs.model.tags import Kind
from dgs.model.user_code import code_objects

PARAMETERS = 4
"""The number of parameters of an update: self, state, event, emit."""
PLAIN = frozenset([int, float, bool, str, type(None), Kind])
MISSING = object()


def function_of(update: Any) -> FunctionType:
    """Return the function behind a bound `update(state, event, emit)`. Raises Refused if it is something else."""
    function = getattr(update, "__func__", None)
    if not isinstance(update, MethodType) or not isinstance(function, FunctionType):
        raise Refused("update is no plain method")
    code = function.__code__
    is_usual = code.co_argcount == PARAMETERS and not code.co_kwonlyargcount and not code.co_posonlyargcount
    if not is_usual or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR):
        raise Refused("update has other parameters than self, state, event, emit")
    return function


def definition(function: FunctionType) -> ast.FunctionDef:
    """Return the definition of a function. Raises Refused if its source is missing, or is not the code that runs, for example after an edit."""
    code = function.__code__
    tree, codes = _module(function)
    if code not in codes:
        linecache.checkcache(code.co_filename)  # the cached text may be that of an earlier import
        tree, codes = _module(function)
    if code not in codes:
        raise Refused("the source of update is no longer the code that runs")
    for node in ast.walk(tree):
        is_here = isinstance(node, ast.FunctionDef) and _first_line(node) == code.co_firstlineno
        if isinstance(node, ast.FunctionDef) and is_here and node.name == code.co_name:
            return node
    raise Refused("the source of update is not there")


def _module(function: FunctionType) -> tuple[ast.Module, frozenset[CodeType]]:
    """Return the syntax tree of a function's module and the code objects in it. Raises Refused."""
    filename = function.__code__.co_filename
    lines = linecache.getlines(filename, function.__globals__)
    if not lines:
        raise Refused("the source of update is not there")
    try:
        return _parsed("".join(lines), filename)
    except (SyntaxError, ValueError):
        raise Refused("the source of update cannot be read") from None


def _first_line(node: ast.FunctionDef) -> int:
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


@lru_cache(maxsize=8)
def _parsed(text: str, filename: str) -> tuple[ast.Module, frozenset[CodeType]]:
    """Return the syntax tree of a module and the code objects in it."""
    whole = compile(text, filename, "exec", dont_inherit=True)
    return ast.parse(text), frozenset(code_objects(whole))


class Surroundings:
    """The values that an update reads from outside: globals, closures, and attributes of the program and of modules.

    Their values are known when the update is compiled. `have_changed` tells whether they have changed since.
    """

    def __init__(self, function: FunctionType, owner: Any) -> None:
        self.of, self._owner, self._defaults = function, owner, function.__defaults__
        self._inside: list[tuple[CodeType, Surroundings]] = []
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self._cells = cells
        self._globals = function.__globals__
        self._builtins: dict[str, Any] = getattr(function, "__builtins__")  # noqa: B009 - typeshed does not know it
        self._names: dict[str, Any] = {}
        self._attributes: list[tuple[Any, str, Any]] = []

    def name(self, name: str) -> Any:
        """Return the value of a global, a builtin or a name of an enclosing function; MISSING if there is none."""
        found = self._look_up(name)
        self._names[name] = found
        return found

    def attribute(self, of: Any, name: str) -> Any:
        """Return a plain attribute of the program or a module. Raises Refused for any other: reading it may run code."""
        looked_up_by: Any = type(of).__getattribute__
        is_usual = looked_up_by is object.__getattribute__ or type(of) in (ModuleType, type, EnumMeta)
        if not is_usual:
            raise Refused("the program computes its attributes")
        found = _static(of, name)
        is_bound = type(found) in (property, classmethod, staticmethod)
        if not is_known(found) and not _is_plain(found) and not is_bound:
            is_there = (
                f"is a {type(found).__name__}, which is not compiled"
                if found is not MISSING
                else "is not there"
            )
            raise Refused(f"`{name}` of {type(of).__name__} {is_there}")
        self._attributes.append((of, name, found))
        return _bound(found, of, name)

    def of_base(self, name: str) -> FunctionType:
        """Return the method that `super()` finds. Raises Refused if it finds something else."""
        of, order = self.name("__class__"), type(self._owner).__mro__
        bases = order[order.index(of) + 1 :] if of in order else ()
        base = next((one for one in bases if name in vars(one)), None)
        found = MISSING if base is None else vars(base)[name]
        if not isinstance(found, FunctionType):
            raise Refused(f"`super().{name}` is not compiled")
        self._attributes.append((base, name, found))
        return found

    def of_program(self, name: str) -> Any:
        """Return a plain attribute of the program. Raises Refused for any other."""
        return self.attribute(self._owner, name)

    def is_program(self, value: Any) -> bool:
        """Whether a value is the program itself."""
        return value is self._owner

    def inside(self, function: FunctionType) -> Surroundings:
        """Return the surroundings of a called function, which are watched together with these."""
        found = next(
            (one for code, one in self._inside if code is function.__code__ and one.of is function), None
        )
        if found is None:
            found = Surroundings(function, self._owner)
            self._inside.append((function.__code__, found))
        return found

    def have_changed(self) -> bool:
        """Return whether a value that was read has changed."""
        if self.of.__defaults__ is not self._defaults:
            return True
        for code, one in self._inside:  # plain loops, since this runs before each batch
            if one.of.__code__ is not code or one.have_changed():
                return True
        for name, value in self._names.items():
            if self._look_up(name) is not value:
                return True
        for of, name, value in self._attributes:  # noqa: SIM110
            if _static(of, name) is not value:
                return True
        return False

    def _look_up(self, name: str) -> Any:
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:
                return MISSING
        return self._globals.get(name, self._builtins.get(name, MISSING))


def _static(of: Any, name: str) -> Any:
    """Return an attribute as it is stored, without calling anything."""
    if isinstance(of, EnumMeta) and name in of.__members__:
        return of.__members__[name]
    # `inspect` takes ten times as long
    if type(of).__class__ in (type, ABCMeta) and not isinstance(of, type):
        found = [own[name] for own in map(vars, type(of).__mro__) if name in own][:1]
        own = getattr(of, "__dict__", {})
        if not found or name not in own:
            return found[0] if found else own.get(name, MISSING)
    return inspect.getattr_static(of, name, MISSING)


def _bound(found: Any, of: Any, name: str) -> Any:
    """Return a stored attribute as Python returns it, but a property itself."""
    is_of_class = isinstance(of, type)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod) and isinstance(found.__func__, FunctionType):
        return MethodType(found.__func__, of if is_of_class else type(of))
    if isinstance(found, property) and is_of_class:
        raise Refused(f"`{name}` is no constant of {of.__name__}")
    is_method = isinstance(found, FunctionType) and not is_of_class and not isinstance(of, ModuleType)
    return MethodType(found, of) if is_method and name not in vars(of) else found


def _is_plain(value: Any) -> bool:
    """Return whether a value is a Python function or bound method, or an object with the usual lookup of attributes."""
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType)):
        return True
    of: Any = type(value)
    if value is MISSING or callable(value) or hasattr(of, "__getattr__") or hasattr(of, "__get__"):
        return False
    return of.__getattribute__ is object.__getattribute__ and hasattr(value, "__dict__")


def is_known(value: Any) -> bool:
    """Return whether a value can be used in compiled code: constants, modules, classes of named tuples and a few functions."""
    if type(value) is tuple:
        return all(map(is_known, value))
    return type(value) in PLAIN or isinstance(value, ModuleType) or is_named_tuple(value)
