"""Batches of events: columns that behave like the list of their events."""

from array import array
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import ProgramError
from dgs.model.columns import to_list
from dgs.model.events import Event, EventBatch
from dgs.model.order import OrderKey
from dgs.model.outputs import BatchEmitter, ColumnEmit
from dgs.model.tags import Tag
from dgs.workers.event_log.event_tables import row_table

TAGS = [Tag("a", 1), Tag("a", 2), Tag("b")]


@st.composite
def batches(draw):
    steps = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 2)), max_size=10))
    rows = np.array(steps, dtype=np.int64).reshape(-1, 3)
    return EventBatch.of(
        "s",
        rank=draw(st.integers(0, 2)),
        tags=TAGS,
        ts=np.cumsum(rows[:, 0]),
        seq=np.cumsum(rows[:, 1]),
        codes=rows[:, 2] if draw(st.booleans()) else None,
        payload=draw(st.sampled_from([None, list(range(len(rows))), np.arange(len(rows))])),
    )


def rows_of(batch):
    return [(batch.key(row), event) for row, event in enumerate(batch.events())]


@given(batches())
def test_events_have_the_columns_of_their_row(batch):
    events = batch.events()
    assert all(type(event) is Event for event in events)
    assert [event.tag for event in events] == batch.tag_list()
    assert [event.ts for event in events] == batch.ts.tolist()
    assert {event.stream for event in events} <= {"s"}
    if batch.payload is not None:
        assert [event.payload for event in events] == list(range(len(batch)))
    assert len(batch) == len(events)


@given(batches(), st.data())
def test_cut_and_take_choose_events(batch, data):
    start = data.draw(st.integers(0, len(batch)))
    stop = data.draw(st.integers(start, len(batch)))
    assert rows_of(batch.cut(start, stop)) == rows_of(batch)[start:stop]
    chosen = sorted(data.draw(st.sets(st.integers(0, len(batch) - 1)))) if len(batch) else []
    taken = batch.take(np.array(chosen, dtype=np.intp))
    assert rows_of(taken) == [rows_of(batch)[row] for row in chosen]


SEQUENCES = [
    range(1, 4),
    (1, 2, 3),
    deque([1, 2, 3]),
    array("q", [1, 2, 3]),
    memoryview(array("q", [1, 2, 3])),
]


def one_kind(payload=None, **given):
    return EventBatch.of("s", **{"rank": 0, "tags": TAGS[:1], "ts": [1, 2, 3], "payload": payload, **given})


def emitted(values):
    emit = ColumnEmit()
    emit.column(values)
    return to_list(emit.joined())


def emitted_at_once(values):
    found = []
    BatchEmitter(one_kind(), found)(values)
    return found[0].to_list()


def logged(values):
    return row_table({"ts": [1, 2, 3], "n": values})["n"].to_pylist()


TAKING = [
    lambda values: [event.payload for event in one_kind(values).events()],
    lambda values: to_list(one_kind(values).cut(0, 3).take(np.arange(3)).payload),
    emitted,
    emitted_at_once,
    logged,
]


@pytest.mark.parametrize("values", SEQUENCES, ids=lambda values: type(values).__name__)
@pytest.mark.parametrize("taken", TAKING)
def test_any_sequence_is_a_column(taken, values):
    assert taken(values) == [1, 2, 3]
    assert taken({"n": values}) == [{"n": n} for n in (1, 2, 3)]


@pytest.mark.parametrize("taken", TAKING)
@pytest.mark.parametrize(
    "values",
    ["abc", b"abc", {1, 2, 3}, 5, np.array(5), iter([1, 2, 3]), {"n": 1}, {"n": [1, 2, 3], "m": [1]}],
)
def test_other_values_than_columns_are_refused_at_once(taken, values):
    with pytest.raises(ProgramError, match=r"is no column|differ in length"):
        taken(values)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ts": [1.5, 2.5, 3.5]},
        {"ts": ["1", "2", "3"]},
        {"ts": None},
        {"ts": [1, 2, 2**70]},
        {"ts": [[1, 2, 3]]},
        {"ts": np.ma.array([1, 2, 3], mask=[0, 1, 0])},
        {"ts": np.array(["2026-01-01"] * 3, "M8[D]")},
        {"seq": [0, 1]},
        {"codes": [0]},
        {"codes": "aaa"},
        {"codes": [0, 0.5, 0]},
        {"payload": [1]},
        {"tags": ["a"]},
        {"tags": []},
        {"tags": Tag("a")},
    ],
)
def test_a_batch_that_could_not_be_read_is_refused_as_it_is_made(wrong):
    with pytest.raises(ProgramError, match=r"EventBatch\.of"):
        one_kind(**wrong)


@given(batches(), st.integers(-1, 11), st.integers(0, 2), st.integers(0, 32))
def test_position_of_counts_the_events_before_a_key(batch, ts, rank, seq):
    key = OrderKey(ts, rank, seq)
    assert batch.position_of(key) == sum(batch.key(row) < key for row in range(len(batch)))


def test_of_counts_rows_from_zero():
    batch = EventBatch.of("s", rank=3, tags=TAGS[:1], ts=[4, 4])
    assert [batch.key(row) for row in range(2)] == [OrderKey(4, 3, 0), OrderKey(4, 3, 1)]
    assert (batch.ts.dtype, batch.seq.dtype) == (np.int64, np.int64)


def test_events_of_named_columns_have_records_as_payload():
    batch = EventBatch.of(
        "s", rank=0, tags=TAGS[:1], ts=[1, 2], payload={"a": np.array([5, 6]), "b": ["x", None]}
    )
    assert [event.payload for event in batch.events()] == [{"a": 5, "b": "x"}, {"a": 6, "b": None}]


@pytest.mark.parametrize("payload", [None, np.zeros(1000), {"a": np.zeros(1000)}])
def test_nbytes_counts_all_columns(payload):
    batch = EventBatch.of("s", rank=0, tags=TAGS[:1], ts=np.zeros(1000, np.int64), payload=payload)
    assert batch.nbytes == 16_000 + (0 if payload is None else 8000)
