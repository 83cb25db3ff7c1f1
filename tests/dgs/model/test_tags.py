"""Tags and kinds: valid keys, and kinds as strings."""

import copy
from datetime import date
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
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


REFUSED = [
    Decimal("1.5"),
    Fraction(1, 2),
    1j,
    np.complex64(1),
    ("EUR", Decimal(1)),
    frozenset([(1, Fraction(1, 3))]),
]


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize(
    "make",
    [
        lambda key: Tag("price", key),
        kind("price", key=object),
        lambda key: kind("price", key=[key]),
    ],
)
def test_exact_and_complex_numbers_are_refused_as_keys(make, key):
    with pytest.raises(
        ProgramError, match=r"a key of kind 'price' cannot be a \w+: take str\(\.\.\.\) of it"
    ):
        make(key)


@pytest.mark.parametrize("key", [10**4300, -(10**4300), (1, 10**4300)], ids=["above", "below", "inside"])
def test_integers_that_python_does_not_write_are_refused_as_keys(key):
    for make in (lambda key: Tag("n", key), kind("n", key=object), lambda key: kind("n", key=[key])):
        with pytest.raises(ProgramError, match="cannot be an integer of more than 4,300 digits"):
            make(key)
    assert Tag("n", 10**4300 - 1).key == kind("n", key=int)(10**4300 - 1).key


@pytest.mark.parametrize("one", [Decimal, Fraction, complex, np.complex128])
def test_exact_and_complex_numbers_are_refused_as_domains(one):
    with pytest.raises(ProgramError, match=f"cannot be a {one.__name__}"):
        kind("price", key=one)


@pytest.mark.parametrize(
    "key", ["a", 1, True, 0.5, b"a", date(2024, 1, 1), ("a", 1), frozenset("ab"), UUID(int=1), np.int64(3)]
)
def test_other_keys_are_taken(key):
    assert kind("price", key=object)(key).key == key


def test_kind_survives_copying():
    view = kind("view", key=("a", "b"))
    assert copy.deepcopy(view).domain == ("a", "b")
    assert isinstance(copy.copy(view), Kind)


def test_repr_is_short():
    assert repr(Tag("view", "home")) == "view('home')"
    assert repr(Tag("barrier")) == "barrier"
    assert repr(ImplTag(Tag("view", 3), "clicks")) == "view(3)@clicks"


@pytest.mark.parametrize("wrong", [1.5, 7, object(), print, "abc", b"abc"])
def test_keys_of_a_kind_that_are_neither_a_type_nor_a_set_are_refused_with_the_remedy(wrong):
    with pytest.raises(ProgramError, match=r"cannot be .*: give a type, such as `key=str`, or all keys"):
        kind("view", key=wrong)


@pytest.mark.parametrize("wrong", [5, None, ["view"], str])
def test_name_of_a_kind_that_is_no_text_is_refused(wrong):
    with pytest.raises(ProgramError, match="the name of a kind is a text"):
        kind(wrong)


def test_errors_of_keys_do_not_print_all_of_a_long_key_or_of_many_keys():
    long = "y" * 5000
    for make in (
        lambda: kind("view")(long),
        lambda: kind("view", key=range(5000))(long),
        lambda: kind("view", key=long),
    ):
        with pytest.raises(ProgramError) as caught:
            make()
        assert len(str(caught.value)) < 300
