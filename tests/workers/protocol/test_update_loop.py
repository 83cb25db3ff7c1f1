"""The loop around `update`: every output has the row and index of its event, however densely events emit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs import EventBatch, Program, Tag
from dgs.model.user_code import UserCode
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.update_loop import ScalarLoop
from dgs.workers.protocol.releases import Release


class Emits(Program):
    """An event emits as often as its payload says; the state counts the events."""

    def init(self):
        return 0

    def update(self, state, event, emit):
        for number in range(event.payload):
            emit((event.stream, event.ts, number))
        return state + 1


def batch(name, rank, ts, emits):
    return EventBatch.of(name, rank=rank, tags=[Tag("n")], ts=ts, payload=emits)


def told(outputs):
    """Return the origins of the outputs, in their order, with their values."""
    return [
        ((made.stream, ts, index), value)
        for made in outputs
        for ts, index, value in zip(made.ts.tolist(), made.index.tolist(), made.to_list(), strict=True)
    ]


def emitted(name, ts, emits):
    return [(name, time, number) for time, count in zip(ts, emits, strict=True) for number in range(count)]


rows = st.lists(st.one_of(st.just(1), st.integers(0, 2)), max_size=12)
"""The number of outputs of each event of a batch: mostly one, as in dense programs, which need no rows."""


@given(st.lists(rows, max_size=4))
def test_outputs_of_batches_have_the_rows_of_their_events(batches):
    program, outputs, state = Emits(), [], 0
    loop = ScalarLoop(UserCode(program, "w"), program.update)
    wanted = []
    for number, emits in enumerate(batches):
        ts = [100 * number + row for row in range(len(emits))]
        state = loop.fold_batch(state, batch("s", 0, ts, emits), outputs)
        wanted += emitted("s", ts, emits)
    assert told(outputs) == [(key, key) for key in wanted]
    assert state == sum(map(len, batches))


@given(rows, rows, st.integers(1, 3))
def test_outputs_of_merged_batches_have_the_rows_of_their_events(left, right, repeats):
    times = [2 * row for row in range(len(left))], [3 * row for row in range(len(right))]
    parts = [batch("left", 0, times[0], left), batch("right", 1, times[1], right)]
    release = Release((0, 1), [part for part in parts if len(part)])
    program = Emits()
    loop = ScalarLoop(UserCode(program, "w"), program.update)
    wanted = sorted(emitted("left", times[0], left) + emitted("right", times[1], right))
    for _ in range(repeats if release.batches else 0):  # its count depends on earlier events
        outputs = []
        assert loop.fold_merged(0, release, outputs) == len(left) + len(right)
        assert sorted(told(outputs)) == [(key, key) for key in wanted]


class EmitsColumns(Emits):
    """The same with an `update_batch`."""

    def update_batch(self, state, batch, emit_batch):
        rows = [row for row, count in enumerate(batch.payload) for _ in range(count)]
        emit_batch([(batch.stream, int(batch.ts[row]), 0) for row in rows], rows)
        return state + len(batch)


@pytest.mark.parametrize(
    ("made", "length", "is_merged"), [(Emits, 40, True), (Emits, 200, False), (EmitsColumns, 40, False)]
)
def test_stretches_that_a_merge_costs_less_than_are_merged(made, length, is_merged):
    """A stretch costs as much as some dozens of events in a merge, and saves nothing where `update` is called for each event anyway."""
    program, ticks = made(), list(range(length, 5 * length, length))
    dense = batch("dense", 0, list(range(5 * length)), [1] * 5 * length)
    release = Release((0, 1), [dense, batch("ticks", 1, ticks, [1] * len(ticks))], {0: (1,), 1: (0,)})
    state, outputs = Folder(program, program.states()[0], "w").fold(0, release)
    assert state == len(release)
    assert sum(map(len, outputs)) == len(release)
    assert (len(outputs) == 2) == is_merged  # a merge emits the outputs of each stream together
