"""Plans as plain data: they read back unchanged, handwritten plans are short, and errors name the node and a fix."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import InvalidError, NoPlanError
from dgs.job import document
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.optimizers.by_name import plan
from dgs.planner.plan import ForkStep
from dgs.planner.plan_data import PlanSectionError, from_data, to_data
from dgs.planner.tags_data import tags_from_data, tags_to_data
from dgs.planner.validity import violations
from tests.planner.instances import instances
from tests.programs import SmartHome

BARRIER, VIEW, LEVEL = kind("barrier"), kind("view", key=str), kind("level", key=(1, 2, 3))


class Views(Program):
    depends = Dependence((BARRIER, VIEW, ALWAYS), (VIEW, LEVEL, SAME_KEY))
    kinds = (BARRIER, VIEW, LEVEL)

    def fork(self, state, left, right):
        return state, state

    def join(self, left, right):
        return left


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
keys = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3) | st.binary(
    max_size=2
)
key_sets = st.one_of(
    st.sets(keys, max_size=3).map(KeySet.of),
    st.builds(
        lambda n, c, more, less: (KeySet.hashed(n, [i % n for i in c]) | KeySet.of(more)) - KeySet.of(less),
        st.integers(1, 6),
        st.sets(st.integers(0, 5)),
        st.sets(keys, max_size=2),
        st.sets(keys, max_size=2),
    ),
)
tag_sets = st.builds(
    lambda kinds, others: TagSet.from_kinds(kinds, others=others),
    st.dictionaries(st.sampled_from(["barrier", "view", "level"]), key_sets),
    st.booleans(),
)


@pytest.mark.parametrize(
    "item",
    ["veiw", {"kind": "veiw"}, {"kind": "veiw", "key": "a"}, {"kind": "veiw", "classes": [0], "of": 2}],
)
def test_a_kind_that_the_program_does_not_declare_is_refused_with_the_nearest(item):
    with pytest.raises(InvalidError, match=r"program Views has no kind 'veiw'; did you mean 'view'\?"):
        tags_from_data([item], Views())


@settings(deadline=None)
@given(tag_sets, st.booleans())
def test_tags_read_back_as_written(tags, with_program):
    data = tags_to_data(tags, Views() if with_program else None)
    assert tags_from_data(data, Views()) == tags


@settings(deadline=None, max_examples=30)
@given(tag_sets)
def test_tags_survive_the_plan_file(tags):
    text = document.dump({"tags": tags_to_data(tags, Views())})
    read = document.parse(text, "plan.yaml", {}).data
    assert tags_from_data(read["tags"], Views()) == tags


@settings(max_examples=50, deadline=None)
@given(instances(), st.integers(0, 10**6), st.booleans())
def test_plans_read_back_as_written(instance, seed, with_streams):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)
    data = to_data(made, program, streams=[stream.id for stream in topology.streams])
    assert from_data(data, program, topology.impl_tags() if with_streams else None) == made
    assert from_data(to_data(made), program) == made


@settings(max_examples=30, deadline=None)
@given(instances(), st.integers(0, 10**6))
def test_a_plan_without_states_and_forks_is_matched_again(instance, seed):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)

    def bare(data):
        below = {"children": [bare(child) for child in data["children"]]} if "children" in data else {}
        return {key: data[key] for key in ("id", "tags") if key in data} | below

    assert violations(from_data(bare(to_data(made)), program), program, topology) == []


def test_handwriting_needs_neither_ids_nor_lists():
    made = from_data(
        {
            "tags": {"ticks": "barrier"},
            "children": [
                {"id": "w2", "tags": {"a": {"kind": "view", "key": "EWR"}}},
                {"tags": {"a": [{"kind": "view", "classes": [0], "of": 1, "except": ["EWR"]}], "b": "*"}},
            ],
        },
        Views(),
    )
    assert [node.id for node in made.nodes()] == ["w0", "w2", "w1"]
    assert made.root.tags == ImplTagSet.of(ticks=TagSet.of(BARRIER))
    assert made.root.children[0].tags == ImplTagSet.of(a=TagSet.of(VIEW("EWR")))
    assert made.root.children[1].tags.stream("a") == TagSet.of(VIEW) - TagSet.of(VIEW("EWR"))
    assert made.root.children[1].tags.stream("b") == TagSet.everything()


def test_a_whole_kind_means_the_part_that_the_stream_carries():
    carried = ImplTagSet.of({"s": TagSet.of(LEVEL(1), LEVEL(2), BARRIER)})
    assert from_data({"tags": {"s": ["level", "barrier"]}}, Views(), carried).root.tags == carried
    assert from_data({"tags": {"s": "*"}}, Views(), carried).root.tags == carried
    assert from_data({"tags": {"s": "level"}}, Views()).root.tags.stream("s") == TagSet.of(LEVEL)


def test_a_split_stream_may_be_named_as_a_whole():
    carried = ImplTagSet.of({f"flights/{i}": TagSet.of(VIEW) for i in range(3)})
    assert from_data({"tags": {"flights": "view"}}, Views(), carried).root.tags == carried


def test_forks_are_written_by_the_ids_of_children():
    data = {
        "forks": {"fork": "fork", "left": {"fork": "fork", "left": "c", "right": 0}, "right": "b"},
        "children": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
    }
    made = from_data(data, Views())
    assert made.root.fork_tree == ForkStep("fork", ForkStep("fork", 2, 0), 1)
    assert to_data(made, Views())["forks"]["left"] == {"fork": "fork", "left": "c", "right": "a"}


def test_parts_that_follow_from_the_program_are_not_written():
    made = from_data({"children": [{"tags": {"a": "view"}}, {"tags": {"b": "view"}}]}, Views())
    assert to_data(made, Views()) == {
        "id": "w0",
        "children": [{"id": "w1", "tags": {"a": ["view"]}}, {"id": "w2", "tags": {"b": ["view"]}}],
    }


def test_several_state_types_are_filled_in_around_those_given():
    children = [{"tags": {"a": "a"}}, {"tags": {"b": "b"}, "state": "fold"}]
    made = from_data({"tags": {"m": "minute"}, "children": children}, SmartHome())
    assert [(node.state_type) for node in made.nodes()] == ["home", "sum", "fold"]
    assert made.root.fork_tree == ForkStep("split_home", 0, 1)


def test_impossible_state_types_name_the_node():
    children = [{"tags": {"a": "a"}, "state": "fold"}, {"tags": {"b": "b"}}]
    with pytest.raises(NoPlanError, match="'w1' can only have type home, sum, not fold"):
        from_data({"children": children}, SmartHome())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], r"plan, root: expected a node, got \[\]"),
        ({"children": [{"id": "x", "tag": {}}]}, r"plan, x: unknown 'tag'\. A node is {id, tags"),
        ({"children": [{}, 7]}, r"plan, root\.children\[1\]: expected a node, got 7"),
        ({"children": {}}, "`children` must be a list of nodes"),
        ({"tags": ["view"]}, "`tags` must be a mapping from stream to tags"),
        ({"tags": {"s": 7}}, r"plan, w0: tags of stream 's': 7 is not a tag.*Write a kind"),
        ({"tags": {"s": {"key": 7}}}, "`kind` is missing"),
        ({"tags": {"s": {"kind": "view", "keys": "EWR"}}}, "`keys` is a list"),
        ({"tags": {"s": {"kind": "view", "classes": [4], "of": 4}}}, "numbers from 0 to 3"),
        ({"tags": {"s": {"kind": "view", "class": [4], "of": 4}}}, "unknown 'class'"),
        (
            {"tags": {"s": {"kind": "view", "key": 1, "of": 4}}},
            "give `key`, or `keys`, or `classes` and `of`",
        ),
        ({"tags": {"s": {"kind": "view", "key": {"encoded": "?"}}}}, "not a key"),
        ({"forks": 7}, "`forks` must be a name or"),
        (
            {"forks": {"fork": "fork", "left": "x", "right": 1}, "children": [{}, {}]},
            "leads to 'x', which is not a child; the children are w1, w2",
        ),
    ],
)
def test_bad_plans_say_where_and_what_to_write(data, message):
    with pytest.raises(PlanSectionError, match=message) as raised:
        from_data(data, Views())
    assert isinstance(raised.value, InvalidError)
