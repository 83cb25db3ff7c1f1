"""Containers that the functions of a flow keep outside of its state: dictionaries, lists and sets of classes, objects, closures and modules.

A law that runs a step twice resets them in between. So a step that remembers earlier items, and depends on their order, is found. A cache
that would get the same results again does no harm.

>>> numbers = {}
>>> kept = KeptOutside([lambda key: numbers.setdefault(key, len(numbers))])
>>> numbers["b"] = 0
>>> kept.put_back()
>>> numbers
{}
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from dgs.flow.steps import Table

CONTAINERS = (dict, list, set)

DEEPEST = 6
"""The most objects between a step and a container that it keeps."""

LARGEST = 10_000
"""A container with more items than this at the beginning counts as data that nobody changes."""

_OURS = ("dgs", "builtins", *sys.stdlib_module_names)


class KeptOutside:
    """The containers that objects reach, with their first contents."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._seen: dict[int, Any] = {}
        self._first: list[tuple[Any, Any]] = []
        for one in objects:
            self._visit(one, DEEPEST)

    def put_back(self) -> None:
        """Give every container its first contents."""
        for container, first in self._first:
            if _ids(container) != _ids(first):
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(first)

    def _visit(self, one: Any, deepest: int) -> None:
        if deepest < 0 or id(one) in self._seen or isinstance(one, Table):
            return
        self._seen[id(one)] = one
        if type(one) in CONTAINERS:
            if len(one) > LARGEST:
                return
            self._first.append((one, one.copy()))
        for part in _reached(one):
            self._visit(part, deepest - 1)


def _ids(container: Any) -> list[int]:
    return list(map(id, chain(container, container.values() if isinstance(container, dict) else ())))


def _reached(one: Any) -> Iterator[Any]:
    """Yield what an object refers to: a function's closure, defaults and names, and other objects' attributes."""
    if isinstance(one, FunctionType):
        yield from (cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell))
        yield from one.__defaults__ or ()
        yield from (one.__kwdefaults__ or {}).values()
        yield from (one.__globals__[name] for name in _names(one.__code__) if name in one.__globals__)
    elif isinstance(one, MethodType):
        yield from (one.__func__, one.__self__)
    elif isinstance(one, (classmethod, staticmethod)):
        yield one.__func__
    elif isinstance(one, dict):
        yield from one.values()
    elif isinstance(one, (list, tuple, set, frozenset)):
        yield from one
    elif isinstance(one, type):
        yield from (part for cls in one.__mro__ if _is_users(cls) for part in vars(cls).values())
    elif not isinstance(one, ModuleType):
        yield from getattr(one, "__dict__", {}).values()
        yield from (getattr(one, name, None) for name in getattr(type(one), "__slots__", ()))
        yield type(one)


def _is_users(cls: type) -> bool:
    return cls.__module__.partition(".")[0] not in _OURS


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the name is not bound yet
        return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
