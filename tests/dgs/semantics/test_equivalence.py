"""Equivalence of output streams: the matcher against projections on pairs of dependent outputs.

The oracle does no matching. Two sequences are the same trace if, for every two dependent letters (a letter is a tag with
a value), what they have of those two is the same sequence, and every letter occurs as often; they have a common continuation
as long as of any two of these sequences one begins with the other.
"""

from collections import Counter
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs
from dgs.errors import UsageError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.program import Program
from dgs.semantics import sequential
from dgs.semantics.equivalence import Matcher, OutputsDiffer, assert_equivalent
from tests.programs import BARRIER, INC, READ, VALUE, Counters

TAGS = [dgs.Tag("p"), dgs.Tag("q"), dgs.Tag("r"), dgs.Tag("s")]
letters = st.tuples(st.sampled_from(TAGS), st.integers(0, 1))
relations = st.sets(st.frozensets(st.sampled_from(TAGS), min_size=1, max_size=2))


def related(pairs):
    return lambda a, b: frozenset([a, b]) in pairs


def projections(one, other, depends):
    """Yield the two sequences restricted to each pair of dependent letters."""
    found = sorted({*one, *other}, key=repr)
    for i, x in enumerate(found):
        for y in found[i:]:
            if depends(x[0], y[0]):
                yield [z for z in one if z in (x, y)], [z for z in other if z in (x, y)]


def are_equivalent(one, other, depends):
    return Counter(one) == Counter(other) and all(a == b for a, b in projections(one, other, depends))


def have_a_continuation(one, other, depends):
    return all(a[: len(b)] == b[: len(a)] for a, b in projections(one, other, depends))


@st.composite
def nearly_equal(draw):
    """Draw two sequences: the second is the first with neighbours exchanged, and sometimes another change."""
    one = draw(st.lists(letters, max_size=8))
    other = list(one)
    for place in draw(st.lists(st.integers(0, 7), max_size=8)):
        other[place : place + 2] = other[place : place + 2][::-1]
    if draw(st.booleans()):
        place = draw(st.integers(0, 8))
        other[place : place + 1] = draw(st.lists(letters, max_size=1))
    return one, other


def is_accepted(one, other, depends):
    try:
        assert_equivalent(one, other, depends)
    except OutputsDiffer:
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(nearly_equal(), relations)
def test_equivalent_are_the_sequences_with_equal_projections(both, pairs):
    depends = related(pairs)
    assert is_accepted(*both, depends) == are_equivalent(*both, depends)


@settings(max_examples=100, deadline=None)
@given(nearly_equal(), relations)
def test_matcher_fails_at_the_first_output_without_a_common_continuation(both, pairs):
    depends, seen = related(pairs), ([], [])
    matcher = Matcher(depends)
    for items in zip_longest(*both):
        for side, item in enumerate(items):
            if item is None:
                continue
            seen[side].append(item)
            try:
                matcher.offer("ab"[side], *item)
            except OutputsDiffer:
                assert not have_a_continuation(*seen, depends)
                return
            assert have_a_continuation(*seen, depends)


def test_reordering_of_independent_outputs_is_allowed():
    program = Counters()
    batch = dgs.EventBatch.of(
        "s",
        rank=0,
        tags=[INC(0), READ(0), READ(1)],
        codes=[0, 1, 2, 1],
        ts=[1, 2, 3, 4],
        payload=[5, 0, 0, 0],
    )
    outputs = sequential.run(program, [[batch]]).outputs
    assert_equivalent(outputs, [outputs[1], outputs[0], outputs[2]], program.dependence)
    with pytest.raises(OutputsDiffer):
        assert_equivalent(outputs, [outputs[2], outputs[1], outputs[0]], program.dependence)


def test_failure_names_both_outputs_and_other_unmatched_ones():
    depends = dgs.Dependence((BARRIER, BARRIER, ALWAYS))
    a = [(VALUE(1), "x"), (BARRIER(), 1), (BARRIER(), 2)]
    with pytest.raises(OutputsDiffer) as failed:
        assert_equivalent(a, [(BARRIER(), 1), (BARRIER(), 3), (VALUE(1), "x")], depends)
    assert str(failed.value).splitlines() == [
        "the outputs are not equivalent:",
        "  a[2] is 2 of barrier",
        "  b[1] is 3 of barrier, which depends on it and which a has not had before",
        "other outputs without counterpart until then:",
        "  a[0] is 'x' of value(1)",
    ]


def test_missing_output_is_reported_when_a_stream_ends():
    with pytest.raises(OutputsDiffer, match=r"a\[1\] is 7 of late\n  and b has ended without it"):
        assert_equivalent([("early", 1), ("late", 7)], [("early", 1)], dgs.Dependence())


def test_events_may_stand_for_their_tags():
    event = dgs.Event(READ(1), "s", 0, None)
    assert_equivalent([(event, 3)], [(READ(1), 3)], dgs.Dependence((READ, READ, SAME_KEY)))


@given(st.permutations([0.1, 0.2, 0.3]))
def test_tolerance_allows_rounding_but_not_more(values):
    close = [(dgs.Tag("p"), value + 1e-12) for value in values]
    a = [(dgs.Tag("p"), value) for value in (0.1, 0.2, 0.3)]
    assert_equivalent(a, close, dgs.Dependence(), tolerance=1e-9)
    with pytest.raises(OutputsDiffer):
        assert_equivalent(a, close, dgs.Dependence())


def test_close_output_that_comes_first_goes_before_an_equal_one_that_does_not():
    depends = dgs.Dependence((BARRIER, BARRIER, ALWAYS))
    matcher = Matcher(depends, tolerance=1e-9)
    for side, values in (("a", [1.0, 1.0 + 1e-12]), ("b", [1.0 + 1e-12, 1.0])):
        for value in values:
            matcher.offer(side, BARRIER(), value)
    assert not matcher.unmatched()


def test_values_without_tags_are_refused():
    with pytest.raises(UsageError, match="pair"):
        assert_equivalent([3], [3], dgs.Dependence())


def test_matching_many_outputs_takes_time_in_proportion():
    """Few outputs share a tag, and their counterparts are in reverse order: a repeated search would be quadratic."""
    outputs = [(READ(number % 3), number) for number in range(20_000)]
    assert_equivalent(outputs, outputs[::-1], dgs.Dependence())


def test_failure_by_rounding_names_the_tolerance():
    with pytest.raises(OutputsDiffer, match="tolerance=1e-9"):
        assert_equivalent([("a", 0.1 + 0.2)], [("a", 0.3)], Dependence.everything())


def test_program_stands_for_its_dependence():
    class Keyed(Program):
        depends = Dependence(("a", "b", ALWAYS))

    assert_equivalent([("a", 1), ("c", 2)], [("c", 2), ("a", 1)], Keyed)
    with pytest.raises(OutputsDiffer):
        assert_equivalent([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], Keyed())
