"""Key sets: the laws of sets, checked by membership and against Python's own sets."""

import subprocess
import sys
from collections import namedtuple
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.model.key_sets import KeySet, key_class

KEYS = [*range(12), *"abcd", ("a", 1)]
finite = st.builds(KeySet.of, st.sets(st.sampled_from(KEYS)))
hashed = st.integers(1, 6).flatmap(
    lambda modulus: st.builds(KeySet.hashed, st.just(modulus), st.sets(st.integers(0, modulus - 1)))
)
key_sets = st.recursive(
    finite | hashed | st.just(KeySet.all()),
    lambda inner: st.tuples(inner, inner, st.sampled_from("|&-")).map(lambda t: combined(*t)),
    max_leaves=5,
)


def combined(a, b, operation):
    return {"|": a.__or__, "&": a.__and__, "-": a.__sub__}[operation](b)


def listed(keys):
    return {key for key in KEYS if key in keys}


@given(key_sets, key_sets)
def test_operations_agree_with_those_of_sets(a, b):
    assert listed(a | b) == listed(a) | listed(b)
    assert listed(a & b) == listed(a) & listed(b)
    assert listed(a - b) == listed(a) - listed(b)


@given(key_sets, key_sets, key_sets)
def test_sets_with_the_same_keys_are_equal_however_they_were_made(a, b, c):
    assert a | b == b | a
    assert a & b == b & a
    assert a - (a - b) == a & b
    assert (a | b) - b == a - b
    assert a & (b | c) == (a & b) | (a & c)
    assert KeySet.all() - (KeySet.all() - a) == a
    assert hash((a | b) | c) == hash(a | (b | c))


@given(key_sets, key_sets)
def test_isdisjoint_and_truth_agree_with_the_intersection(a, b):
    assert a.isdisjoint(b) == (not a & b) == (a & b == KeySet())


@given(key_sets)
def test_is_finite_means_that_extra_lists_the_keys(a):
    if a.is_finite:
        assert listed(a) == set(a.extra)


@given(st.integers(1, 5), st.integers(1, 4))
def test_hashed_classes_are_a_partition_and_refine(modulus, factor):
    parts = [KeySet.hashed(modulus, [c]) for c in range(modulus)]
    whole = KeySet()
    for i, part in enumerate(parts):
        assert all(part.isdisjoint(other) for other in parts[i + 1 :])
        finer = KeySet.hashed(modulus * factor, range(i, modulus * factor, modulus))
        assert finer == part
        whole = whole | part
    assert whole == KeySet.all()


Point = namedtuple("Point", "x y")  # noqa: PYI024
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "alike",
    [
        [1, 1.0, True, np.int64(1), np.float32(1), np.longdouble(1), np.True_],
        [0, 0.0, -0.0, False],
        [0.5, np.float64(0.5)],
        [2**70, float(2**70)],
        ["a", np.str_("a")],
        [(1, "a"), (True, "a"), (1.0, np.str_("a")), Point(1, "a")],
        [frozenset([1, 2]), frozenset([1.0, 2])],
        [NOON, NOON.astimezone(timezone(timedelta(hours=2)))],
        [float("inf"), np.float32("inf")],
        [datetime(2024, 1, 1), pd.Timestamp(2024, 1, 1), pd.Timestamp(2024, 1, 1).as_unit("s")],  # noqa: DTZ001
        [NOON, pd.Timestamp(NOON), pd.Timestamp(NOON).tz_convert("Europe/Berlin")],
        [timedelta(1), pd.Timedelta(1, "D")],
        [np.datetime64("2024-01-01", unit) for unit in ("D", "h", "us", "ns")],
        [np.timedelta64(1, "D"), np.timedelta64(24, "h")],
    ],
)
def test_key_class_is_one_for_keys_that_are_equal(alike):
    assert all(key == alike[0] and hash(key) == hash(alike[0]) for key in alike)
    key_class.cache_clear()
    assert len({key_class.__wrapped__(key) for key in alike}) == 1


@given(st.lists(st.integers() | st.text() | st.floats(allow_nan=False), unique=True, max_size=9))
def test_key_class_tells_different_keys_apart(keys):
    assert len(set(map(key_class, keys))) == len(keys)


def test_key_class_never_changes():
    """Plans, checkpoints and stored ids depend on it."""
    assert key_class("home") == 846956715424877628
    assert key_class(7) == 4395282772176376861
    assert key_class(("a", 1)) == 13783664782712333617


def test_key_class_is_the_same_in_every_process():
    script = "from dgs.model.key_sets import key_class; print([key_class(k) for k in ('a', 1, ('x', 2), frozenset('abc'))])"
    told = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_key_class_spreads_keys_evenly():
    counts = np.bincount([key_class(key) % 8 for key in range(4000)], minlength=8)
    assert counts.min() > 400


def test_repr_shows_classes_and_exceptions():
    assert repr(KeySet.of(["b", "a"])) == "{'a', 'b'}"
    assert repr(KeySet.all() - KeySet.of([1])) == "all - {1}"
    assert repr(KeySet.hashed(4, [1])) == "hash%4 in [1]"
    assert repr(KeySet()) == "{}"
