"""Calls of the user's own functions are inlined: the results are equal, and every mutant of the inlining is found."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs.compiled.lowering.inlined_calls import MOST_DEEP, InlinedCalls
from dgs.compiled.lowering.statements import Lowering
from dgs.compiled.update_loops import MOST_CHANGES
from dgs.monoids import COUNT, MAX, MEAN, SUM, Windows
from dgs.semantics.sequential import without_batches
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, differing, interpreted, program_of
from tests.dgs.compiled.random_calls import CallWriter
from tests.dgs.compiled.random_programs import START

A, B = dgs.kind("a"), dgs.kind("b")


def differs(seed, translate=by_python):
    """Return whether a random program behaves differently when compiled, its text, and the compiled update."""
    return differing(CallWriter(seed), START, translate)


@given(st.integers(0, 2**32))
def test_compiled_equals_interpreted(seed):
    is_wrong, text, _ = differs(seed)
    assert not is_wrong, text


def test_random_programs_with_calls_are_compiled():
    """Otherwise the interpreter would be compared with itself."""
    done = [differs(seed)[2] for seed in range(60)]
    assert sum(update.events for update in done) > sum(update.interpreted for update in done)


def rest_is_dropped(patch):
    plain = InlinedCalls._value_of_if
    patch.setattr(InlinedCalls, "_value_of_if", lambda self, node, rest: plain(self, node, rest[-1:]))


def names_leak(patch):
    plain = InlinedCalls._inside

    @contextmanager
    def leaking(self, function, names):
        before = self.names
        with plain(self, function, names):
            yield
        self.names = {**before, **{name: value for name, value in names.items() if name in before}}

    patch.setattr(InlinedCalls, "_inside", leaking)


def parameters_in_another_order(patch):
    plain = InlinedCalls._parameters

    def turned(self, function, given, named):
        return plain(self, function, [*given[:1], *given[2:0:-1], *given[3:]], named)

    patch.setattr(InlinedCalls, "_parameters", turned)


def sites_count_as_certain(patch):
    plain = Lowering._emit

    def emit(self, call):
        before, self._is_certain = self._is_certain, not self._sites.are_some
        plain(self, call)
        self._is_certain = before

    patch.setattr(Lowering, "_emit", emit)


@pytest.mark.parametrize(
    "mutate", [rest_is_dropped, names_leak, parameters_in_another_order, sites_count_as_certain]
)
def test_a_mutant_of_inlining_is_found(mutate, monkeypatch):
    mutate(monkeypatch)
    assert any(wrong_or_raises(seed) for seed in range(300))


def wrong_or_raises(seed):
    try:
        return differs(seed)[0]
    except Exception:  # noqa: BLE001 - outputs that do not fit to rows
        return True


class Sums(Windows):
    monoid, accumulates, closes = SUM, (A,), (B,)


class Counts(Windows):
    monoid, accumulates, closes = COUNT, (A,), (B,)


class Means(Windows):
    monoid, accumulates, closes = MEAN, (A,), (B,)


class Doubled(Windows):
    """Has its own value and its own closing."""

    monoid, accumulates, closes, factor = SUM, (A,), (B,), 2

    def value(self, event):
        return event.payload * self.factor

    def close(self, state, event, emit):
        if state > 0:
            emit((state, event.ts))
        return event.payload


@pytest.mark.parametrize("program", [Sums, Counts, Means, Doubled])
def test_programs_made_of_scalar_monoids_are_compiled(program, machine):
    rng = np.random.default_rng(5)
    payload = rng.integers(-9, 9, 500)
    payload[77] = 2**63 - 1
    batch = batch_of(payload, tags=[A(), B()], codes=(rng.integers(0, 9, 500) == 0).astype(np.int32))
    program = without_batches(program())
    compiled = Compiled(program, machine)
    assert compiled.fold(batch, program.init(), [100]) == interpreted(program, batch, program.init())
    assert compiled.update.events > 400


def test_a_state_that_is_none_at_first_is_compiled():
    class Greatest(Windows):
        monoid, accumulates, closes = MAX, (A,), (B,)

    program = without_batches(Greatest())
    compiled = Compiled(program)
    batch = batch_of(np.arange(9))
    assert compiled.fold(batch, None) == interpreted(program, batch, None)
    assert (compiled.update.events, compiled.update.refusals) == (9, {})


HEAD = "class P(dgs.Program):\n    def init(self): return 0\n"


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ("def m(self, x): return self.m(x)", f"`self.m` calls itself, or calls go deeper than {MOST_DEEP}"),
        ("def m(self, *x): return x[0]", "`*` and `/` in functions and their calls are not compiled"),
        ("def m(self, x, y=[]): return x", "it is called without some of its parameters"),
        ("m = staticmethod(ascii)", "a call of `self.m` is not compiled"),
        ("@property\n    def m(self): return ascii", "a call of `self.m` is not compiled"),
        ("def m(self, x):\n        raise ValueError(x)", "a state with nothing in it"),
    ],
)
def test_a_call_that_is_not_compiled_says_why(methods, why):
    text = f"{HEAD}    {methods}\n    def update(self, state, event, emit):\n        return self.m(event.payload)\n"
    compiled = Compiled(program_of(text))
    compiled.fold(batch_of(np.arange(9)), 0)
    assert why in str(*compiled.update.refusals.values())


def test_a_method_that_is_replaced_is_lowered_again():
    text = f"{HEAD}    def m(self, x): return x\n    def update(self, state, event, emit):\n        return self.m(event.payload)\n"
    program = program_of(text)
    compiled, batch = Compiled(program), batch_of(np.arange(9))
    compiled.fold(batch, 0)
    other = program_of(text.replace("return x", "return x + 7"))
    type(program).m = type(other).m
    assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert compiled.update.events == 2 * len(batch)


def test_a_method_that_reads_the_stream_gets_its_name():
    """The class of lanes has the name only if the program reads it."""
    text = (
        f"{HEAD}    def m(self, event): return self.of(event)\n    def of(self, event): return event.stream\n"
    )
    text += (
        "    def update(self, state, event, emit):\n        emit(self.m(event))\n        return state + 1\n"
    )
    program, batch = program_of(text), batch_of(np.arange(9))
    compiled = Compiled(program)
    assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert compiled.update.events == len(batch)


def test_a_method_that_raises_or_has_a_default_is_compiled_where_it_does_not_raise():
    text = f"{HEAD}    def m(self, x, y=3):\n        if x > y:\n            raise ValueError(f'{{x}} > {{y}}')\n        return x\n"
    text += "    def update(self, state, event, emit):\n        return self.m(event.payload) + self.m(event.payload, 7)\n"
    program, batch = program_of(text), batch_of(np.arange(9))
    compiled = Compiled(program)
    assert compiled.fold(batch, 0)[:2] == ("ValueError", "4 > 3")
    assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    type(program).m.__defaults__ = (6,)
    assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert not compiled.update.refusals


def test_constants_that_keep_changing_are_interpreted_after_a_while():
    """Each change needs another loop, and a process to compile it."""
    text = f"{HEAD}    def update(self, state, event, emit):\n        return state + self.limit\n"
    program, batch, made = program_of(text), batch_of(np.arange(9)), []
    compiled = Compiled(program, lambda loop: made.append(loop) or by_python(loop))
    for program.limit in range(1000, 1000 + 3 * MOST_CHANGES):
        assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert len(made) == MOST_CHANGES + 1
    assert "has changed more than" in str(*compiled.update.refusals.values())


class Odd:
    """Equal to everything; counts comparisons."""

    asked = 0

    def __eq__(self, other):
        type(self).asked += 1
        return True

    __hash__ = None


@pytest.mark.parametrize(
    "test",
    ["self.odd in (1, 2)", "self.odd == 1", "self.odd is None", "self.odd", "(self.odd, 1) in ((1, 1),)"],
)
def test_an_object_of_the_user_is_never_asked_when_update_is_lowered(test):
    text = f"{HEAD}    def update(self, state, event, emit):\n        if {test}:\n            emit(1)\n        return state\n"
    program = program_of(text)
    program.odd = Odd()
    Odd.asked = 0
    compiled = Compiled(program)
    batch = batch_of(np.arange(9))
    assert compiled.update.text(0, batch).why
    assert Odd.asked == 0
