"""Many windows folded by one compiled loop: each has the state of folding it event by event, or the same exception."""

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.errors import UserCodeError
from dgs.model.events import EventBatch
from dgs.semantics.sequential import without_batches
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from tests import programs
from tests.dgs.compiled.both_ways import batch_of, by_python, exact, program_of
from tests.dgs.compiled.random_programs import START, Writer

STATES = [START, (5, -7, -0.0, 2, False), (2**62, 2**63 - 1, float("nan"), None, True)]


def silent(seed):
    """Return a random program that emits nothing, its writer and its text."""
    writer = Writer(seed)
    text = re.sub(r"^( *)emit\(.*\)$", r"\1pass", writer.program(), flags=re.MULTILINE)
    return program_of(text), writer, text


def drawn(seed, writer):
    """Return a batch, the bounds of its windows, and their states."""
    draw = random.Random(seed)
    batch, _ = writer.batch()
    cuts = sorted(draw.sample(range(len(batch) + 1), draw.randint(1, len(batch))))
    starts, stops = np.array([0, *cuts[:-1]]), np.array(cuts)
    kept = starts < stops
    return batch, (starts[kept], stops[kept]), [draw.choice(STATES) for _ in range(int(kept.sum()))]


def event_by_event(program, batch, bounds, states):
    """Return the states after the windows, or the exception. The oracle."""
    found, events = [], list(batch.events())
    try:
        for state, start, stop in zip(states, *bounds, strict=True):
            for event in events[start:stop]:
                state = program.update(state, event, None)  # noqa: PLW2901 - a fold
            found.append(exact(state))
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error).__name__, str(error)
    return found


def differs(seed, translate=by_python):
    """Return whether windows have other states when they are folded at once, the text of the program, and the compiled update."""
    program, writer, text = silent(seed)
    loop = Folder(program, program.states()[0], "w")._loop
    update = CompiledUpdate(program.states()[0].update, loop.fold_batch, translate=translate)
    for number in range(4):
        batch, bounds, states = drawn(seed + number, writer)
        try:
            after = update.fold_windows(states, batch, bounds, []) if states else []
            got = after if after is None else [exact(state) for state in after]
        except UserCodeError as error:
            got = error.error.partition(": ")[0], error.error.partition(": ")[2]
        if got is not None and got != event_by_event(program, batch, bounds, states):
            return True, text, update
    return False, text, update


@given(st.integers(0, 2**32))
def test_windows_at_once_are_those_of_update(seed):
    for one in range(seed, seed + 3):
        is_wrong, text, _ = differs(one)
        assert not is_wrong, text


def test_random_windows_are_folded_by_the_loop():
    """Otherwise the interpreter would be compared with itself."""
    done = [differs(seed)[2] for seed in range(60)]
    assert sum(update.events for update in done) > 2 * sum(update.interpreted for update in done)
    assert sum(update.deviations for update in done) > 10


MUTANTS = {
    "a window goes on from the one before": lambda text: re.sub(r", w(\d)\[u64\(w\)\]", r", s\1 if w else w\1[u64(w)]", text),
    "a window that deviates is kept": lambda text: text.replace("at = w\n", "deviates = False\n").replace("            break\n        w0", "        w0"),
    "the last window is left out": lambda text: text.replace("range(first, last)", "range(first, last - 1)"),
    "the last event is left out": lambda text: text.replace("stops[u64(w)]", "stops[u64(w)] - 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_loop_over_windows_is_found(name):
    assert any(differs(seed, lambda loop: by_python(loop, MUTANTS[name]))[0] for seed in range(60))


@pytest.mark.usefixtures("machine")
def test_a_folder_folds_windows_in_machine_code_as_in_python(machine):
    program = without_batches(programs.EventWindow())
    numbers = np.random.default_rng(4).integers(-9, 9, 2000)
    numbers[[70, 900]] = 2**63 - 1
    batch = batch_of(numbers, tags=[dgs.Tag("value")])
    ends = np.sort(np.random.default_rng(5).integers(0, 2000, 30))
    keys = EventBatch.of("ends", rank=1, tags=[dgs.Tag("barrier")], ts=ends)
    found = []
    for translate in (None, machine):
        of = program.states()[0]
        folder, states = Folder(program, of, "w", Bounds(few_events=0)), [5] + [NOTHING] * 29
        if translate is not None:
            folder._compiled = CompiledUpdate(of.update, folder._loop.fold_batch, translate=translate)
        assert not folder.fold_windows(states, batch, keys)
        found.append([NOTHING if state is NOTHING else exact(state) for state in states])
    assert found[0] == found[1]
    assert folder._compiled.events + folder._compiled.interpreted == int(batch.positions_of(keys)[-1])
    assert folder._compiled.deviations > 0


def test_windows_whose_events_emit_are_folded_one_by_one():
    program = without_batches(programs.EchoWindow())
    of, batch = program.states()[0], batch_of(list(range(40)), tags=[dgs.Tag("value")])
    folder = Folder(program, of, "w", Bounds(few_events=0))
    folder._compiled = CompiledUpdate(of.update, folder._loop.fold_batch, translate=by_python)
    keys = EventBatch.of("ends", rank=1, tags=[dgs.Tag("barrier")], ts=[10, 20])
    states = [NOTHING, NOTHING, NOTHING]
    outputs = folder.fold_windows(states, batch, keys)
    assert sum(map(len, outputs)) > 20
    assert states[:2] == [sum(range(11)), sum(range(11, 21))]
