"""Tag sets: the laws of sets, by membership of tags of named and of other kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.model.key_sets import KeySet
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import Tag, kind
from tests.dgs.model.test_key_sets import key_sets

VIEW, UPDATE, BARRIER = kind("view", key=str), kind("update", key=("a", "b")), kind("barrier")
TAGS = [Tag(name, key) for name in ("p", "q", "unnamed") for key in (None, 0, 1, 7, "a", "z")]
tag_sets = st.builds(
    lambda kinds, others: TagSet.from_kinds(kinds, others=others),
    st.dictionaries(st.sampled_from("pqr"), key_sets, max_size=3),
    st.booleans(),
)


def listed(tags):
    return {tag for tag in TAGS if tag in tags}


@given(tag_sets, tag_sets)
def test_operations_agree_with_those_of_sets(a, b):
    assert listed(a | b) == listed(a) | listed(b)
    assert listed(a & b) == listed(a) & listed(b)
    assert listed(a - b) == listed(a) - listed(b)


@given(tag_sets, tag_sets, tag_sets)
def test_sets_with_the_same_tags_are_equal_however_they_were_made(a, b, c):
    everything = TagSet.everything()
    assert a & (b | c) == (a & b) | (a & c)
    assert everything - (a | b) == (everything - a) & (everything - b)
    assert everything - (everything - a) == a
    assert (a | b) - b == a - b
    assert union([a, b, c]) == c | b | a


@given(tag_sets, tag_sets)
def test_inclusion_and_disjointness_agree_with_the_operations(a, b):
    assert (a <= b) == (a & b == a) == (a | b == b)
    assert a.isdisjoint(b) == (a & b == TagSet())
    assert bool(a) == (a != TagSet())
    assert a & b <= a <= a | b


@given(tag_sets)
def test_tags_lists_a_finite_set(a):
    if a.is_finite:
        assert TagSet.of(*a.tags()) == a
    assert all(tag in a for tag in a.tags())


def test_of_takes_tags_and_kinds_with_their_domains():
    assert TagSet.of(UPDATE) == TagSet.of(UPDATE("a"), UPDATE("b"))
    assert TagSet.of(BARRIER) == TagSet.of(BARRIER())
    assert TagSet.of(VIEW).keys("view") == KeySet.all()
    assert TagSet.of("view") == TagSet.of(VIEW)
    assert TagSet.of() == TagSet()


def test_a_kind_is_in_a_set_that_holds_any_of_its_tags():
    some = TagSet.of(UPDATE("a"), VIEW)
    assert UPDATE in some
    assert VIEW in some
    assert BARRIER not in some
    assert "update" in some
    assert BARRIER in TagSet.everything() - TagSet.of(VIEW)
    assert VIEW not in TagSet.everything() - TagSet.of(VIEW)


def test_an_empty_kind_is_not_kept():
    assert TagSet.from_kinds({"p": KeySet()}) == TagSet()
    assert not TagSet.from_kinds({"p": KeySet()})


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        (TagSet.of(BARRIER), "{barrier}"),
        (TagSet.of(VIEW), "{view(all)}"),
        (TagSet.of(UPDATE("b"), UPDATE("a")), "{update('a'), update('b')}"),
        (TagSet.everything() - TagSet.of(BARRIER), "{barrier(all - {None}), ...}"),
        (TagSet(), "{}"),
    ],
)
def test_repr_reads_as_the_tags(tags, shown):
    assert repr(tags) == shown
