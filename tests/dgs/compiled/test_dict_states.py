"""States that are dicts by key: compiled equals interpreted in the entries, their order, and objects that are only kept."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs import codec
from dgs.compiled import compiled_update, states_as_arrays
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.compiled.update_loops import PATIENCE, TRIED_EVERY
from dgs.model import columns
from dgs.model.events import EventBatch
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, exact, interpreted, program_of
from tests.dgs.compiled.random_dict_programs import DictWriter


def differs(seed, translate=by_python):
    """Return whether a random program behaves differently when compiled, its text, and the compiled update."""
    writer = DictWriter(seed)
    text = writer.dict_program()
    program = program_of(text)
    compiled = Compiled(program, translate)
    for _ in range(3):
        batch, cuts = writer.dict_batch()
        if compiled.fold(batch, program.init(), cuts) != interpreted(program, batch, program.init()):
            return True, text, compiled.update
    return False, text, compiled.update


@given(st.integers(0, 2**32))
def test_compiled_equals_interpreted(seed):
    for one in range(seed, seed + 3):
        is_wrong, text, _ = differs(one)
        assert not is_wrong, text


def test_random_programs_are_compiled():
    """Otherwise the interpreter would be compared with itself."""
    done = [differs(seed)[2] for seed in range(100)]
    assert sum(update.events for update in done) > 2 * sum(update.interpreted for update in done)
    assert sum(update.deviations for update in done) > 10


def not_written(text):
    return text.replace("d_dirty[k] = True", "pass")


def order_of_keys_lost(text):
    return text.replace("d_stamps[k] = d_clock[0]", "d_stamps[k] = 0")


def absent_key_unnoticed(text):
    return re.sub(r"if not t\d+_\d+:(\s+deviates)", r"if False:\1", text)


def written_before_it_is_certain(text):
    """Write an entry in each event, changed or not."""
    return re.sub(r"if t\d+_\d+:(\s+if not d_there)", r"if True:\1", text)


def one_entry_for_all_keys(text):
    return re.sub(r"k = u64\(.*", "k = 0", text)


@pytest.mark.parametrize(
    "change",
    [
        not_written,
        order_of_keys_lost,
        absent_key_unnoticed,
        one_entry_for_all_keys,
        written_before_it_is_certain,
    ],
)
def test_a_mutant_of_the_lowering_is_found(change):
    assert any(differs(seed, lambda loop: by_python(loop, change))[0] for seed in range(400))


def test_a_mutant_that_takes_the_object_of_another_row_is_found(monkeypatch):
    other = SimpleNamespace(
        take=lambda column, rows: columns.take(column, rows[::-1]), to_list=columns.to_list
    )
    monkeypatch.setattr(states_as_arrays, "columns", other)
    assert any(differs(seed)[0] for seed in range(400))


KEEPS_RECORDS = """
class P(dgs.Program):
    def init(self): return {}
    def update(self, state, event, emit):
        key = event.tag.key
        if event.tag.kind == A:
            emit({"now": event.payload, "before": state.get(key)})
        else:
            state[key] = event.payload
        return state
