"""Batches of outputs: the values given to `emit_batch`, with the id of every output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import ProgramError
from dgs.model.events import EventBatch
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.tags import Tag

TAGS = [Tag("a"), Tag("b")]
BATCH = EventBatch.of("s", rank=2, tags=TAGS, codes=[0, 1, 1, 0], ts=[1, 1, 3, 4], seq=[5, 6, 9, 10])


@given(st.lists(st.integers(0, 3), max_size=9).map(sorted))
def test_of_rows_numbers_the_outputs_of_each_event(rows):
    batch = OutputBatch.of_rows(BATCH, list(range(len(rows))), np.array(rows, dtype=np.intp))
    keys = [(BATCH.key(row).ts, BATCH.key(row).seq, BATCH.tag_list()[row]) for row in rows]
    assert list(zip(batch.ts.tolist(), batch.seq.tolist(), batch.tag_list(), strict=True)) == keys
    assert batch.index.tolist() == [rows[:i].count(row) for i, row in enumerate(rows)]
    assert batch.to_list() == list(range(len(rows)))
    assert len(batch) == len(rows)


@given(st.lists(st.none() | st.lists(st.integers(0, 3), max_size=5).map(sorted), max_size=4))
def test_numbering_of_an_events_outputs_continues_across_calls(calls):
    made, emitted = [], []
    emit_batch = BatchEmitter(BATCH, made)
    for number, rows in enumerate(calls):
        places = range(len(BATCH)) if rows is None else rows
        values = [(number, row, i) for i, row in enumerate(places)]
        emit_batch(values, None if rows is None else np.array(rows, dtype=np.intp))
        emitted += values
    emit_batch.finish()
    ids = [
        (seq, index)
        for batch in made
        for seq, index in zip(batch.seq.tolist(), batch.index.tolist(), strict=True)
    ]
    assert ids == sorted(set(ids))
    found = {}
    for batch in made:
        for seq, index, value in zip(batch.seq.tolist(), batch.index.tolist(), batch.to_list(), strict=True):
            assert found.setdefault((seq, index), value) == value
    expected = {
        (seq, index): value
        for row, seq in enumerate(BATCH.seq.tolist())
        for index, value in enumerate(value for value in emitted if value[1] == row)
    }
    assert found == expected


def test_of_rows_without_rows_is_one_output_per_event():
    batch = OutputBatch.of_rows(BATCH, ["p", "q", "r", "s"])
    assert batch.seq.tolist() == [5, 6, 9, 10]
    assert batch.index.tolist() == [0, 0, 0, 0]
    assert (batch.stream, batch.rank) == ("s", 2)


def test_of_rows_refuses_columns_of_another_length():
    with pytest.raises(ProgramError, match="3 values for 4 rows"):
        OutputBatch.of_rows(BATCH, [1, 2, 3])


def test_tag_list_of_a_batch_with_one_tag():
    batch = OutputBatch.of("s", rank=0, tags=TAGS[:1], ts=[1, 2], seq=[0, 1], index=[0, 0], values=[1, 2])
    assert batch.tag_list() == [Tag("a"), Tag("a")]
