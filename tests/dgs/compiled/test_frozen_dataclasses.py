"""Frozen dataclasses in states: classes with more than fields are interpreted."""

import pickle
from typing import NamedTuple

import pytest

from dgs.compiled.lowering.value_types import is_named_tuple
from tests.dgs.compiled.both_ways import Compiled, batch_of, interpreted, program_of

TEXT = """
from dataclasses import dataclass, field, replace, InitVar, KW_ONLY
from functools import cached_property
class Base:
    pass
{kind}
class S{base}:
{fields}
class P(dgs.Program):
    def init(self):
        return S({first})
    def update(self, state, event, emit):
        emit({emitted})
        return {returned}
"""
USUAL = {
    "kind": "@dataclass(frozen=True)",
    "base": "",
    "fields": "    n: int = 3",
    "first": "n=1",
    "emitted": "state.n",
    "returned": "S(state.n + event.payload)",
}
MORE = {
    "it may change": {"kind": "@dataclass"},
    "it computes its fields": {"fields": "    n: int = 3\n    def __post_init__(self): object.__setattr__(self, 'n', 8)"},
    "its own way to make it": {"fields": "    n: int = 3\n    def __init__(self, n): object.__setattr__(self, 'n', n + 1)"},
    "a base": {"base": "(Base)"},
    "a truth of its own": {"fields": "    n: int = 3\n    def __bool__(self): return False", "emitted": "1 if state else 2"},
    "attributes of its own": {"fields": "    n: int = 3\n    def __getattribute__(self, name): return 5"},
    "by name only": {"fields": "    _: KW_ONLY\n    n: int = 3", "returned": "S(n=state.n)"},
    "a parameter that is no field": {"fields": "    n: int = 3\n    m: InitVar[int] = 4"},
    "a field that is not given": {"fields": "    n: int = 3\n    m: int = field(init=False, default=4)"},
    "a new one made another way": {"fields": "    n: int = 3\n    def __new__(cls, n): return object.__new__(cls)"},
    "a computed attribute": {"fields": "    n: int = 3\n    @property\n    def m(self): return 4", "emitted": "state.m"},
    "a method": {"fields": "    n: int = 3\n    def m(self): return 4", "emitted": "state.m()"},
    "compared": {"emitted": "state == S(3)"},
    "taken apart": {"emitted": "state[0]"},
    "counted": {"emitted": "len(state)"},
    "asked for": {"emitted": "state.n in state"},
    "gone through": {"emitted": "sum(x for x in state)"},
    "made without a field": {"fields": "    n: int\n    m: int = 4", "first": "n=1", "returned": "S(m=3)"},
    "made with another field": {"returned": "S(k=3)"},
    "replaced by another name": {"returned": "replace(state, k=3)"},
    "replaced as a named tuple": {"returned": "state._replace(n=3)"},
    "a default that is made": {"fields": "    n: int = field(default_factory=int)", "returned": "S()"},
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_classes_with_more_than_fields_are_interpreted(name):
    program = program_of(TEXT.format(**(USUAL | MORE[name])).lstrip())
    batch, compiled = batch_of([1, 2, 3]), Compiled(program)
    assert compiled.fold(batch, program.init()) == interpreted(program, batch, program.init())
    assert compiled.update.events == 0
    assert compiled.update.refusals


@pytest.mark.parametrize(
    "kind", ["frozen=True", "frozen=True, slots=True, order=True", "frozen=True, eq=False"]
)
def test_classes_of_fields_only_are_compiled(kind):
    program = program_of(TEXT.format(**(USUAL | {"kind": f"@dataclass({kind})"})).lstrip())
    batch, compiled = batch_of([1, 2**62, 2**62, 4]), Compiled(program)
    assert compiled.fold(batch, program.init()) == interpreted(program, batch, program.init())
    assert not [why for why in compiled.update.refusals.values() if "64 bits" not in str(why)]
    assert compiled.update.events


def test_whether_an_int_is_in_a_record_asks_for_its_names():
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    program = program_of(text + "        emit(event.payload in {'a': 1, 'b': 2})\n        return state\n")
    batch = batch_of([1, 2, 3])
    assert Compiled(program).fold(batch, 0) == interpreted(program, batch, 0)


class Pair(NamedTuple):
    one: int


def test_a_named_tuple_that_was_pickled_is_still_one():
    pickle.dumps(Pair(1), 2)  # adds `__slotnames__` to the class
    assert is_named_tuple(Pair)
