"""The ready-made monoids: the laws of commutative monoids, folds as joins of single values, windows as folds of slices."""

import copy
import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs import codec
from dgs.errors import ProgramError
from dgs.model.columns import cut, length, to_list
from dgs.monoids import (
    COUNT,
    DISTINCT,
    MAX,
    MEAN,
    MEAN_EXACT,
    MIN,
    SUM,
    SUM_EXACT,
    AllOf,
    FieldOf,
    Latest,
    MapOf,
    Monoid,
    Top,
)

INTEGERS = st.integers(-9, 9) | st.sampled_from([2**62, -(2**62), -(2**63), 2**63 - 1])
EXACT_FLOATS = st.integers(-(2**20), 2**20).map(lambda n: n / 4) | st.sampled_from(
    [-0.0, math.nan, math.inf, -math.inf]
)
brief = settings(max_examples=25, deadline=None)


@dataclass(frozen=True)
class Subject:
    """A monoid with strategies for its columns by size, in many forms; their sums are exact in every order."""

    name: str
    monoid: Monoid
    forms: tuple


def lists(values):
    return lambda n: st.lists(values, min_size=n, max_size=n)


def arrays(dtype, values=None):
    info = None if values is not None else np.iinfo(dtype)
    drawn = values if info is None else st.integers(int(info.min), int(info.max))
    return lambda n: lists(drawn)(n).map(lambda found: np.array(found, dtype=dtype))


def records(value_forms):
    """Two forms for each form of values: columns and a list. A record has one form of values: sums of integers and floats are rounded."""

    def drawn(form):
        return lambda n: st.tuples(key_columns(n), form(n)).map(
            lambda pair: {"key": pair[0], "value": pair[1]}
        )

    def listed(form):
        return lambda n: drawn(form)(n).map(lambda column: to_list(column) if n else [])

    return (*map(drawn, value_forms), *map(listed, value_forms))


def key_columns(n):
    keys = st.sampled_from(["a", "b", "c"])
    numbers = st.integers(0, 2)
    return st.one_of(
        lists(keys)(n),
        lists(keys)(n).map(lambda found: pa.array(found, pa.string()).dictionary_encode()),
        lists(numbers)(n).map(lambda found: np.array(found, dtype=np.int16)),
        lists(st.sampled_from([(1, "x"), (2, "y"), None]))(n),
    )


NUMBERS = (
    lists(INTEGERS),
    lists(st.integers()),
    arrays(np.int64, INTEGERS),
    arrays(np.int64),
    arrays(np.int8),
    arrays(np.uint64),
    arrays(np.bool_, st.booleans()),
    arrays(np.float32, EXACT_FLOATS),
    arrays(np.float64, EXACT_FLOATS),
    lambda n: lists(INTEGERS)(n).map(lambda found: pa.array(found, pa.int64())),
)
ORDERED = (*NUMBERS, lists(st.text(max_size=2)), lists(st.dates()))
SUBJECTS = [
    Subject("sum", SUM, NUMBERS),
    Subject("count", COUNT, (*ORDERED, lists(st.none()))),
    Subject("min", MIN, ORDERED),
    Subject("max", MAX, ORDERED),
    Subject("mean", MEAN, NUMBERS),
    Subject("exact sum", SUM_EXACT, (*NUMBERS, lists(st.floats()))),
    Subject("exact mean", MEAN_EXACT, (*NUMBERS, lists(st.floats()))),
    Subject("map of exact means", MapOf(MEAN_EXACT), records(NUMBERS)),
    Subject("map of sums", MapOf(SUM), records(NUMBERS)),
    Subject("map of means", MapOf(MEAN), records(NUMBERS)),
    Subject("map of greatest", MapOf(MAX), records((lists(INTEGERS), arrays(np.int64)))),
    Subject("map of counts", MapOf(COUNT, value=None), records(NUMBERS)),
    Subject("top", Top(2), ORDERED),
    Subject("top by field", Top(3, by="value"), records(NUMBERS)),
    Subject("latest", Latest(by="value"), records(NUMBERS)),
    Subject("distinct", DISTINCT, (lists(INTEGERS), arrays(np.int64), key_columns)),
    Subject("field", FieldOf(SUM, "value"), records(NUMBERS)),
    Subject(
        "several", AllOf(n=COUNT, sum=FieldOf(SUM, "value"), keys=FieldOf(DISTINCT, "key")), records(NUMBERS)
    ),
    Subject("map of tops", MapOf(Top(2)), records((lists(INTEGERS), arrays(np.int64)))),
]
every_monoid = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)


