"""Dependence: every declaration is symmetric; `between` and `witness` agree with a check tag by tag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import AsymmetricDependenceError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence, Rule
from dgs.model.key_sets import KeySet
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind

NAMES, KEYS = "pqr", (None, 0, 1, 2)
TAGS = [Tag(name, key) for name in NAMES for key in KEYS]


def smaller(a, b):
    return (a.key or 0) < (b.key or 0)


rules = st.builds(
    Rule, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([ALWAYS, SAME_KEY, smaller])
)
relations = st.lists(rules, max_size=4).map(lambda chosen: Dependence(*chosen)) | st.just(
    Dependence.everything()
)
finite_sets = st.lists(st.sampled_from(TAGS), max_size=5).map(lambda tags: TagSet.of(*tags))


@given(relations, st.sampled_from(TAGS), st.sampled_from(TAGS))
def test_every_relation_is_symmetric(relation, a, b):
    assert relation(a, b) == relation(b, a)


@given(relations, finite_sets, finite_sets)
def test_between_of_finite_sets_asks_every_pair(relation, left, right):
    expected = any(relation(a, b) for a in TAGS if a in left for b in TAGS if b in right)
    assert relation.between(left, right) == expected
    assert relation.between(right, left) == expected


@given(relations, finite_sets, finite_sets)
def test_witness_names_a_dependent_pair_if_there_is_one(relation, left, right):
    witness = relation.witness(left, right)
    pairs = {(repr(a), repr(b)) for a in TAGS if a in left for b in TAGS if b in right if relation(a, b)}
    assert witness in pairs if pairs else witness is None


def test_between_of_infinite_sets_is_exact_for_keys():
    relation = Dependence(("view", "update", SAME_KEY))
    even, odd = KeySet.hashed(2, [0]), KeySet.hashed(2, [1])
    views = TagSet.from_kinds({"view": even})
    assert not relation.between(views, TagSet.from_kinds({"update": odd}))
    assert relation.between(views, TagSet.from_kinds({"update": even}))
    assert not relation.between(views, views)
    assert relation.between(TagSet.everything(), TagSet.everything())


def test_between_never_assumes_independence_of_infinite_sets_under_a_predicate():
    relation = Dependence(("p", "p", lambda a, b: False))
    assert relation.between(TagSet.of("p"), TagSet.of("p"))
    assert not relation.between(TagSet.of(Tag("p", 1)), TagSet.of(Tag("p", 1)))
    assert relation.witness(TagSet.of("p"), TagSet.of("p")) == ("{p(all)}", "{p(all)}")


def test_unlisted_kinds_are_independent():
    relation = Dependence(("p", "q", ALWAYS))
    assert relation(Tag("q", 3), Tag("p", 4))
    assert not relation(Tag("p"), Tag("p"))
    assert not relation(Tag("x"), Tag("y"))


def test_a_predicate_is_asked_in_the_order_of_its_rule():
    seen = []
    relation = Dependence(("p", "q", lambda a, b: seen.append((a, b)) or True))
    assert relation(Tag("q"), Tag("p"))
    assert seen == [(Tag("p"), Tag("q"))]


def test_everything_depends_on_everything_but_not_on_nothing():
    relation = Dependence.everything()
    assert relation(Tag("p"), Tag("q"))
    assert relation.between(TagSet.of("p"), TagSet.of("q"))
    assert not relation.between(TagSet.of("p"), TagSet())


@given(
    st.sets(st.frozensets(st.sampled_from(TAGS), min_size=1, max_size=2)),
    st.sampled_from(TAGS),
    st.sampled_from(TAGS),
)
def test_from_function_is_the_function(dependent, a, b):
    relation = Dependence.from_function(lambda a, b: frozenset([a, b]) in dependent, TAGS)
    assert relation(a, b) == (frozenset([a, b]) in dependent)


def test_from_function_refuses_an_asymmetric_function_and_names_the_pair():
    with pytest.raises(AsymmetricDependenceError) as caught:
        Dependence.from_function(lambda a, b: (a.key, b.key) == (1, 2), [Tag("p", 1), Tag("p", 2)])
    assert (caught.value.left, caught.value.right) == (Tag("p", 1), Tag("p", 2))
    assert (caught.value.forward, caught.value.backward) == (True, False)
    assert "depends(p(1), p(2)) is True" in str(caught.value)


def test_kinds_are_those_declared_in_the_rules():
    view = kind("view", key=str)
    assert Dependence((view, "update", SAME_KEY)).kinds == {"view": view}
    assert Dependence((view, "update", SAME_KEY)).kinds["view"].domain is str
