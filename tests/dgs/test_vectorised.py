"""Building blocks of `update_batch`: columns by tag, runs of one kind, and the fold of `update`."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dgs import EventBatch, Tag
from dgs.model.columns import concat, take, to_list
from dgs.vectorised import by_kind, by_tag, one_by_one

PLAIN = (
    st.none()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.text(st.characters(), max_size=2)
)
RECORDS = st.fixed_dictionaries({"a": PLAIN}, optional={"b": PLAIN})
VALUES = PLAIN | RECORDS | st.tuples(st.integers())


def events(codes, count=3):
    return EventBatch.of(
        "s",
        rank=0,
        tags=[Tag(kind, n) for n, kind in enumerate("xxy"[:count])],
        ts=range(len(codes)),
        codes=codes,
        payload=list(range(len(codes))),
    )


def exact(values):
    return [(type(value), repr(value)) for value in values]


@given(values=st.lists(VALUES, min_size=3, max_size=3), codes=st.lists(st.integers(0, 2), max_size=6))
def test_by_tag_gives_every_event_the_value_of_its_tag(values, codes):
    assert exact(to_list(by_tag(events(codes), values))) == exact([values[code] for code in codes])


@given(values=st.lists(VALUES, min_size=3, max_size=3), codes=st.lists(st.integers(0, 2), max_size=6))
@example(values=["\x000", "", ""], codes=[0, 1])
@example(values=["\ud800", "a", "b"], codes=[0, 1])
def test_by_tag_as_codes_gives_the_same_values(values, codes):
    found = by_tag(events(codes), values, as_codes=True)
    assert exact(to_list(found)) == exact([values[code] for code in codes])
    assert exact(to_list(concat([found, found]))) == exact([values[code] for code in codes * 2])


def test_by_tag_as_codes_holds_the_codes_of_the_batch_and_no_column():
    batch = events([0, 2, 1])
    assert by_tag(batch, [7, 8, 9], as_codes=True).indices.buffers()[1].address == batch.codes.ctypes.data


@pytest.mark.parametrize("code", [-1, 3])
def test_by_tag_as_codes_refuses_codes_of_no_tag(code):
    with pytest.raises(IndexError, match="codes of 3 tags"):
        by_tag(events([0, code]), [7, 8, 9], as_codes=True)


@given(value=VALUES, count=st.integers(0, 3))
def test_by_tag_of_a_single_tag_repeats_its_value(value, count):
    batch = EventBatch.of("s", rank=0, tags=[Tag("x")], ts=range(count))
    assert exact(to_list(by_tag(batch, [value]))) == exact([value] * count)


@pytest.mark.parametrize("value", [1, 0.5, True, "text"])
def test_by_tag_keeps_a_shared_value_once(value):
    assert by_tag(events([1, 1, 1]), [None, value, None]).strides == (0,)


def test_by_tag_of_known_and_unknown_values_is_an_arrow_column():
    assert isinstance(by_tag(events([0, 1]), [None, 7, 8]), pa.Array)


@given(st.lists(st.integers(0, 2), max_size=8))
def test_runs_by_kind_are_maximal_and_emit_for_their_own_rows(codes):
    emitted, kinds = [], []

    def emit_batch(values, rows=None):
        rows = np.arange(len(codes)) if rows is None else rows
        emitted.extend(zip(rows.tolist(), to_list(values), strict=True))

    for kind, run, emit in by_kind(events(codes), emit_batch):
        assert {tag.kind for tag in run.tag_list()} == {kind}
        kinds.append(kind)
        emit(run.payload)
        emit(take(run.payload, np.array([0])), np.array([0]))
    assert sorted(set(emitted)) == [(row, row) for row in range(len(codes))]
    assert all(a != b for a, b in pairwise(kinds))


def test_one_by_one_folds_update_and_emits_with_rows():
    def update(state, event, emit):
        for _ in range(event.payload):
            emit((state, event.payload))
        return state + event.payload

    found = []
    state = one_by_one(update, 10, events([0, 2, 1]), lambda *given: found.append(given))
    ((values, rows),) = found
    assert (state, values, rows.tolist()) == (13, [(10, 1), (11, 2), (11, 2)], [1, 2, 2])


def test_outputs_with_codes_do_not_import_pandas():
    """Importing it takes a quarter of a second in each process of a run."""
    script = """
import sys, numpy as np
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.vectorised import by_tag
batch = EventBatch.of("s", rank=0, tags=[Tag("a", 0), Tag("a", 1)], codes=[0, 1, 1], ts=[1, 2, 3])
column = by_tag(batch, [{"page": 7, "part": 0.5}, {"page": 8, "part": 1.5}], as_codes=True)
some = columns.take(column, np.array([0, 2]))
assert columns.to_list(some) == [{"page": 7, "part": 0.5}, {"page": 8, "part": 1.5}], some
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
