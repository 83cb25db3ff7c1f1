"""Sorted runs and their merge: the order depends only on the rows."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dgs.workers.event_log.merging import Run, in_order, is_sorted, merged, pieces

ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c"]), st.integers(-2, 2)), max_size=30
)


def table(rows):
    columns = [[row[i] for row in rows] for i in range(3)]
    arrays = [
        pa.array(columns[0], pa.int64()),
        pa.array(columns[1], pa.string()),
        pa.array(columns[2], pa.int32()),
    ]
    return pa.table(dict(zip(("v", "name", "ts"), arrays, strict=True)))


def rows_of(found):
    return [(row["v"], row["name"], row["ts"]) for row in found.to_pylist()]


def key(row):
    return row[2], row[1], row[0]


@given(ROWS)
def test_in_order_sorts_by_time_then_given_columns_then_all_others(rows):
    assert rows_of(in_order(table(rows), ("ts", "name"))) == sorted(rows, key=key)


@given(ROWS)
def test_is_sorted_is_true_only_for_rows_in_order(rows):
    assert is_sorted(table(rows), ("ts", "name")) == (rows == sorted(rows, key=key))


def test_is_sorted_makes_no_claim_about_nulls():
    found = pa.table({"ts": [1, 1], "v": [None, 0]})
    assert not is_sorted(found, ("ts",))
    assert in_order(found, ("ts",)).column("v").to_pylist() == [0, None]


@given(ROWS, st.integers(1, 4), st.integers(1, 8), st.randoms(use_true_random=False))
def test_merged_runs_are_the_sorted_rows_for_any_distribution(rows, runs, at_once, random):
    dealt = [[] for _ in range(runs)]
    for row in rows:
        random.choice(dealt).append(row)
    sorted_runs = [in_order(table(run), ("ts", "name")) for run in dealt if run]
    opened = [Run.of(run, ("ts",), rows=at_once) for run in sorted_runs]
    parts = [rows_of(part) for part in merged(opened, ("ts", "name"))]
    assert [row for part in parts for row in part] == sorted(rows, key=key)
    assert all(before[-1][2] < after[0][2] for before, after in pairwise(parts))


def test_run_is_opened_only_when_its_time_comes():
    opened = []

    def tables(low):
        opened.append(low)
        yield pa.table({"ts": [low, low + 1]})

    found = merged([Run(low, tables(low)) for low in (9, 0, 5)], ("ts",))
    assert next(found).column("ts").to_pylist() == [0]
    assert opened == [0]
    assert [part.column("ts").to_pylist() for part in found] == [[1], [5], [6], [9], [10]]


@given(ROWS, st.lists(st.integers(0, 30), max_size=5), st.integers(1, 7))
def test_pieces_are_cut_at_fixed_lengths(rows, cuts, length):
    ends = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    parts = [table(rows[low:high]) for low, high in pairwise(ends)]
    found = [rows_of(piece) for piece in pieces(parts, length)]
    assert found == [rows[i : i + length] for i in range(0, len(rows), length)]
