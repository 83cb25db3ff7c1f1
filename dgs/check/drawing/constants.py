"""The constants in a program's code: its behaviour may change at them, and small random values do not reach them.

A threshold of 80, an action called "refund", buckets of `key % 16` are checked only if payloads and keys have such values.

>>> from dgs.model.program import Program
>>> LIMIT = 80
>>> class Alarms(Program):
...     def init(self): return set()
...     def update(self, state, event, emit):
...         '''The alarm is on above the limit.'''
...         if event.payload == "reset" or event.payload > LIMIT: state.discard(event.tag.key)
...         return state
>>> found = constants(Alarms())
>>> found.numbers, found.texts
((80,), ('reset',))
"""

from __future__ import annotations

import dis
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import FunctionType
from typing import Any

from dgs.model.program import Program
from dgs.model.tags import Kind
from dgs.model.user_code import code_objects

LONGEST_TEXT = 20
LARGEST = 10**15
MOST = 8
"""At most this many numbers, and this many texts, are used."""
ORDINARY = 9
"""Numbers up to this are drawn in any case."""

SPLITTING = ("split", "rsplit", "partition", "rpartition")
OPERATIONS = ("BINARY_OP", "COMPARE_OP", "CONTAINS_OP")


@dataclass(frozen=True)
class Constants:
    """Numbers and texts in code, except those that are drawn in any case."""

    numbers: tuple[int | float, ...] = ()
    texts: tuple[str, ...] = ()


NONE = Constants()


def constants(program: Program) -> Constants:
    """Return the constants of a program's methods and of functions that they mention. Constants in comparisons come first."""
    compared = {one for function in functions_of(program) for one in _compared(function)}
    found = sorted(dict.fromkeys(_all(program)), key=lambda one: one not in compared)
    kinds = _kind_names(program)
    numbers = [one for one in found if isinstance(one, (int, float)) and ORDINARY < abs(one) <= LARGEST]
    texts = [
        one for one in found if isinstance(one, str) and 0 < len(one) <= LONGEST_TEXT and one not in kinds
    ]
    return Constants(tuple(numbers[:MOST]), tuple(texts[:MOST]))


def numbers_in_keys(program: Program) -> tuple[int, ...]:
    """Return numbers that keys may be divided by or compared with: `key % 16`, `key // SHARD`, `key < 1000`."""
    found = {value for after, value in _beside_keys(program) if after in ("BINARY_OP", "COMPARE_OP")}
    return tuple(sorted(one for one in found if type(one) is int and 2 < one <= LARGEST))  # noqa: PLR2004


def texts_in_keys(program: Program) -> tuple[str, ...]:
    """Return texts that keys may have: `key == "vip"`, `key.split("-")`, `key.startswith("eu")`."""
    found, kinds = list[str](), _kind_names(program)
    for after, value in _beside_keys(program):
        if type(value) is str and 0 < len(value) <= LONGEST_TEXT and value not in kinds:
            if after in ("COMPARE_OP", "CONTAINS_OP"):
                found.append(value)
            elif after in SPLITTING:
                found += [f"a{value}a", f"a{value}b"]
            elif after == "startswith":
                found += [f"{value}a", f"{value}b"]
    return tuple(dict.fromkeys(found))


def _kind_names(program: Program) -> set[str]:
    """Return the names of kinds, which code compares with kinds and not with payloads or keys."""
    return {str(one) for one in (*program.kinds, *program.accumulates, *program.dependence.kinds)}


def _beside_keys(program: Program) -> Iterator[tuple[str, Any]]:
    """Yield the constants in functions that use a key, each with its operation or method."""
    for function in functions_of(program):
        for code in code_objects(function.__code__):
            if "key" not in code.co_names:
                continue
            method = ""
            for one, after in pairwise(dis.get_instructions(code)):
                if one.opname in ("LOAD_METHOD", "LOAD_ATTR"):
                    method = str(one.argval)
                value = (
                    one.argval if one.opname == "LOAD_CONST" else function.__globals__.get(str(one.argval))
                )
                if one.opname in ("LOAD_CONST", "LOAD_GLOBAL"):
                    yield (after.opname if after.opname in OPERATIONS else method), value


def functions_of(program: Program) -> Iterator[FunctionType]:
    """Yield the predicates and methods of a program, and the functions that they mention."""
    yield from (one.when for one in program.dependence.rules if isinstance(one.when, FunctionType))
    for method in methods_of(program):
        yield method
        mentioned = (method.__globals__.get(name) for name in names_of(method))
        yield from (one for one in mentioned if isinstance(one, FunctionType))


def methods_of(program: Program) -> Iterator[FunctionType]:
    """Yield the methods of a program, without overridden methods that are never called."""
    final = set[str]()
    for base in _classes(program):
        methods = [(name, one) for name, one in vars(base).items() if isinstance(one, FunctionType)]
        for name, method in methods:
            if name not in final:
                yield method
                if not {"super", name} & {*names_of(method)}:
                    final.add(name)


def values_of(program: Program, functions: Iterable[FunctionType]) -> Iterator[Any]:
    """Yield the constants in functions, in the globals that they use, and in attributes of the program."""
    for one in functions:
        for code in code_objects(one.__code__):
            yield from (value for value in code.co_consts if value != one.__doc__)
        yield from (one.__globals__.get(name) for name in names_of(one))
    for base in _classes(program):
        yield from (value for name, value in vars(base).items() if not name.startswith("__"))
    yield from vars(program).values()


def names_of(function: FunctionType) -> tuple[str, ...]:
    """Return the names in a function that are not local, in order."""
    return tuple(dict.fromkeys(name for code in code_objects(function.__code__) for name in code.co_names))


def _classes(program: Program) -> tuple[type, ...]:
    every = type(program).__mro__
    return every[: every.index(Program)]


def _all(program: Program) -> Iterator[Hashable]:
    """Yield numbers and texts, also inside tuples and sets (`in ("buy", "sell")`), always in the same order."""
    for value in values_of(program, functions_of(program)):
        inside = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        for one in inside if isinstance(inside, (list, tuple)) else [inside]:
            if isinstance(one, (int, float, str)) and not isinstance(one, (bool, Kind)):
                yield one


def _compared(function: FunctionType) -> Iterator[Hashable]:
    """Yield the constants in comparisons: `x > 80`, `x == "refund"`, `x in ("buy", "sell")`."""
    for code in code_objects(function.__code__):
        for one, after in pairwise(dis.get_instructions(code)):
            if one.opname == "LOAD_CONST" and after.opname in ("COMPARE_OP", "CONTAINS_OP"):
                yield from one.argval if isinstance(one.argval, (tuple, frozenset)) else (one.argval,)
