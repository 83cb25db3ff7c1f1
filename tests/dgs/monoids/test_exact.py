"""Exact sums and means: the same bits in every order, and those of `math.fsum`."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs import codec
from dgs.monoids import MEAN_EXACT, SUM_EXACT

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.floats() | st.integers(-(2**70), 2**70)
brief = settings(max_examples=40, deadline=None)


def joined(monoid, values, draw):
    """Join single values in a random tree."""
    states = [monoid.lift(value) for value in values] or [monoid.identity()]
    while len(states) > 1:
        left = states.pop(draw(st.integers(0, len(states) - 1)))
        right = states.pop(draw(st.integers(0, len(states) - 1)))
        states.append(monoid.join(left, right))
    return states[0]


@pytest.mark.parametrize("monoid", [SUM_EXACT, MEAN_EXACT])
@brief
@given(values=st.lists(ANY, max_size=12), data=st.data())
def test_states_are_the_same_bits_in_every_order_of_joining(monoid, values, data):
    first, other = joined(monoid, values, data.draw), joined(monoid, values[::-1], data.draw)
    assert codec.encode(first) == codec.encode(other)


@brief
@given(values=st.lists(FINITE, max_size=20), data=st.data())
def test_the_sum_is_that_of_fsum(values, data):
    found = SUM_EXACT.result(joined(SUM_EXACT, values, data.draw))
    try:
        wanted = math.fsum(values)
    except OverflowError:  # a partial sum is beyond all floats
        exact = sum(map(Fraction, values))
        wanted = float(exact) if abs(exact) < 2**1024 - 2**970 else math.inf if exact > 0 else -math.inf
    assert (found, type(found)) == (wanted, float)


@brief
@given(values=st.lists(FINITE, min_size=1, max_size=20))
def test_the_mean_is_the_nearest_float(values):
    exact = sum(map(Fraction, values)) / len(values)
    assert MEAN_EXACT.result(MEAN_EXACT.fold(np.array(values))) == float(exact)


@brief
@given(values=st.lists(st.floats(), max_size=30))
def test_columns_fold_to_the_state_of_their_values(values):
    state = SUM_EXACT.identity()
    for value in values:
        state = SUM_EXACT.join(state, SUM_EXACT.lift(value))
    assert codec.encode(SUM_EXACT.fold(np.array(values, dtype=float))) == codec.encode(state)


def test_results_without_numbers_and_with_those_that_are_none():
    assert SUM_EXACT.result(SUM_EXACT.identity()) == 0.0
    assert MEAN_EXACT.result(MEAN_EXACT.identity()) is None
    assert SUM_EXACT.result(SUM_EXACT.fold([math.inf, 1.0])) == math.inf
    assert math.isnan(SUM_EXACT.result(SUM_EXACT.fold([math.inf, -math.inf, 1.0])))
    assert SUM_EXACT.result(SUM_EXACT.fold([1.7e308, 1.7e308])) == math.inf
    assert SUM_EXACT.result(SUM_EXACT.fold([1.7e308, 1.7e308, -1.7e308])) == 1.7e308
