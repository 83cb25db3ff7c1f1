"""The total order: timestamp, then the declared order of streams, then arrival; and the frontiers that bound it."""

from hypothesis import given
from hypothesis import strategies as st

from dgs.model.order import BEGIN, END, MAX_TS, MIN_TS, OrderKey, after_event, after_heartbeat

timestamps = st.integers(-3, 3) | st.integers(MIN_TS, MAX_TS - 1)
ranks, rows = st.integers(0, 3), st.integers(0, 3)
keys = st.builds(OrderKey, timestamps, ranks, rows, st.just(()))


@given(keys, keys)
def test_keys_are_ordered_by_time_then_stream_then_row(a, b):
    assert (a < b) == ((a.ts, a.rank, a.seq) < (b.ts, b.rank, b.seq))


@given(keys)
def test_every_event_lies_between_begin_and_end(key):
    assert BEGIN <= key < END


@given(keys, keys)
def test_after_event_lies_directly_after_it(a, b):
    assert a < after_event(a)
    assert (b < after_event(a)) == (b <= a)


@given(timestamps, keys)
def test_after_heartbeat_is_the_bound_of_the_heartbeat(ts, key):
    """Exactly the keys with a greater timestamp are at or above the frontier."""
    frontier = after_heartbeat(ts, key.rank)
    assert (key >= frontier) == (key.ts > ts)


def test_after_heartbeat_at_the_end_of_time_is_the_end():
    assert after_heartbeat(MAX_TS, 3) == END
    assert after_heartbeat(MAX_TS - 1, 3) == END


def test_a_path_orders_the_outputs_of_one_event():
    event = OrderKey(5, 1, 7)
    assert event < OrderKey(5, 1, 7, (0, 0, 0)) < OrderKey(5, 1, 7, (0, 0, 1)) < after_event(event)
