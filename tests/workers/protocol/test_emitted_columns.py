"""`emit.column`: many outputs of one event as a column, with the ids of as many calls of `emit`."""

from __future__ import annotations

import numpy as np
import pytest

import dgs
from dgs.monoids import COUNT
from dgs.monoids.windows import Windows

VALUE, CLOSE = dgs.kind("value"), dgs.kind("close")


class Listing(Windows):
    """Emits the numbers below the count so far, and a text after them."""

    monoid = COUNT
    accumulates = (VALUE,)
    closes = (CLOSE,)
    emits_columns = True

    def close(self, state, event, emit):
        emit.column({"n": np.arange(state), "at": np.full(state, event.ts)})
        emit("end")
        emit.column([])
        return state


class ListingByOne(Listing):
    """The same without columns."""

    emits_columns = False

    def close(self, state, event, emit):
        for n in range(state):
            emit({"n": n, "at": event.ts})
        emit("end")
        return state


def streams():
    values = [(VALUE(), ts, None) for ts in range(40)]
    return {"values": values, "closings": [(CLOSE(), ts, None) for ts in (3, 17, 17, 50)]}


@pytest.mark.parametrize("plan", ["sequential", "greedy", {"name": "random", "seed": 3}], ids=str)
def test_a_column_is_as_many_outputs(plan):
    one, other = (
        dgs.run(program(), streams=streams(), runtime="local", optimizer=plan, verify=True)
        for program in (Listing, ListingByOne)
    )
    assert one.outputs == other.outputs
    assert len(one.outputs) == 4 + 18 + 18 + 40 + 4


class Column(Windows):
    """Emits one column, so that the sink gets arrays."""

    monoid = COUNT
    accumulates = (VALUE,)
    closes = (CLOSE,)
    emits_columns = True

    def close(self, state, event, emit):
        emit.column({"n": np.arange(state)})
        return state


def test_a_column_stays_a_column_on_its_way():
    from dgs.model.events import EventBatch
    from dgs.model.user_code import UserCode
    from dgs.workers.protocol.folding.update_loop import ScalarLoop

    program, outputs = Column(), []
    batch = EventBatch.of("closings", rank=0, tags=[CLOSE()], ts=[5], payload=[None])
    ScalarLoop(UserCode(program), program.update).fold_one(4, batch, outputs)
    ScalarLoop(UserCode(program), program.update).fold_batch(4, batch, outputs)
    assert [type(made.values["n"]) for made in outputs] == [np.ndarray, np.ndarray]
    assert [made.index.tolist() for made in outputs] == [[0, 1, 2, 3]] * 2