def column(draw, subject, max_size=8):
    return draw(draw(st.sampled_from(subject.forms))(draw(st.integers(0, max_size))))


def same_kind(draw, subject, number):
    """Draw columns of one form, because states of texts and of numbers have no join."""
    form = draw(st.sampled_from(subject.forms))
    return [draw(form(draw(st.integers(0, 4)))) for _ in range(number)]


def exact(state):
    """Return bytes that differ if the values or their types do. Minus zero is zero, as for `==`."""
    return codec.encode(_plain(state))


def _plain(state):
    if isinstance(state, dict):
        return sorted(((repr(key), _plain(inner)) for key, inner in state.items()), key=lambda pair: pair[0])
    if isinstance(state, (list, tuple)):
        return tuple(map(_plain, state))
    return state + 0.0 if isinstance(state, float) else state


def folded(monoid, values):
    state = monoid.identity()
    for value in values:
        state = monoid.join(state, monoid.lift(copy.deepcopy(value)))
    return state


def joined(monoid, left, right):
    return monoid.join(copy.deepcopy(left), copy.deepcopy(right))


@every_monoid
@brief
@given(data=st.data())
def test_join_is_associative_and_commutative_and_has_an_identity(subject, data):
    monoid = subject.monoid
    a, b, c = (monoid.fold(found) for found in same_kind(data.draw, subject, 3))
    assert exact(joined(monoid, a, b)) == exact(joined(monoid, b, a))
    assert exact(joined(monoid, joined(monoid, a, b), c)) == exact(joined(monoid, a, joined(monoid, b, c)))
    assert exact(joined(monoid, a, monoid.identity())) == exact(a)
    assert exact(joined(monoid, monoid.identity(), a)) == exact(a)


@every_monoid
@brief
@given(data=st.data())
def test_fold_joins_the_lifted_values(subject, data):
    found = column(data.draw, subject)
    assert exact(subject.monoid.fold(found)) == exact(folded(subject.monoid, to_list(found)))


@every_monoid
@brief
@given(data=st.data())
def test_windows_are_folds_of_slices(subject, data):
    found = column(data.draw, subject)
    cuts = sorted(data.draw(st.lists(st.integers(0, length(found)), max_size=5)))
    windows = to_list(subject.monoid.windows(found, np.array(cuts, dtype=np.int64)))
    slices = [cut(found, start, stop) for start, stop in zip([0, *cuts], [*cuts, length(found)], strict=True)]
    assert [exact(state) for state in windows] == [
        exact(folded(subject.monoid, to_list(part))) for part in slices
    ]


@pytest.mark.parametrize("subject", SUBJECTS[:4], ids=lambda s: s.name)
def test_windows_of_integers_are_an_array(subject):
    windows = subject.monoid.windows(np.arange(6), np.array([2, 4]))
    assert isinstance(windows, np.ndarray)


def test_sum_is_exact_where_64_bits_are_not_enough():
    big = np.full(4, 2**62)
    assert SUM.fold(big) == 2**64
    assert SUM.fold(-big) == -(2**64)
    assert SUM.windows(big, np.array([1])) == [2**62, 3 * 2**62]


