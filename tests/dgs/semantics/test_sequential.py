"""The sequential program: its merge against sorting, its fold against a loop by hand, its speed."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings

from dgs.errors import OutOfOrderError, UsageError, UserCodeError
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.model.tags import Tag
from dgs.semantics import sequential
from tests.programs import BARRIER, VALUE, Counters, EventWindow, History
from tests.strategies import workloads


@settings(max_examples=50)
@given(workloads())
def test_merge_is_the_sorted_list_of_all_events(workload):
    keyed = [
        (batch.key(row), event)
        for stream in workload.batches
        for batch in stream
        for row, event in enumerate(batch.events())
    ]
    assert list(sequential.merge(workload.batches)) == sorted(keyed, key=lambda pair: pair[0])


def batch(rank, ts, payload, tag=Tag("t"), seq=None):  # noqa: B008
    return EventBatch.of(f"s{rank}", rank=rank, tags=[tag], ts=ts, payload=payload, seq=seq)


def test_run_breaks_ties_by_the_order_of_streams_then_by_arrival():
    first, second = batch(0, [5, 5], [1, 2]), batch(1, [4, 5], [3, 4])
    outputs = sequential.run(History(), [[first], [second]]).outputs
    assert [o.key for o in outputs if o.index == 0] == [
        OrderKey(4, 1, 0),
        OrderKey(5, 0, 0),
        OrderKey(5, 0, 1),
        OrderKey(5, 1, 1),
    ]


def test_run_numbers_the_outputs_of_each_event():
    outputs = sequential.run(History(), [[batch(0, [1, 2, 3], [3, 6, 1])]]).outputs
    assert [(o.key.seq, o.index) for o in outputs] == [(0, 0), (0, 1), (1, 0), (2, 0)]
    assert outputs[1].value == ("twice", 3, 0)


def test_the_order_of_streams_decides_the_window_of_a_value_at_the_instant_of_a_barrier():
    values, barriers = [5, 6], [5, 6]
    for value_rank, sums in ((0, [10, 20]), (1, [0, 10])):
        streams = sorted(
            [
                batch(value_rank, values, [10, 20], VALUE(0)),
                batch(1 - value_rank, barriers, [0, 0], BARRIER()),
            ],
            key=lambda b: b.rank,
        )
        assert [o.value for o in sequential.run(EventWindow(), [[b] for b in streams]).outputs] == sums


def test_run_starts_from_a_given_state():
    assert sequential.run(Counters(), [], state={1: 5}).state == {1: 5}
    assert sequential.run(Counters(), []).state == {}
    assert sequential.run(EventWindow(), [[]], state=None).state is None


def test_run_counts_events():
    assert sequential.run(EventWindow(), [[batch(0, [1, 2], [1, 1], VALUE(1))], []]).events == 2


def test_stream_of_single_events_is_refused_with_advice():
    with pytest.raises(UsageError, match=r"dgs.run\(program, streams=\{...\}, optimizer=\"sequential\"\)"):
        sequential.run(History(), [[("value", 1, None)]])


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_run_refuses_a_stream_that_goes_back_in_time(cut):
    whole = batch(0, [1, 5, 4], [1, 2, 3], seq=[0, 1, 7])
    with pytest.raises(OutOfOrderError) as caught:
        sequential.run(History(), [[whole.cut(0, cut), whole.cut(cut, 3)]])
    assert (caught.value.stream, caught.value.row, caught.value.ts, caught.value.previous) == ("s0", 7, 4, 5)


def test_run_names_the_event_on_which_update_raised():
    with pytest.raises(UserCodeError) as caught:
        sequential.run(EventWindow(), [[batch(0, [1, 2], [1, "x"], VALUE(3), seq=[4, 9])]])
    assert (caught.value.row, caught.value.ts, caught.value.tag) == (9, 2, "value(3)")
    assert isinstance(caught.value.__cause__, TypeError)


def test_run_wraps_exceptions_of_init():
    class Headless(EventWindow):
        def init(self):
            raise LookupError("nothing to start from")

    with pytest.raises(UserCodeError, match="init of program Headless raised LookupError: nothing"):
        sequential.run(Headless(), [])


def test_run_of_many_events_takes_little_longer_than_their_updates_by_hand():
    """Compared in CPU time with updates by hand, so load and speed of the machine do not matter."""
    rows = 100_000
    values = batch(0, np.arange(rows), np.ones(rows, np.int64), VALUE(0))
    barriers = batch(1, np.arange(0, rows, 10), np.zeros(rows // 10, np.int64), BARRIER())
    start = time.thread_time()
    done = sequential.run(EventWindow(), [[values], [barriers]])
    middle = time.thread_time()
    program, state = EventWindow(), EventWindow().init()
    for event in itertools.chain(values.events(), barriers.events()):
        state = program.update(state, event, [].append)
    by_hand = time.thread_time() - middle
    assert done.events == 110_000
    assert middle - start < 20 * by_hand  # 3 times as long, on machines of any kind
