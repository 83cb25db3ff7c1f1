"""The lowered code is the code that runs, with the values that it reads from outside."""

import functools
import linecache

import pytest

from dgs.compiled.lowering.method_source import definition, function_of
from dgs.compiled.lowering.value_types import Refused
from tests.dgs.compiled.both_ways import Compiled, batch_of, interpreted, program_of

TEXT = """
LIMIT = 3
class P(dgs.Program):
    limit = 10
    def init(self): return 0
    def update(self, state, event, emit):
        if event.payload > LIMIT:
            emit(self.limit)
        return state + 1
"""


def check(program, payload=(1, 5, 2, 7)):
    """Compare compiled and interpreted; return the compiled program."""
    batch, compiled = batch_of(list(payload)), Compiled(program)
    assert compiled.fold(batch, program.init()) == interpreted(program, batch, program.init())
    return compiled


def test_a_global_that_is_changed_is_read_again():
    program, batch = program_of(TEXT), batch_of([1, 5, 2, 7])
    compiled = Compiled(program)
    for limit in (3, 6, 0):
        type(program).update.__globals__["LIMIT"] = limit
        assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert not compiled.update.refusals


def test_an_attribute_of_the_program_that_is_changed_is_read_again():
    program, batch = program_of(TEXT), batch_of([1, 5, 2, 7])
    compiled = Compiled(program)
    for limit in (10, 11, 2.5):
        program.limit = limit
        assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert not compiled.update.refusals


def test_a_source_that_was_edited_is_refused():
    program = program_of(TEXT)
    name = type(program).update.__code__.co_filename
    size, time, lines, _ = linecache.cache[name]
    linecache.cache[name] = size, time, [line.replace("state + 1", "state + 2") for line in lines], name
    assert "no longer the code" in str(*check(program).update.refusals.values())


def test_a_source_that_is_not_there_is_refused():
    program = program_of(TEXT)
    del linecache.cache[type(program).update.__code__.co_filename]
    assert "the source of update is not there" in str(*check(program).update.refusals.values())


def test_a_wrapped_update_is_not_taken_for_the_original():
    program = program_of(TEXT)
    plain = type(program).update

    @functools.wraps(plain)
    def doubled(self, state, event, emit):
        return plain(self, state, event, emit) + 1

    type(program).update = doubled
    check(program)


def test_an_update_that_is_no_method_is_refused():
    with pytest.raises(Refused, match="no plain method"):
        function_of(lambda state, event, emit: state)


def test_lines_are_those_of_the_file():
    assert definition(function_of(program_of(TEXT).update)).lineno == 6


