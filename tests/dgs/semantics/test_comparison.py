"""Comparison of multisets of outputs: exact, and with a tolerance for floats."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.semantics.comparison import compare

SMALL = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=8)


@given(SMALL, SMALL)
def test_exact_comparison_is_multiset_difference(expected, got):
    found = compare(expected, got)
    assert Counter(found.missing) == Counter(expected) - Counter(got)
    assert Counter(found.unexpected) == Counter(got) - Counter(expected)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(-1e6, 1e6)), max_size=8), st.randoms())
def test_tolerance_accepts_small_errors_in_any_order(expected, random):
    got = [(name, number * (1 + 1e-12)) for name, number in expected]
    random.shuffle(got)
    assert compare(expected, got, tolerance=1e-9).is_equal


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 5))
def test_tolerance_finds_one_larger_error(expected, error):
    got = [*expected[:-1], max(expected) + error]
    found = compare(expected, got, tolerance=1e-6)
    assert (len(found.missing), len(found.unexpected)) == (1, 1)


def test_tolerance_pairs_all_that_can_be_paired():
    assert compare([1.0, 1.1], [1.1, 1.2], tolerance=0.1).is_equal


@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        (1, 1.0, True),
        (10**10, 10**10 + 1, False),
        (10**400, 1e300, False),
        (True, 1.0, False),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, 1e300, False),
        ({"a": [1.0, "x"]}, {"a": [1.0 + 1e-10, "x"]}, True),
        ({"a": [1.0, "x"]}, {"a": [1.0, "y"]}, False),
        ([1.0], (1.0 + 1e-10,), False),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-10]), True),
        (np.array([1.0, 2.0]), np.array([[1.0, 2.0]]), False),
    ],
)
def test_tolerance_is_for_floats_at_the_same_places(expected, got, equal):
    assert compare([expected], [got], tolerance=1e-6).is_equal is equal


def test_numpy_scalars_are_the_numbers_they_stand_for():
    assert compare([np.int64(3), (np.float64(1.5), "a")], [3, (1.5, "a")]).is_equal


def test_only_the_first_differences_are_shown():
    text = str(compare(range(100), []))
    assert text.startswith(
        "the outputs differ from those of the sequential program: 100 missing, 0 unexpected\n"
    )
    assert text.count("missing:") == 5
