"""Random programs on random batches: compiled equals interpreted, and every mutant of the lowering is found."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.compiled.python_loops import _divided as divided
from dgs.compiled.python_loops import _within as within
from dgs.compiled.written_outputs import Written
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, differing, interpreted, program_of
from tests.dgs.compiled.random_programs import START, Writer


def differs(seed, translate=by_python):
    """Return whether a random program behaves differently when compiled, and the program."""
    return differing(Writer(seed), START, translate)


@given(st.integers(0, 2**32))
def test_compiled_equals_interpreted(seed):
    for one in range(seed, seed + 3):
        is_wrong, text, _ = differs(one)
        assert not is_wrong, text


def test_random_programs_are_accepted_and_compiled():
    """Otherwise the interpreter would be compared with itself."""
    done = [differs(seed)[2] for seed in range(100)]
    refusals = [str(why) for update in done for why in update.refusals.values()]
    assert set(refusals) <= {"an int of the state does not fit into 64 bits"}
    assert sum(update.events for update in done) > sum(update.interpreted for update in done)
    assert sum(update.deviations for update in done) > 100


def test_an_output_after_a_branch_within_a_branch_that_returns_is_not_that_of_all_events():
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    text += "        if event.payload > 2:\n            if event.payload > 5:\n                return state\n        emit(state)\n"
    program = program_of(text + "        return state + 1\n")
    batch = batch_of(list(range(9)))
    assert Compiled(program).fold(batch, 0) == interpreted(program, batch, 0)


def parts_one_by_one(text):
    """Assign the parts of a state one after the other: `return b, a` then loses a part."""
    return re.sub(r"^( *)(s0, .*) = (.*)$", apart, text, flags=re.MULTILINE)


def apart(found):
    names, values = found[2].split(", "), found[3].split(", ")
    return "\n".join(f"{found[1]}{name} = {value}" for name, value in zip(names, values, strict=True))


def counters_not_taken_back(text):
    return re.sub(r"^( *)c(\d+) -= 1$", r"\1pass", text, flags=re.MULTILINE)


def no_deviation(text):
    """Go on after an event that deviates, as if it had not."""
    return (
        text.replace("deviates = True", "deviates = False").replace("at = i", "pass").replace("break", "pass")
    )


MUTANTS = {
    "wrapping add": {"add_checked": lambda a, b: (within(a + b)[0], False)},
    "wrapping multiply": {"multiply_checked": lambda a, b: (within(a * b)[0], False)},
    "truncating //": {"floor_divide_checked": divided(lambda a, b: int(a / b))},
    "truncating %": {"modulo_checked": divided(lambda a, b: int(math.fmod(a, b)))},
    "ints as floats unchecked": {"exact_float": lambda a: (float(a), False)},
    "division by zero unchecked": {"divide_checked": lambda a, b: (a / b if b else 0.0, False)},
    "zero minus for minus": {"negated": lambda a: 0.0 - a},
    "counters not taken back": {"change": counters_not_taken_back},
    "state assigned part by part": {"change": parts_one_by_one},
    "deviations ignored": {"change": no_deviation},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_lowering_is_found(name):
    def mutant(loop):
        return by_python(loop, **MUTANTS[name])

    assert any(differs(seed, mutant)[0] for seed in range(400))


def test_a_mutant_that_keeps_the_row_of_a_deviating_event_is_found(monkeypatch):
    plain = Written.add
    monkeypatch.setattr(Written, "add", lambda self, start, stop, outputs: plain(self, start, start, outputs))
    assert any(wrong_or_raises(seed) for seed in range(400))


def wrong_or_raises(seed):
    try:
        return differs(seed)[0]
    except Exception:  # noqa: BLE001 - outputs that do not fit to rows
        return True
