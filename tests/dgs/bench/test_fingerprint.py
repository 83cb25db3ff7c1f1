"""Fingerprints: equal exactly for equal multisets, in any form of the values."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.bench.fingerprint import Fingerprint, fingerprint
from dgs.semantics import comparison

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = SCALARS | st.tuples(SCALARS, SCALARS) | st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3)


@given(
    st.lists(VALUES, max_size=8).flatmap(lambda values: st.tuples(st.just(values), st.permutations(values)))
)
def test_order_and_pieces_do_not_matter(pair):
    values, shuffled = pair
    half = len(values) // 2
    assert fingerprint([values]) == fingerprint([shuffled[:half], shuffled[half:]])


@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4))
def test_fingerprints_are_equal_exactly_when_verify_agrees(left, right):
    assert (fingerprint([left]) == fingerprint([right])) == comparison.compare(left, right).is_equal


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_numbers_are_equal_as_objects_and_columns(values):
    wanted = fingerprint([values])
    assert fingerprint([np.array(values)]) == wanted
    assert fingerprint([pa.array(values)]) == wanted
    assert fingerprint([list(np.array(values))]) == wanted


@given(st.lists(st.none() | st.integers(0, 9), min_size=1))
def test_records_are_equal_as_dictionaries_and_columns(values):
    rows = [{"name": "x", "value": value} for value in values]
    columns = {"value": pa.array(values, pa.int64()), "name": pa.array(["x"] * len(values))}
    assert fingerprint([rows]) == fingerprint([columns])


def test_nested_records_are_equal_as_dictionaries_and_columns():
    rows = [{"flight": {"number": 1, "to": "IAH"}, "weather": None}]
    columns = {"flight": {"number": np.array([1]), "to": ["IAH"]}, "weather": [None]}
    assert fingerprint([rows]) == fingerprint([columns])


def test_fields_that_trade_values_make_a_difference():
    assert fingerprint([[{"a": 1, "b": 2}]]) != fingerprint([[{"a": 2, "b": 1}]])


@pytest.mark.parametrize("column", [np.array([2**63], dtype=np.uint64), pa.array([2**63], pa.uint64())])
def test_numbers_beyond_int64_are_not_wrapped(column):
    assert fingerprint([column]) == fingerprint([[2**63]]) != fingerprint([[-(2**63)]])


def test_nothing_has_the_empty_fingerprint():
    assert fingerprint([]) == fingerprint([[]]) == fingerprint([np.empty(0, dtype=np.int64)]) == Fingerprint()
