"""An `update` that returns None is an error of the user's code, unless None is a state of the program."""

import pytest

import dgs
from dgs.errors import NoStateError
from dgs.model.events import EventBatch
from dgs.semantics import sequential

VALUE = dgs.kind("value")
STREAMS = {"a": [("value", 1, 5), ("value", 2, None), ("value", 3, 7)]}


class Forgets(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.payload is not None:
            return event.payload
        emit("nothing")
        return None


class Legal(Forgets):
    def init(self):
        return None


class Hinted(Forgets):
    def update(self, state, event, emit) -> "int | None":
        return super().update(state, event, emit)

    kinds = (VALUE,)


class InBatches(Forgets):
    kinds = (VALUE,)

    def update_batch(self, state, batch, emit_batch):
        return None


def ran(program, settings=None, streams=STREAMS):
    return dgs.run(program, streams=streams, runtime="local", settings=settings)


def test_none_is_an_error_with_the_event_and_a_remedy():
    with pytest.raises(NoStateError) as caught:
        ran(Forgets)
    told = str(caught.value)
    assert told.startswith(
        "update of program Forgets returned None at event value of stream 'a', row 1, ts 2"
    )
    assert "`return state`" in told
    assert caught.value.exit_code == 1


def test_none_is_an_error_in_the_sequential_program():
    batch = EventBatch.of("a", rank=0, tags=[VALUE()], ts=[1, 2], payload=[5, None])
    with pytest.raises(NoStateError, match="ts 2"):
        sequential.run(Forgets(), [[batch]])


@pytest.mark.parametrize("program", [Legal, Hinted])
def test_none_may_be_a_state(program):
    done = ran(program)
    assert (done.outputs, done.state) == (["nothing"], 7)


def test_none_of_a_batch_is_an_error():
    streams = {"a": [("value", ts, ts) for ts in range(100)]}
    with pytest.raises(NoStateError, match="update_batch of program InBatches returned None"):
        ran(InBatches, streams=streams)


def test_an_event_without_a_new_state_can_be_skipped():
    done = ran(Forgets, {"on_error": "skip"})
    assert (done.outputs, done.state, done.report["skipped"]) == ([], 7, 1)