"""


def test_records_are_kept_as_objects(machine):
    rng = np.random.default_rng(5)
    tags = [dgs.Tag(kind, key) for kind in "ab" for key in ("JFK", "EWR")]
    payload = {
        "temp": rng.random(500),
        "wind": rng.integers(0, 9, 500),
        "sky": [f"s{n % 3}" for n in range(500)],
    }
    batch = batch_of(payload, tags=tags, codes=rng.integers(0, 4, 500))
    program = program_of(KEEPS_RECORDS)
    compiled = Compiled(program, machine)
    assert compiled.fold(batch, {}, [100, 350]) == interpreted(program, batch, {})
    assert (compiled.update.events, compiled.update.interpreted) == (500, 0)


def test_entries_of_other_keys_are_left_as_they_are():
    program = program_of(KEEPS_RECORDS)
    kept = {"odd": [object()], "p": "old"}
    compiled = Compiled(program)
    batch = batch_of([1, 2], tags=[dgs.Tag("b", "p")], codes=[0, 0])
    made = []
    state = compiled.update.fold(kept, batch, made)
    assert state is kept
    assert list(state) == ["odd", "p"]
    assert state["p"] == 2


def test_an_entry_that_was_just_stored_is_read_again():
    text = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n        k = event.tag.key\n"
    text += "        state[k] = (state.get(k, (0, 0))[1], event.payload)\n        emit((k, state[k]))\n        return state\n"
    program = program_of(text)
    batch = batch_of(np.arange(20), tags=[dgs.Tag("a", 1), dgs.Tag("a", 2)], codes=[n % 2 for n in range(20)])
    compiled = Compiled(program)
    assert compiled.fold(batch, {}) == interpreted(program, batch, {})
    assert compiled.update.events == len(batch)


def test_an_event_that_deviates_after_a_change_has_changed_nothing():
    text = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n        k = event.tag.key\n"
    text += "        if k not in state:\n            state[k] = 0\n        state[k] += event.payload\n        emit(state[k])\n"
    text += (
        "        if state[k] // (event.payload - 3) > 5:\n            state[k] = 1\n        return state\n"
    )
    program = program_of(text)
    tags = [dgs.Tag("a", 1), dgs.Tag("a", 2)]
    batch = batch_of([2**62, 1, 2**62, 2, 9, 2**62, 5], tags=tags, codes=[0, 1, 0, 1, 1, 0, 1])
    compiled = Compiled(program)
    assert compiled.fold(batch, {}) == interpreted(program, batch, {})
    assert compiled.update.deviations > 0
    failing = batch_of([1, 3], tags=tags, codes=[0, 0])
    assert compiled.fold(failing, {}) == interpreted(program, failing, {})


@pytest.mark.parametrize("keys", [(1, "1"), (1.5, 2.5), ((1, 2), (3, 4))])
def test_keys_that_may_be_equal_and_differ_are_interpreted(keys):
    program = program_of(KEEPS_RECORDS)
    compiled = Compiled(program)
    batch = batch_of([1, 2, 3], tags=[dgs.Tag("b", key) for key in keys], codes=[0, 1, 0])
    assert compiled.fold(batch, {}) == interpreted(program, batch, {})
    assert "are not compiled for a dict" in str(next(iter(compiled.update.refusals.values())))


@pytest.mark.parametrize(
    ("state", "why"), [({"n": 0}, "the events have no key"), ([0], "a state with a value of type list")]
)
def test_a_state_that_is_not_compiled_says_what_is(state, why):
    compiled = Compiled(program_of(KEEPS_RECORDS))
    refusal = compiled.update.text(state, batch_of([1, 2]))
    assert why in str(refusal)
    assert "NamedTuple" in str(refusal)


@pytest.mark.parametrize(("keys", "is_compiled"), [(100, False), (8, True)])
def test_few_events_of_many_keys_are_interpreted(keys, is_compiled):
    """Copying their entries into arrays and back would not pay."""
    program = program_of(KEEPS_RECORDS)
    compiled = Compiled(program)
    batch = batch_of(
        list(range(200)), tags=[dgs.Tag("b", key) for key in range(100_000)], codes=np.arange(200) % keys
    )
    assert compiled.fold(batch, {}) == interpreted(program, batch, {})
    assert (compiled.update.events > 0) is is_compiled
    assert not compiled.update.refusals


@pytest.mark.parametrize("first", [0, 1500])
def test_a_key_that_comes_late_in_a_batch_has_its_slot(first):
    text = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n"
    text += "        k = event.tag.key\n        emit(state.get(k))\n        state[k] = event.payload\n        return state\n"
    program = program_of(text)
    codes = np.zeros(1600, np.int32)
    codes[first::3] = 1
    batch = batch_of(np.arange(1600), tags=[dgs.Tag("a", 7), dgs.Tag("a", 8), dgs.Tag("a", 9)], codes=codes)
    compiled = Compiled(program)
    assert compiled.fold(batch, {}) == interpreted(program, batch, {})
    assert compiled.update.events == len(batch)


@pytest.mark.parametrize("is_compiled_first", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_a_state_that_was_saved_is_folded_on_in_the_other_mode(seed, is_compiled_first):
    """Checkpoints hold encoded states, so a run may be resumed with another `compile:`."""
    writer = DictWriter(seed)
    program = program_of(writer.dict_program())
    batch, _ = writer.dict_batch()
    wanted = interpreted(program, batch, program.init())
    if len(wanted) > 2:
        return  # it raises
    update, middle = Compiled(program).update, len(batch) // 2
    modes = (update.fold, update._interpret) if is_compiled_first else (update._interpret, update.fold)
    state = modes[0](program.init(), batch.cut(0, middle), []) if middle else program.init()
    saved = codec.encode(state, keeps_order=True)
    assert exact(modes[1](codec.decode(saved), batch.cut(middle, len(batch)), [])) == wanted[0]


def test_a_dict_is_folded_in_machine_code_batch_by_batch(machine):
    text = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n"
    text += "        k = event.tag.key\n        if k not in state or state[k] < event.payload: emit(k)\n"
    text += "        state[k] = event.payload\n        return state\n"
    program, tags = program_of(text), [dgs.Tag("a", key) for key in ("p", "q")]
    compiled = Compiled(program, machine)
    events = batch_of([3, 1, 4, 1, 5, 9, 2, 6], tags=tags, codes=[0, 1, 0, 0, 1, 0, 1, 1])
    assert compiled.fold(events, {}, [2, 5]) == interpreted(program, events, {})
    assert compiled.update.interpreted == 0


KINDS = "class P(dgs.Program):\n    def init(self): return {}\n    def update(self, state, event, emit):\n"


@pytest.mark.parametrize(("keys", "is_compiled"), [(40, True), (150, False)])
def test_the_keys_of_several_kinds_are_counted_once(keys, is_compiled):
    """An entry is moved once for all tags of its key."""
    text = (
        KINDS
        + "        state[event.tag.key] = state.get(event.tag.key, 0) + event.payload\n        return state\n"
    )
    tags = [dgs.Tag(kind, key) for kind in "abc" for key in range(keys)]
    batch = EventBatch.of(
        "s", rank=0, tags=tags, ts=np.arange(480), codes=np.arange(480) % len(tags), payload=np.arange(480)
    )
    program = program_of(text)
    update = CompiledUpdate(program.update, lambda state, *_: state, translate=by_python)
    state = update.fold({}, batch, [])
    assert (update.events == 480) == is_compiled
    if is_compiled:
        wanted = {}
        for event in batch.events():
            wanted = program.update(wanted, event, None)
        assert list(state.items()) == list(wanted.items())


def test_an_update_that_is_always_refused_is_tried_rarely_and_taken_when_it_can_be(monkeypatch):
    tried = []

    def keys_of(state, batches):
        tried.append(state)
        return states_as_arrays.keys_of(state, batches)

    monkeypatch.setattr(compiled_update, "keys_of", keys_of)
    program = program_of(KINDS + "        return state + event.payload\n")
    update = CompiledUpdate(program.update, lambda state, *_: state, translate=by_python)
    batch, times = batch_of([1, 2, 3]), PATIENCE + 3 * TRIED_EVERY
    for _ in range(times):
        assert update.fold({1}, batch, []) == {1}
    assert update.interpreted == 3 * times
    assert len(tried) <= PATIENCE + 4
    for _ in range(TRIED_EVERY):
        state = update.fold(0, batch, [])
    assert state == 6
    assert update.fold(1, batch, []) == 7