REFUSED = {
    "a local name that has no value yet": ("y = 1 if event.payload > 1 else 2\nif y > 1:\n    LIMIT = 4\nreturn LIMIT", "may have no value"),
    "no return": ("emit(1)", "does not return a state on every path"),
    "int and float": ("return state if event.payload else 0.5", "sometimes int and sometimes float"),
    "a loop": ("for i in range(state):\n    emit(i)\nreturn state", "`range(state)` is not compiled: its bounds are not known"),
    "a call": ("return len('a')", "a call of `len` is not compiled"),
    "a generator in a generator": ("return any(any(u for u in (1, v) if u) for v in (1, state))", "`(u for u in (1, v) if u)` is not compiled: it has a condition"),
    "a list": ("for n in [1, state]:\n    emit(n)\nreturn state", "`[1, state]` is not compiled: write a tuple"),
    "a loop that ends anywhere": ("while state:\n    state -= 1\nreturn state", "is not compiled: write `for` over a range of constants"),
    "bytes": ("emit(b'x')\nreturn state", "a value of type bytes is not compiled"),
    "an attribute that is not there": ("return state + self.absent", "`absent` of P is not there"),
    "a method": ("return self.absent()", "a call of `self.absent` is not compiled"),
    "or of a number and a tuple": ("return state or (1, 2)", "sometimes int and sometimes (int, int)"),
    "arithmetic on what may be None": ("n = (1, 2) if state else None\nreturn n + 1", "arithmetic on (int, int) | None is not compiled: test it for None"),
    "a long loop": ("for i in range(99):\n    state += i\nreturn state", "a loop of more than 32 rounds"),
    "a loop that is left in match": ("for i in range(2):\n    match i:\n        case 1:\n            break\nreturn state", "`break` and `continue` are compiled in `if` only"),
    "the event": ("emit(event)\nreturn state", "event is not emitted"),
    "emit as a value": ("e = emit\nf = (e, 1)\nemit(f)\nreturn state", "not emitted"),
    "a large power of constants": ("return state + 2 ** 10 ** 10", "is not compiled"),
    "a power": ("return state ** event.payload", "is not compiled"),
    "a large constant": ("return 2 ** 70", "is not compiled"),
    "text": ("return 'a'", "a state with text in it"),
    "a kind or its name": ("emit(('a', 1) if event.payload else (A, 1))\nreturn state", "can only be passed on"),
    "a name with another name inside": ("return state + __x", "`__x` has another name inside a class"),
    "a constant of many digits": ("return state + self.many", "does not fit into 64 bits"),
    "a long chain of branches": ("\n".join(f"{'el' * (n > 0)}if event.payload == {n}:\n    state += {n}" for n in range(200)) + "\nreturn state", "too many expressions or branches"),
    "a long expression": (f"return state{' + event.payload' * 900}", "too many expressions or branches"),
    "a power of a float": ("emit(1.5 ** event.payload)\nreturn state", "its last digit depends on the machine"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_code_that_may_behave_differently_is_refused_with_its_line(name):
    body, why = REFUSED[name]
    lines = [
        "class P(dgs.Program):",
        "    def init(self): return 0",
        "    def update(self, state, event, emit):",
    ]
    program = program_of("\n".join([*lines, *("        " + line for line in body.splitlines()), ""]))
    program.many = 10**5000
    refusal = Compiled(program).update.text(0, batch_of([1, 2]))
    assert why in str(refusal)
    assert refusal.line is None or 4 <= refusal.line < 4 + len(body.splitlines()) or name == "no return"


PLAIN = {
    "tag and event by other names": "e = event\nt = e.tag\nif t.kind == A:\n    emit((e.stream, e.ts))\nreturn state + 1",
    "named tuples": "m = M(state, y=event.payload)\nemit(m)\na, b = m\nreturn m.x + m[1] + b",
    "fields replaced, and defaults": "m = M(state)._replace(x=event.payload)\nemit(m)\nreturn m.x + m.y",
    "ints in a tuple": "emit((event.payload in (1, state, True), event.payload not in (2, 3)))\nreturn state + 1",
    "powers of constants": "return (state + 10**3) % 2**40 + (1 << 3) + (-9 >> 1)",
    "what must hold": "assert event.payload < 90, 'many'\nif event.payload > 50:\n    raise ValueError\nreturn state + event.payload",
    "constants of modules": "emit(math.pi)\nreturn state + (2 if math.tau > 6 else 1)",
    "constants in tuples": "emit(event.tag.kind in (A, B))\nreturn state",
    "chained assignment": "a = b = event.payload\na += 1\nemit((a, b))\nreturn state + b",
    "everything that returns": "if event.payload > 3:\n    emit(1)\n    return state\nelif event.payload > 1:\n    emit(2)\nelse:\n    return 5\nemit(3)\nreturn state - 1",
    "no payload used": "emit(None)\nemit(())\nreturn state",
    "the payload as a whole": "emit(event.payload)\nemit({'p': event.payload})\nreturn state",
}


@pytest.mark.parametrize("name", PLAIN)
def test_accepted_code_equals_the_running_code(name):
    lines = [
        "import math",
        "from typing import NamedTuple",
        "class M(NamedTuple):",
        "    x: int",
        "    y: int = 4",
    ]
    lines += [
        "class P(dgs.Program):",
        "    def init(self): return 0",
        "    def update(self, state, event, emit):",
    ]
    program = program_of("\n".join([*lines, *("        " + line for line in PLAIN[name].splitlines()), ""]))
    assert not check(program).update.refusals
