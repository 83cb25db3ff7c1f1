"""Rates that a user gives: they hold over all streams, keep proportions, and are refused if they are impossible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.given_rates import ContradictoryRatesError, UnknownRateError, with_rates
from dgs.planner.topology import Stream

VIEW, SALE, STOP = kind("view", key=str), kind("sale", key=(1, 2)), kind("stop")
RATES = st.floats(0.1, 1000.0)


def streams(*views: float) -> list[Stream]:
    """Return two streams of views and sales, with rates of `view(a)`, and a stream with unknown rates."""
    tags = TagSet.of(VIEW, SALE(1), SALE(2))
    known = [
        Stream(f"s/{i}", tags, {VIEW("a"): rate, VIEW("b"): 1.0, SALE(1): 2.0}, 0.5)
        for i, rate in enumerate(views)
    ]
    return [*known, Stream("stops", TagSet.of(STOP()))]


def total(found, of):
    return sum(rate for stream in found for tag, rate in stream.rates.items() if of in (tag, tag.kind))


@given(RATES, RATES, RATES)
def test_rate_of_a_kind_is_that_of_all_its_tags_in_proportion(first, second, rate):
    found = with_rates(streams(first, second), {"view": rate})
    assert total(found, "view") + sum(stream.other_rate for stream in found) == pytest.approx(rate)
    assert found[0].rates[VIEW("a")] * second == pytest.approx(found[1].rates[VIEW("a")] * first)
    assert total(found, "sale") == 4.0


@given(RATES, RATES)
def test_rate_of_a_tag_is_its_rate_over_all_streams(first, rate):
    found = with_rates(
        streams(first, 1.0), {"view(a)": rate, "sale(2)": 7.0, "stop": 3.0, "view('new')": 5.0}
    )
    assert total(found, VIEW("a")) == pytest.approx(rate)
    assert total(found, SALE(2)) == pytest.approx(7.0)
    assert found[2].rates == {STOP(): 3.0}
    assert total(found, VIEW("new")) == pytest.approx(5.0)
    assert total(found, VIEW("b")) == 2.0


@pytest.mark.parametrize(
    "rates",
    [
        {"view": 1.0, "view(a)": 2.0},
        {"sale": 9.0, "sale(1)": 4.0, "sale(2)": 4.0},
        {"sale": 3.0, "sale(1)": 2.0, "sale(2)": 2.0},
    ],
)
def test_rates_that_contradict_each_other_are_refused(rates):
    with pytest.raises(ContradictoryRatesError, match="times a second, and all of "):
        with_rates(streams(1.0), rates)


def test_a_kind_without_a_known_tag_has_the_rate_among_the_other_tags():
    tags = TagSet.of(VIEW, kind("click", key=int), SALE(1), SALE(2))
    found = with_rates([Stream("s", tags, {VIEW("a"): 1.0}, 0.5)], {"click": 5.0, "sale": 4.0})
    assert found[0].rates == {VIEW("a"): 1.0, SALE(1): 2.0, SALE(2): 2.0}
    assert found[0].other_rate == 5.5


@pytest.mark.parametrize(
    ("name", "tag"), [("view(7)", VIEW("7")), ("view('7')", VIEW("7")), ("view(a b)", VIEW("a b"))]
)
def test_a_new_key_has_the_type_of_the_known_ones(name, tag):
    assert total(with_rates(streams(1.0), {name: 5.0}), tag) == 5.0


def test_two_rates_of_one_tag_are_refused():
    with pytest.raises(ContradictoryRatesError, match="has two rates, 5 and 9"):
        with_rates(streams(1.0), {"view(a)": 5.0, "view('a')": 9.0})


@pytest.mark.parametrize(("name", "nearest"), [("veiw", "view"), ("sale(3)", "sale(1)"), ("stopp", "stop")])
def test_rates_of_unknown_tags_are_refused_with_the_nearest_name(name, nearest):
    with pytest.raises(UnknownRateError) as caught:
        with_rates(streams(1.0), {name: 1.0})
    assert nearest in str(caught.value)