def test_sum_of_floats_in_another_order_is_equal_up_to_rounding():
    values = np.random.default_rng(1).random(10_000)
    assert SUM.fold(values) == pytest.approx(sum(values.tolist()), rel=1e-12)


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_results(values):
    assert SUM.result(SUM.fold(values)) == sum(values)
    assert COUNT.result(COUNT.fold(values)) == len(values)
    assert MIN.result(MIN.fold(values)) == min(values, default=None)
    assert MAX.result(MAX.fold(values)) == max(values, default=None)
    assert MEAN.result(MEAN.fold(values)) == (sum(values) / len(values) if values else None)


def test_nan_is_absorbing_on_either_side():
    for monoid in (SUM, MIN, MAX):
        assert math.isnan(monoid.join(math.nan, 1.0))
        assert math.isnan(monoid.join(1.0, math.nan))
        assert math.isnan(monoid.fold(np.array([1.0, math.nan, 2.0])))


@pytest.mark.parametrize("monoid", [SUM, MEAN], ids=lambda m: type(m).__name__)
def test_null_among_numbers_is_an_error_as_it_is_in_python(monoid):
    with pytest.raises(TypeError):
        monoid.fold(pa.array([1, None]))


def test_map_joins_keys_that_are_equal_in_python():
    values = {"key": np.array([0.0, -0.0]), "value": [1, 2]}
    assert MapOf(SUM).fold(values) == {0.0: 3}


def test_map_with_other_names_and_inner_results():
    by_page = MapOf(MEAN, key="page", value="time")
    states = by_page.fold([{"page": "home", "time": 1}, {"page": "home", "time": 2}])
    assert by_page.result(states) == {"home": 1.5}


@given(st.lists(st.integers(-5, 5)), st.integers(1, 4))
def test_top_is_the_greatest_values(values, count):
    assert Top(count).result(Top(count).fold(values)) == sorted(values, reverse=True)[:count]
    assert Top(count).fold(np.array(values, dtype=np.int64)) == sorted(values, reverse=True)[:count]


def test_top_of_nothing_is_refused():
    with pytest.raises(ProgramError, match="at least 1"):
        Top(0)


def test_top_takes_nan_for_the_greatest():
    found = Top(2).fold(np.array([1.0, math.nan, 5.0, 2.0]))
    assert math.isnan(found[0])
    assert found[1] == 5.0


@pytest.mark.parametrize("equal", [[1, 1.0, True], [0.0, -0.0, 0], [(1, 2.0), (1.0, 2)]], ids=str)
def test_which_of_equal_values_are_the_top_does_not_depend_on_the_order(equal):
    orders = [[*order] for order in permutations(equal)]
    assert len({codec.encode(folded(Top(2), order)) for order in orders}) == 1
    assert len({codec.encode(Top(2).fold(order)) for order in orders}) == 1


@given(st.permutations([{"ts": 1, "n": 9}, {"ts": 4, "n": 1}, {"ts": 4, "n": 2}]))
def test_latest_does_not_depend_on_the_order(records):
    assert folded(Latest(), records) == Latest().fold(records) == {"ts": 4, "n": 2}


def test_field_of_a_field():
    orders = {"order": {"price": np.array([3, 4])}}
    price = FieldOf(SUM, "order", "price")
    assert price.fold(orders) == 7 == price.join(price.lift({"order": {"price": 3}}), 4)


def test_several_monoids_have_results_by_name():
    both = AllOf(mean=MEAN, seen=DISTINCT)
    assert both.result(both.fold([1, 2, 2])) == {"mean": 5 / 3, "seen": {1, 2}}


@pytest.mark.parametrize("monoid", [Top(2), DISTINCT], ids=["top", "distinct"])
def test_result_does_not_change_with_the_state(monoid):
    state = monoid.fold([1])
    result = monoid.result(state)
    monoid.join(state, monoid.fold([2, 3]))
    assert list(result) == [1]
