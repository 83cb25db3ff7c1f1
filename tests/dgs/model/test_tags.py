"""Tags and kinds: what may be a key, and that a kind is its name."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import ProgramError
from dgs.model.tags import ImplTag, Kind, Tag, kind


@given(st.text(), st.integers() | st.text())
def test_kind_makes_tags_that_are_equal_when_kind_and_key_are(name, key):
    assert kind(name, key=type(key))(key) == Tag(name, key)
    assert hash(kind(name, key=object)(key)) == hash(Tag(name, key))
    assert Tag(name, key) != Tag(name)


def test_kind_is_its_name():
    view = kind("view", key=str)
    assert view == "view"
    assert {view: 1}["view"] == 1
    assert type(view("a").kind) is str


def test_kind_knows_its_domain():
    unkeyed, finite, unbounded = kind("b"), kind("u", key=range(3)), kind("v", key=str)
    assert (unkeyed.is_keyed, unkeyed.is_finite) == (False, True)
    assert (finite.is_keyed, finite.is_finite, finite.domain) == (True, True, (0, 1, 2))
    assert (unbounded.is_keyed, unbounded.is_finite) == (True, False)


def test_kind_of_a_set_has_a_reproducible_order():
    assert kind("u", key={"c", "a", "b"}).domain == ("a", "b", "c")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: kind("b")(3), "'b' takes no key, got 3"),
        (kind("v", key=str), "'v' takes one key, got 0"),
        (lambda: kind("v", key=str)("a", "b"), "'v' takes one key, got 2"),
        (lambda: kind("u", key=(1, 2))(3), "3 is not a key of kind 'u'"),
    ],
)
def test_calling_a_kind_with_the_wrong_key_names_it(make, problem):
    with pytest.raises(ProgramError) as caught:
        make()
    assert problem in str(caught.value)


def test_kind_survives_copying():
    view = kind("view", key=("a", "b"))
    assert copy.deepcopy(view).domain == ("a", "b")
    assert isinstance(copy.copy(view), Kind)


def test_repr_is_short():
    assert repr(Tag("view", "home")) == "view('home')"
    assert repr(Tag("barrier")) == "barrier"
    assert repr(ImplTag(Tag("view", 3), "clicks")) == "view(3)@clicks"
