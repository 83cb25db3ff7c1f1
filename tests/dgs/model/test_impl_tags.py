"""Sets of implementation tags: the laws of sets hold stream by stream."""

from hypothesis import given
from hypothesis import strategies as st

from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import ImplTag
from tests.dgs.model.test_tag_sets import TAGS, tag_sets

ITAGS = [ImplTag(tag, stream) for tag in TAGS for stream in ("s", "t", "unnamed")]
itag_sets = st.builds(ImplTagSet.of, st.dictionaries(st.sampled_from("stu"), tag_sets, max_size=3))


def listed(itags):
    return {itag for itag in ITAGS if itag in itags}


@given(itag_sets, itag_sets)
def test_operations_agree_with_those_of_sets(a, b):
    assert listed(a | b) == listed(a) | listed(b)
    assert listed(a & b) == listed(a) & listed(b)
    assert listed(a - b) == listed(a) - listed(b)


@given(itag_sets, itag_sets)
def test_sets_with_the_same_tags_are_equal_however_they_were_made(a, b):
    assert a | b == b | a
    assert (a | b) - b == a - b
    assert a - (a - b) == a & b
    assert a.isdisjoint(b) == (a & b == ImplTagSet())
    assert bool(a) == (a != ImplTagSet())


@given(itag_sets)
def test_tags_are_those_of_all_streams(a):
    assert a.tags() == union([a.stream("s"), a.stream("t"), a.stream("u")])
    assert dict(a) == {name: tags for name, tags in a if tags == a.stream(name)}


def test_a_stream_without_tags_is_not_kept():
    assert ImplTagSet.of(s=TagSet()) == ImplTagSet()
    assert ImplTagSet.of(s=TagSet()).stream("s") == TagSet()
