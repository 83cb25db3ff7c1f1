"""Partial states that the compiled loop joins before events: equal to `join` and `update`, event by event."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs.compiled.cheaper_way import CheaperWay
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.errors import UserCodeError
from dgs.model.events import EventBatch
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from tests.dgs.compiled.both_ways import by_python, exact

INTS = st.integers(-9, 9) | st.sampled_from([2**62, -(2**63), 2**63 - 1, 2**70])
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, math.inf])


class Sums(dgs.Program):
    """Keeps a sum, and emits it before each event."""

    def init(self):
        return 0

    def join(self, left, right):
        return left + right

    def update(self, state, event, emit):
        emit(state)
        return state + event.payload


class Least(Sums):
    """Keeps the least number, None at first; the join has branches, and one that raises."""

    def join(self, left, right):
        if left is None:
            return right
        if right is None:
            return left
        if left == right == 7:
            raise ValueError("seven twice")
        return min(left, right)

    def update(self, state, event, emit):
        if state is not None and event.payload > 3:
            emit(("least", state))
        return event.payload if state is None else min(state, event.payload)


class Mean(NamedTuple):
    """The sum of some numbers, and how many there are."""

    total: float = 0.0
    count: int = 0


class Means(Sums):
    """Keeps a mean; its join is static."""

    @staticmethod
    def join(left, right):
        return Mean(left.total + right.total, left.count + right.count)

    def update(self, state, event, emit):
        if state.count % 2:
            emit(state.total / state.count)
        return Mean(state.total * 0.5, event.payload % 3)


class Kept(Sums):
    """A program whose join does not change the state."""

    def join(self, left, right):
        return (left * 3 + right) % 1000

    def update(self, state, event, emit):
        emit(event.payload)
        return state


STATES = {
    Sums: INTS,
    Least: st.none() | INTS,
    Means: st.builds(Mean, FLOATS, INTS) | st.builds(Mean, INTS, st.just(1)),
    Kept: INTS,
}


def sequential(program, state, batch, parts):
    """Return the state and the outputs of each event, or the exception. The oracle."""
    outputs = []
    for number, event in enumerate(batch.events()):
        got = []
        try:
            for own in parts:
                if own[number] is not NOTHING:
                    state = program.join(state, own[number])
            state = program.update(state, event, got.append)
        except Exception as error:  # noqa: BLE001 - whatever it is
            return type(error).__name__, str(error)
        outputs += [(number, index, exact(one)) for index, one in enumerate(got)]
    return exact(state), outputs


def compiled(program, state, batch, parts, translate):
    """Return the same by a folder whose joins are compiled, and its update."""
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=0))
    folder._cheaper_joins = CheaperWay()
    folder._compiled = update = CompiledUpdate(program.update, folder._loop.fold_batch, translate=translate)
    try:
        state, made = folder.fold_joined(state, batch, parts)
    except UserCodeError as error:
        return (error.error.partition(": ")[0], error.error.partition(": ")[2]), update
    outputs = [
        (seq, index, exact(value))
        for one in made
        for seq, index, value in zip(
            np.asarray(one.seq).tolist(), one.index.tolist(), one.to_list(), strict=True
        )
    ]
    return (exact(state), sorted(outputs, key=lambda one: one[:2])), update


def cases(draw, of):
    count, children = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    states = STATES[of]
    batch = EventBatch.of("s", rank=0, tags=[dgs.Tag("a")], ts=np.arange(count), payload=np.arange(count) % 7)
    parts = draw(
        st.lists(
            st.lists(st.just(NOTHING) | states, min_size=count, max_size=count),
            min_size=children,
            max_size=children,
        )
    )
    return of(), draw(states), batch, parts


@given(st.data(), st.sampled_from(list(STATES)))
def test_joined_states_are_those_of_join_and_update(data, of):
    program, state, batch, parts = cases(data.draw, of)
    got, _ = compiled(program, state, batch, parts, by_python)
    assert got == sequential(program, state, batch, parts)


PLAIN = {Sums: lambda n: n - 4, Least: lambda n: None if n % 5 == 2 else n % 6, Means: lambda n: Mean(n / 3, n), Kept: lambda n: n % 2}  # fmt: skip


def plain_case(of, count=60):
    """Return a case in which nothing deviates."""
    batch = EventBatch.of("s", rank=0, tags=[dgs.Tag("a")], ts=np.arange(count), payload=np.arange(count) % 7)
    parts = [
        [NOTHING if (n + child) % 3 == 0 else PLAIN[of](n + child) for n in range(count)]
        for child in range(3)
    ]
    return of(), PLAIN[of](2), batch, parts


@pytest.mark.parametrize("of", STATES)
def test_joins_are_machine_code(of, machine):
    case = plain_case(of)
    got, update = compiled(*case, machine)
    assert got == sequential(*case)
    assert (update.events, update.interpreted) == (60, 0)


def always_there(text):
    return text.replace("if there0_here:", "if True:")


def never_there(text):
    return text.replace("if there1_here:", "if False:")


def parts_of_another_child(text):
    return text.replace("p1_0_here = p1_0[u]", "p1_0_here = p0_0[u]")


@pytest.mark.parametrize("change", [always_there, never_there, parts_of_another_child])
@pytest.mark.parametrize("of", [Sums, Means, Kept])
def test_a_mutant_of_the_join_is_found(of, change):
    case = plain_case(of)
    assert compiled(*case, lambda loop: by_python(loop, change))[0] != sequential(*case)


class Appends(Sums):
    """A program whose join the compiler does not accept."""

    def join(self, left, right):
        return int(f"{left}{abs(right)}") % 1000


def test_a_join_that_is_not_compiled_is_interpreted_even_if_update_must_be_compiled():
    program, state, batch, parts = plain_case(Sums)
    program = Appends()
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=0))
    folder._cheaper_joins = CheaperWay()
    folder._compiled = update = CompiledUpdate(
        program.update, folder._loop.fold_batch, is_required=True, translate=by_python
    )
    state, outputs = folder.fold_joined(state, batch, parts)
    wanted, _ = sequential(program, PLAIN[Sums](2), batch, parts)
    assert exact(state) == wanted
    assert sum(map(len, outputs)) == 60
    assert "in `join`" in str(update.refusals["a",])
