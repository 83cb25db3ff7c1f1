"""Programs with `emits_columns`, wherever their `update` is called outside a run: each caller gives an `emit` that has `column`."""

from __future__ import annotations

import numpy as np
import pytest

import dgs
from dgs.bench.contestants import folded
from dgs.check.drawing.time_steps import passes
from dgs.flow import flow
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.semantics import sequential
from dgs.vectorised import by_kind, one_by_one
from dgs.workers.protocol.lanes import Lane
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.oracles import Truth

ADD, LIST = dgs.kind("add"), dgs.kind("list")
FEW = 40
EVENTS = [dgs.Event(ADD(), "adds", 1, 3), dgs.Event(LIST(), "adds", 2, None)]


class Ranges(dgs.Program):
    """Adds numbers; a listing emits the numbers below their sum, and starts again."""

    depends = dgs.Dependence((LIST, LIST, dgs.ALWAYS), (LIST, ADD, dgs.ALWAYS))
    accumulates = (ADD,)
    emits_columns = True

    def init(self):
        return 0

    identity = init

    def update(self, state, event, emit):
        if event.tag.kind == ADD:
            return state + event.payload % 5
        emit("below")
        emit.column(np.arange(state))
        return 0

    def join(self, left, right):
        return left + right


class InBatches(Ranges):
    """The same, with additions in columns and listings one by one."""

    def update_batch(self, state, batch, emit_batch):
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == ADD:
                state += sum(number % 5 for number in columns.to_list(run.payload))
            else:
                state = one_by_one(self.update, state, run, emit)
        return state


class Kept(Ranges):
    """Emits a column that is also its state, and changes it later."""

    def init(self):
        return np.zeros(3, dtype=np.int64)

    identity = init

    def update(self, state, event, emit):
        if event.tag.kind == ADD:
            state += event.payload
        else:
            emit.column(state)
        return state


class Slow(dgs.Program):
    """Emits a column, and loops over all times that have passed."""

    emits_columns = True

    def __init__(self, gap):
        self.gap = gap

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit.column([event.ts])
        while state < event.ts:
            state += 1
        return state


class Refusing(Ranges):
    """Refuses negative numbers."""

    def update(self, state, event, emit):
        if event.payload is not None and event.payload < 0:
            raise ValueError
        return super().update(state, event, emit)


@pytest.mark.parametrize("make", [Ranges, InBatches])
def test_check_passes_them_and_guesses_their_payloads(make):
    report = dgs.check(make, max_examples=FEW)
    assert report, str(report)


def test_check_finds_a_column_that_changes_after_it_was_emitted():
    (found,) = dgs.check(Kept, max_examples=FEW, strategies={"add": int, "list": [None]}).broken
    assert (found.law, found.finding.what) == (
        "ownership",
        "an output of list changed after it was emitted",
    )


def test_time_does_not_jump_where_their_updates_would_take_forever():
    assert max(passes(Slow(10**14), [(dgs.Tag("n"), None)])) == 1


def test_one_by_one_emits_columns_with_the_row_of_their_event():
    found = []
    batch = EventBatch.of(
        "s", rank=0, tags=[ADD(), LIST()], codes=[0, 1, 1], ts=[1, 2, 3], payload=[2, None, None]
    )
    one_by_one(Ranges().update, 0, batch, lambda *given: found.append(given))
    ((values, rows),) = found
    assert (values, rows.tolist()) == (["below", 0, 1, "below"], [1, 1, 1, 2])


def test_one_by_one_leaves_a_lone_column_an_array():
    found = []
    batch = EventBatch.of("s", rank=0, tags=[LIST()], ts=[1])
    one_by_one(
        lambda state, _, emit: emit.column(np.arange(state)), 3, batch, lambda *given: found.append(given)
    )
    assert (type(found[0][0]), found[0][1].tolist()) == (np.ndarray, [0, 0, 0])


def test_the_plain_loop_of_a_bench_has_their_outputs():
    assert folded(Ranges(), EVENTS) == ["below", 0, 1, 2]


def test_the_sequential_program_goes_back_over_their_outputs_to_skip_an_event():
    batch = EventBatch.of(
        "s", rank=0, tags=[ADD(), LIST()], codes=[0, 1, 0, 1], ts=range(4), payload=[2, None, -1, None]
    )
    done = sequential.run(Refusing(), [[batch]], on_error="skip")
    assert ([one.value for one in done.outputs], len(done.skipped)) == (["below", 0, 1, "below"], 1)


def test_the_oracle_of_simulated_runs_folds_them():
    batch = EventBatch.of(
        "s", rank=0, tags=[ADD(), LIST()], codes=[0, 1, 0], ts=[1, 2, 3], payload=[2, None, 4]
    )
    end = Positions.of([Lane(0, "w", "s", dgs.TagSet.of(ADD(), LIST()))], {0: OrderKey(9, 0, 9)})
    assert Truth(Ranges(), [[batch]]).fold(end) == dgs.codec.encode(4)


def test_a_flow_into_such_a_program_denotes_its_outputs():
    @flow()
    def listed(numbers: int):
        return numbers.into(Ranges(), tag=lambda _, number: LIST() if number < 0 else ADD())

    assert listed.denote({"numbers": [(1, 2), (2, -1)]}) == ["below", 0, 1]
