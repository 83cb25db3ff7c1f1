"""Typical programs of users are compiled, and equal the interpreter."""

import random

import numpy as np
import pyarrow as pa
import pytest

import dgs
from tests.dgs.compiled.both_ways import (
    Compiled,
    batch_of,
    by_python,
    exact,
    interpreted,
    program_of,
    without_limit,
)
from tests.dgs.compiled.ordinary_programs import KEYED, PROGRAMS
from tests.dgs.compiled.random_programs import EDGES, FLOATS

BATCHES = 12
FIT = "an int of the state does not fit into 64 bits"


def batch(draw, keys):
    """Return a batch of events of two kinds."""
    count, large = draw.randint(1, 14), draw.choice([0.0, 0.0, 0.1, 0.4])
    payload = {
        "x": np.array(
            [draw.choice(EDGES) if draw.random() < large else draw.randint(-5, 5) for _ in range(count)]
        ),
        "y": np.array(
            [
                draw.choice(FLOATS) if draw.random() < large else draw.randint(-50, 50) / 4
                for _ in range(count)
            ]
        ),
        "z": np.array([draw.random() < 0.5 for _ in range(count)]),
        "s": [draw.choice(["u", "vw", "x"]) for _ in range(count)],
    }
    tags = [dgs.Tag(kind, key) for kind in "ab" for key in keys]
    return batch_of(payload, tags=tags, codes=[draw.randrange(len(tags)) for _ in range(count)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_compiled_and_equals_the_interpreter(name, monkeypatch):
    without_limit(monkeypatch)
    program = program_of(PROGRAMS[name].lstrip())
    compiled = Compiled(program)
    for seed in range(BATCHES):
        events = batch(random.Random(seed), ("p", "q") if name in KEYED else (None,))
        assert compiled.fold(events, program.init(), [len(events) // 2]) == interpreted(
            program, events, program.init()
        )
    assert {str(one) for one in compiled.update.refusals.values()} <= {FIT}
    assert compiled.update.events > 2 * compiled.update.interpreted


def test_none_in_place_of_a_state_is_an_error_unless_the_first_state_is_none():
    text = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n"
    text += "        emit(state)\n        return event.payload if event.payload > 2 else None\n"
    events = batch_of([5, 1, 7, 2, 2, 8])
    compiled = Compiled(program_of(text.format(0)))
    with pytest.raises(dgs.DgsError, match="returned None") as caught:
        compiled.update.fold(0, events, [])
    assert caught.value.seq == 1
    program = program_of(text.format(None))
    compiled = Compiled(program)
    assert compiled.fold(events, None) == interpreted(program, events, None)
    assert compiled.update.interpreted == 0


def test_a_method_of_a_base_that_is_replaced_is_lowered_again():
    program = program_of(PROGRAMS["super"].lstrip())
    base = type(program).__mro__[1]
    compiled, events = Compiled(program), batch(random.Random(1), (None,))
    first = compiled.fold(events, 0)
    base.update = lambda _self, state, event, _emit: state - event.payload["x"]
    assert compiled.fold(events, 0) == interpreted(program, events, 0) != first
    assert exact(program.update(1, events.events()[0], [].append)) == exact(
        1 - events.events()[0].payload["x"]
    )


@pytest.mark.parametrize(
    "column",
    [
        ["u", None, "vw", "", "vw"],
        [None] * 5,
        pa.array(["u", None, "vw", "", "vw"]),
        pa.array(["u", "x", "vw", "", "vw"], pa.large_string()),
        pa.array(["u", None, "vw", "", "vw"]).dictionary_encode(),
        pa.chunked_array([["u", None], ["vw", "", "vw"]]),
    ],
)
def test_texts_in_any_form_are_compared(column, machine):
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n        s = event.payload\n"
    text += "        emit((s == 'vw', s != '', s is None, s in ('u', None), s not in ('u', 3), s == 1, 'é' == s, s == A))\n        return state\n"
    program = program_of(text)
    compiled, events = Compiled(program, machine), batch_of(column)
    assert compiled.fold(events, 0, [2]) == interpreted(program, events, 0)
    assert compiled.update.interpreted == 0


@pytest.mark.parametrize("keys", [("p", "q"), (1, 2), (True, False), (1.0, 2.5)])
def test_keys_are_compared_with_constants(keys):
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n        k = event.tag.key\n"
    text += "        emit((k == 'p', k != 1, k == True, k == 1.0, k in (2, 'q'), k is None, k))\n        return state\n"
    program, tags = program_of(text), [dgs.Tag("a", key) for key in keys]
    compiled, events = Compiled(program), batch_of([1, 2, 3], tags=tags, codes=[0, 1, 0])
    assert compiled.fold(events, 0) == interpreted(program, events, 0)
    assert compiled.update.interpreted == 0


def test_statements_with_others_inside_are_refused_with_their_first_line():
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    text += "        try:\n            one = 10 // event.payload\n        except ZeroDivisionError:\n            one = 0\n        return one\n"
    program = program_of(text)
    compiled, events = Compiled(program), batch_of([1, 0, 3])
    assert compiled.fold(events, 0) == interpreted(program, events, 0)
    assert "`try:` is not compiled" in str(next(iter(compiled.update.refusals.values())))


@pytest.mark.parametrize("way", ["python", "machine"])
def test_caches_between_batches_fit_the_next_one(way, machine):
    text = "class P(dgs.Program):\n    step = 1\n    def init(self): return None\n    def update(self, state, event, emit):\n"
    text += "        n = event.payload\n        if n is None or n > 3: return None\n        if state is not None: emit(state * self.step)\n        return n\n"
    program = program_of(text)
    compiled = Compiled(program, machine if way == "machine" else by_python)
    state = None
    for payload in (
        *(np.array(one) for one in ([1, 2], [3, 4, 1], [2])),
        np.array([1.5, 2.5]),
        np.array([1, 9], np.int8),
        [True, 2],
        pa.array([1, None, 2]),
        np.array([3, 2**62]),
        np.arange(10)[::3],
    ):
        program.step += len(payload) % 2
        events = batch_of(payload)
        wanted = interpreted(program, events, state)
        assert compiled.fold(events, state, [1]) == wanted
        for event in events.events():
            state = program.update(state, event, [].append)
    assert compiled.update.events > 8
