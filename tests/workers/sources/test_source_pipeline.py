"""Order, disorder, splitting, `until`: against a row-by-row reference, and at every limit of the model."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dgs.errors import InternalError, OutOfOrderError, PlanFileError
from dgs.model.order import END, MAX_TS, MIN_TS, Heartbeat, OrderKey
from dgs.model.tags import Tag
from dgs.workers.recovery import positions
from tests.workers.reading import opened, read_all, readings, rows, stream

VALUE = Tag("value")
RANK = 3


def reference(items, *, drops_late=False, delay=0, splits=1, block=1024, until=None, wanted=None):
    """Return the rows of the implementation streams, the drops, and (row, ts) of the first error; one row at a time."""
    latest = heard = None
    seq = drops = 0
    kept = []
    for item in items:
        if isinstance(item, Heartbeat):
            heard = item.ts if heard is None else max(heard, item.ts)
            continue
        tag, ts, payload = item
        is_late = (latest is not None and ts < latest - delay) or (heard is not None and ts <= heard)
        if is_late and not drops_late:
            return [], 0, (seq, ts)
        if is_late:
            drops += 1
        else:
            latest = ts if latest is None else max(latest, ts)
            kept.append((ts, seq, tag, payload))
        seq += 1
    names = ["s"] if splits == 1 else [f"s/{i}" for i in range(splits)]
    found = [
        (names[(seq // block) % splits], tag, ts, seq, payload)
        for ts, seq, tag, payload in sorted(kept, key=lambda row: row[:2])
        if until is None or (ts, RANK, seq) < until[:3]
    ]
    return [row for row in found if wanted is None or row[0] in wanted], drops, None


item = st.one_of(
    st.tuples(
        st.sampled_from([VALUE, Tag("barrier"), Tag("cell", 1), Tag("cell", 2)]),
        st.integers(0, 20),
        st.integers(),
    ),
    st.builds(Heartbeat, st.just("s"), st.integers(0, 20)),
)
nearly_sorted = st.lists(item, max_size=30).map(lambda items: sorted(items, key=lambda i: i[1] // 6))
cuts = st.none() | st.builds(OrderKey, st.integers(0, 20), st.integers(2, 4), st.integers(0, 20))


policies = st.one_of(
    st.sampled_from([("error", 0), ("drop", 0)]), st.tuples(st.just("sort"), st.integers(0, 8))
)
wishes = st.tuples(st.integers(1, 3), st.none() | st.sets(st.sampled_from(["s", "s/0", "s/1", "s/2"])))


@given(items=nearly_sorted, policy=policies, batch_rows=st.integers(1, 40), wish=wishes)
def test_source_gives_the_events_of_the_row_by_row_reference(items, policy, batch_rows, wish):
    (name, delay), (splits, wanted) = policy, wish
    config = stream(on_disorder={"sort_within": f"{delay}ms"} if name == "sort" else name, split=splits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(positions.dealt.__kwdefaults__, "block", 2)
        source = opened(config, items, unit="ms", rank=RANK, batch_rows=batch_rows, streams=wanted)
        expected, drops, late = reference(
            items, drops_late=name == "drop", delay=delay, splits=splits, block=2, wanted=wanted
        )
        if late is not None:
            with pytest.raises(OutOfOrderError) as caught:
                readings(source)
            assert (caught.value.row, caught.value.ts) == late
            return
        found = readings(source)
    check_laws(found)
    assert sorted(rows(b for r in found for b in r.batches), key=lambda row: (row[2], row[3])) == expected
    assert source.drops == drops
    assert all(len(batch) <= batch_rows for reading in found for batch in reading.batches)


@given(items=nearly_sorted, batch_rows=st.integers(1, 40), until=cuts, sort=st.booleans())
def test_source_ends_at_until(items, batch_rows, until, sort):
    policy = {"on_disorder": {"sort_within": "9ms"} if sort else "drop"}
    expected, _, late = reference(items, drops_late=not sort, delay=9 if sort else 0, until=until)
    assume(late is None)
    source = opened(stream(**policy), items, unit="ms", rank=RANK, batch_rows=batch_rows, until=until)
    found = readings(source)
    check_laws(found)
    assert rows(b for r in found for b in r.batches) == expected


def test_source_does_not_read_on_when_it_has_come_to_until():
    items = [("value", 5, 0), ("value", "broken", 0)]
    found = readings(opened(stream(), items, batch_rows=1, until=OrderKey(5, 0, 1)))
    assert [(sum(map(len, r.batches)), r.frontier) for r in found] == [(1, END)]


def check_laws(found):
    """Frontiers never go back and hold; batches come in the order of their keys, on each implementation stream."""
    last = {}
    frontier = OrderKey(MIN_TS, RANK, 0)
    for reading in found:
        for batch in reading.batches:
            keys = [batch.key(row) for row in range(len(batch))]
            assert keys == sorted(keys)
            assert keys[0] >= frontier
            assert batch.stream not in last or keys[0] > last[batch.stream]
            last[batch.stream] = keys[-1]
        assert reading.frontier >= frontier
        frontier = reading.frontier
    assert frontier == END


def frontiers(items, unit="ms", **sections):
    """Return the frontier after each item."""
    return [
        reading.frontier
        for reading in readings(opened(stream(**sections), items, unit=unit, rank=RANK, batch_rows=1))
    ]


def test_frontier_after_an_event_is_just_above_it():
    assert frontiers([("value", 5, None), ("value", 5, None)]) == [
        OrderKey(5, RANK, 1),
        OrderKey(5, RANK, 2),
        END,
    ]


def test_frontier_after_a_heartbeat_lets_lower_ranks_pass_the_tie():
    assert frontiers([Heartbeat("s", 5)]) == [OrderKey(6, RANK, 0), END]


def test_frontier_is_the_larger_of_event_and_heartbeat():
    items = [("value", 9, None), Heartbeat("s", 4), Heartbeat("s", 8), Heartbeat("s", 9)]
    assert frontiers(items) == [OrderKey(9, RANK, 1)] * 3 + [OrderKey(10, RANK, 0), END]


def test_frontier_of_sort_within_is_the_latest_time_less_the_delay():
    items = [("value", 20, None), ("value", 15, None), Heartbeat("s", 12), Heartbeat("s", 17)]
    delayed = {"on_disorder": {"sort_within": "10ms"}}
    assert frontiers(items, **delayed) == [
        OrderKey(10, RANK, 0),
        OrderKey(10, RANK, 0),
        OrderKey(13, RANK, 0),
        OrderKey(18, RANK, 0),
        END,
    ]


def test_event_at_the_latest_time_less_the_delay_is_in_time_and_one_below_is_not():
    sorting = stream(on_disorder={"sort_within": "10ms"})
    assert [row[2] for row in read_all(sorting, [("value", 20, 0), ("value", 10, 1)], unit="ms")] == [10, 20]
    with pytest.raises(OutOfOrderError) as caught:
        read_all(sorting, [("value", 20, 0), ("value", 9, 1)], unit="ms")
    assert (caught.value.row, caught.value.ts, caught.value.previous) == (1, 9, 20)


def test_sort_within_leaves_out_events_that_are_later_still_if_the_plan_file_says_so():
    items = [("value", ts, number) for number, ts in enumerate([20, 9, 10, 30, 19, 20])]
    sorting = stream(on_disorder={"sort_within": "10ms", "late": "drop"})
    assert [row[2] for row in read_all(sorting, items, unit="ms")] == [10, 20, 20, 30]


def test_sort_within_keeps_ties_in_their_order_of_arrival():
    items = [("value", 7, "a"), ("value", 9, "b"), ("value", 7, "c"), ("value", 9, "d"), ("value", 7, "e")]
    for batch_rows in (1, 2, 5):
        found = read_all(stream(on_disorder={"sort_within": "5ms"}), items, unit="ms", batch_rows=batch_rows)
        assert [(ts, seq, payload) for _, _, ts, seq, payload in found] == [
            (7, 0, "a"), (7, 2, "c"), (7, 4, "e"), (9, 1, "b"), (9, 3, "d"),
        ]  # fmt: skip


def test_sort_within_keeps_the_arrival_of_many_ties():
    times = [5, 4, 4, 5, 3] * 400
    found = read_all(
        stream(on_disorder={"sort_within": "5ms"}, payload=[]), {"ts": times}, unit="ms", batch_rows=300
    )
    assert [(ts, seq) for _, _, ts, seq, _ in found] == sorted((ts, seq) for seq, ts in enumerate(times))


def test_sort_within_keeps_the_tags_and_payloads_of_merged_batches():
    items = [("barrier", 9, None), ("value", 8, 1), (("cell", 4), 9, {"x": 1}), ("value", 7, 2.5)]
    found = read_all(stream(on_disorder={"sort_within": "5ms"}), items, unit="ms", batch_rows=1)
    assert [(tag, payload) for _, tag, _, _, payload in found] == [
        (VALUE, 2.5), (VALUE, 1), (Tag("barrier"), None), (Tag("cell", 4), {"x": 1}),
    ]  # fmt: skip


def test_sort_within_is_exact_where_it_is_no_whole_number_of_units():
    sorting = stream(on_disorder={"sort_within": "1500ms"})
    assert len(read_all(sorting, [("value", 20, 0), ("value", 19, 1)], unit="s")) == 2
    with pytest.raises(OutOfOrderError):
        read_all(sorting, [("value", 20, 0), ("value", 18, 1)], unit="s")


def test_sort_within_needs_a_unit():
    with pytest.raises(
        PlanFileError, match=r"stream 's': `sort_within` compares .* say `time: \{unit: ...\}`"
    ):
        opened(stream(on_disorder={"sort_within": "1s"}), [])


def test_error_names_stream_row_and_both_timestamps():
    items = [("value", 12, 0), Heartbeat("s", 12), ("value", 13, 0), ("value", 10, 0)]
    with pytest.raises(OutOfOrderError) as caught:
        read_all(stream(), items)
    assert str(caught.value).startswith("stream 's', row 2: timestamp 10 comes after 13.")


def test_event_at_a_heartbeat_is_disorder_and_one_above_is_not():
    with pytest.raises(OutOfOrderError) as caught:
        read_all(stream(), [("value", 2, 0), Heartbeat("s", 5), ("value", 5, 0)])
    assert (caught.value.row, caught.value.ts, caught.value.previous) == (1, 5, 5)
    assert len(read_all(stream(), [Heartbeat("s", 5), ("value", 6, 0)])) == 1


def test_heartbeat_beats_sort_within():
    with pytest.raises(OutOfOrderError):
        read_all(
            stream(on_disorder={"sort_within": "10ms"}),
            [("value", 9, 0), Heartbeat("s", 8), ("value", 8, 0)],
            unit="ms",
        )


def test_drop_counts_and_dropped_rows_keep_their_numbers():
    source = opened(stream(on_disorder="drop"), [("value", 5, "a"), ("value", 4, "b"), ("value", 5, "c")])
    found = rows(batch for reading in readings(source) for batch in reading.batches)
    assert [(ts, seq, payload) for _, _, ts, seq, payload in found] == [(5, 0, "a"), (5, 2, "c")]
    assert source.drops == 1


def test_drop_counts_every_row_of_a_batch():
    source = opened(stream(on_disorder="drop"), {"ts": [5, 1, 2, 5, 3]})
    readings(source)
    assert source.drops == 3


def test_dropped_event_does_not_move_the_floor():
    items = [("value", 5, 0), ("value", 1, 0), ("value", 2, 0), ("value", 5, 0)]
    assert [row[3] for row in read_all(stream(on_disorder="drop"), items, batch_rows=1)] == [0, 3]


def test_heartbeats_take_no_row_number():
    items = [Heartbeat("s", 1), ("value", 5, 0), Heartbeat("s", 5), Heartbeat("s", 5), ("value", 6, 0)]
    assert [row[3] for row in read_all(stream(), items)] == [0, 1]


def test_splits_deal_blocks_of_1024_rows_round_robin_by_raw_row_number():
    items = {"ts": [*range(1500), 0, *range(1500, 5000)]}  # row 1500 is dropped, and counts
    config = stream(split=2, on_disorder="drop", payload=[])
    found = read_all(config, items, batch_rows=700)
    assert len(found) == 5000
    assert all(name == f"s/{(seq // 1024) % 2}" for name, _, _, seq, _ in found)
    assert {seq for _, _, _, seq, _ in found} == set(range(5001)) - {1500}


def test_disorder_is_decided_before_dealing():
    items = {"ts": [5] * 1024 + [4]}  # in order within each split
    with pytest.raises(OutOfOrderError):
        read_all(stream(split=2, payload=[]), items)


def test_heartbeat_at_infinity_ends_the_stream():
    found = readings(opened(stream(), [("value", 1, 0), Heartbeat("s", MAX_TS - 1)]))
    assert [reading.frontier for reading in found] == [END]


def test_event_after_the_end_is_disorder():
    with pytest.raises(OutOfOrderError):
        readings(opened(stream(), [Heartbeat("s", MAX_TS - 1), ("value", 1, 0)], batch_rows=1))


def test_extreme_timestamps_are_ordered():
    items = [("value", MIN_TS, 0), ("value", MAX_TS - 1, 1)]
    assert len(read_all(stream(), items)) == 2
    assert len(read_all(stream(on_disorder={"sort_within": "1d"}), items, unit="ms")) == 2


def test_delay_does_not_wrap_around_at_the_least_timestamp():
    source = opened(
        stream(on_disorder={"sort_within": "1d"}),
        [("value", MIN_TS, 0), ("value", 0, 0)],
        unit="ms",
        batch_rows=1,
    )
    assert source.read().frontier == OrderKey(MIN_TS, 0, 0)


def test_empty_stream_ends_at_once():
    assert [(r.batches, r.frontier) for r in readings(opened(stream(), []))] == [((), END)]


def test_read_after_the_end_is_a_bug():
    source = opened(stream(), [])
    source.read()
    with pytest.raises(InternalError):
        source.read()


def test_the_greatest_delay_sorts_times_that_are_as_far_apart():
    config = stream(on_disorder={"sort_within": "53375d"}, payload=[])
    times = [2**61, -(2**60), 5, MIN_TS + 1 + 2**63 - 2**60]
    found = [ts for _, _, ts, _, _ in read_all(config, [("value", ts, None) for ts in times], unit="ns")]
    assert found == sorted(times)
