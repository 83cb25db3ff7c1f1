"""Validity: corrupted plans are reported under the right rule with their nodes, valid plans never."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dgs.errors import InvalidPlanError
from dgs.model.dependence import ALWAYS, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.optimizers.by_name import plan
from dgs.planner.plan import ForkStep, Plan, PlanNode, rebuilt
from dgs.planner.topology import Stream, Topology
from dgs.planner.validity import check, violations
from tests.planner.instances import faults, instances, sampled

VALUE, BARRIER = kind("value"), kind("barrier")


class Window(Program):
    depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS))

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


class Accumulating(Program):
    """Its fork is derived. Barriers of two kinds, independent of each other."""

    depends = Dependence(("b1", "v1", ALWAYS), ("b2", "v2", ALWAYS))
    accumulates = ("v1", "v2")

    def identity(self):
        return 0

    def join(self, left, right):
        return left + right


class Two(Program):
    """`whole` opens into two `part`s, which handle values only and do not fork."""

    depends = Window.depends

    def states(self):
        return (StateType("whole", TagSet.everything(), max), StateType("part", TagSet.of(VALUE), max))

    def fork_joins(self):
        return (ForkJoin("open", "whole", "part", "part", max, max),)


def values(i, owner=None, state="state"):
    return PlanNode(owner or f"w{i + 1}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE)}), state)


def window(*children, root_id="w0", fork_tree=None, state="state"):
    tags = ImplTagSet.of(b=TagSet.of(BARRIER))
    return Plan(PlanNode(root_id, tags, state, children, fork_tree))


def streams(count):
    return ImplTagSet.of({"b": TagSet.of(BARRIER), **{f"v{i}": TagSet.of(VALUE) for i in range(count)}})


def found(made, program=None, everything=None):
    reported = violations(made, program or Window(), everything or made.root.subtree_tags())
    return [(violation.rule, violation.nodes) for violation in reported]


def moved(made, source, target, tags):
    """Return the plan with `tags` taken from `source` (None: copied) and given to `target` (None: dropped)."""

    def visit(node, below):
        mine = node.tags
        if node.id == source:
            mine = mine - tags
        if node.id == target:
            mine = mine | tags
        return replace(node, tags=mine, children=below)

    return Plan(rebuilt(made.root, visit))


def test_valid_plan_has_no_violations():
    assert found(window(values(0), values(1)), everything=streams(2)) == []


def test_check_lists_all_violations_at_once():
    made = window(values(0), values(1), values(2, "w1"), root_id="w1")
    with pytest.raises(InvalidPlanError) as raised:
        check(made, Window(), streams(4))
    assert {violation.rule for violation in raised.value.violations} == {"structure", "coverage"}
    assert "v3" in str(raised.value)
    assert "3 nodes have the id 'w1'" in str(raised.value)


def test_dropped_tag_is_a_gap_in_coverage():
    made = window(values(0), values(1))
    assert found(made, everything=streams(3)) == [("coverage", ())]


def test_tag_no_stream_carries_is_reported_with_its_node():
    assert found(window(values(0), values(1)), everything=streams(1)) == [("coverage", ("w2",))]


def test_tag_of_the_wrong_kind_is_reported_with_its_node():
    odd = PlanNode("w1", ImplTagSet.of(v0=TagSet.of(VALUE, BARRIER)))
    (violation,) = [
        v for v in violations(window(odd, values(1)), Window(), streams(2)) if v.rule == "coverage"
    ]
    assert violation.nodes == ("w1",)
    assert "does not carry it" in violation.message


def test_tag_owned_twice_in_one_branch_breaks_coverage():
    made = moved(window(values(0), values(1)), None, "w0", values(0).tags)
    assert found(made) == [("coverage", ("w0", "w1"))]


def test_tag_owned_twice_side_by_side_breaks_v2():
    made = moved(window(values(0), values(1)), None, "w2", values(0).tags)
    assert found(made) == [("V2", ("w1", "w2"))]


def test_dependent_siblings_break_v2():
    barrier = PlanNode("w1", ImplTagSet.of(b=TagSet.of(BARRIER)))
    made = Plan(PlanNode("w0", ImplTagSet(), children=(barrier, values(1))))
    assert found(made) == [("V2", ("w1", "w2"))]


def test_dependent_cousins_break_v2_and_name_the_workers_themselves():
    barrier = PlanNode("deep", ImplTagSet.of(b=TagSet.of(BARRIER)))
    left = PlanNode("left", ImplTagSet(), children=(values(0), values(1)))
    right = PlanNode("right", ImplTagSet(), children=(barrier, values(2)))
    made = Plan(PlanNode("w0", ImplTagSet(), children=(left, right)))
    pairs = [("w1", "deep"), ("w2", "deep"), ("deep", "w3")]
    assert sorted(found(made)) == sorted(("V2", pair) for pair in pairs)


def test_leaf_without_tags_breaks_structure():
    assert found(window(values(0), values(1), PlanNode("idle", ImplTagSet()))) == [("structure", ("idle",))]
    assert found(Plan(PlanNode("w0", ImplTagSet()))) == []


def test_only_child_breaks_structure():
    assert found(window(values(0))) == [("structure", ("w0",))]


def test_duplicate_id_breaks_structure():
    assert found(window(values(0), values(1, "w1"))) == [("structure", ("w1",))]


@pytest.mark.parametrize(
    "tree", [ForkStep("fork", 0, 0), ForkStep("fork", 0, 2), ForkStep("fork", 0, ForkStep("fork", 1, 1))]
)
def test_fork_tree_that_misses_a_child_breaks_structure(tree):
    assert ("structure", ("w0",)) in found(window(values(0), values(1), fork_tree=tree))


def test_unknown_fork_breaks_v1():
    made = window(values(0), values(1), fork_tree=ForkStep("spork", 0, 1))
    assert found(made) == [("V1", ("w0",))]


def test_missing_fork_and_join_are_reported():
    class Plain(Program):
        depends = Window.depends

    (violation,) = violations(window(values(0), values(1)), Plain(), streams(2))
    assert violation.rule == "V1"
    assert "has no fork and join" in violation.message


def test_unknown_state_type_breaks_v1():
    assert ("V1", ("w1",)) in found(window(values(0, state="stat"), values(1)))


def test_state_type_must_handle_the_whole_subtree():
    tree = ForkStep("open", 0, 1)
    made = window(values(0, state="part"), values(1, state="part"), fork_tree=tree, state="whole")
    assert found(made, Two()) == []
    under = PlanNode(
        "w0", ImplTagSet(), "part", (values(0, state="part"), PlanNode("b", made.root.tags, "part")), tree
    )
    reported = violations(Plan(under), Two(), streams(1))
    assert ("V1", ("b",)) in [(v.rule, v.nodes) for v in reported]
    assert any(v.nodes == ("w0",) and "does not handle" in v.message for v in reported)


def test_fork_must_start_from_the_type_of_its_node():
    inner = PlanNode(
        "in", ImplTagSet(), "part", (values(0, state="part"), values(1, state="part")), ForkStep("open", 0, 1)
    )
    made = window(inner, values(2, state="part"), fork_tree=ForkStep("open", 0, 1), state="whole")
    assert found(made, Two()) == [("V1", ("in",))]


def test_fork_must_make_the_type_of_the_child():
    children = (values(0, state="part"), values(1, state="whole"))
    assert found(window(*children, fork_tree=ForkStep("open", 0, 1), state="whole"), Two()) == [
        ("V1", ("w0", "w2"))
    ]


def test_steps_inside_of_a_node_are_typed_too():
    """Three parts would need a part that forks."""
    parts = [values(i, state="part") for i in range(3)]
    tree = ForkStep("open", 0, ForkStep("open", 1, 2))
    assert found(window(*parts, fork_tree=tree, state="whole"), Two()) == [("V1", ("w0",))]


def test_root_must_have_the_initial_type():
    made = Plan(PlanNode("w0", ImplTagSet.of(v0=TagSet.of(VALUE)), "part"))
    assert found(made, Two()) == [("V1", ("w0",))]


def test_derived_fork_serves_one_side_only():
    sides = [
        PlanNode(f"w{i}", ImplTagSet.of({f"b{i}": TagSet.of(f"b{i}"), f"v{i}": TagSet.of(f"v{i}")}))
        for i in (1, 2)
    ]
    made = Plan(PlanNode("w0", ImplTagSet(), children=tuple(sides)))
    (violation,) = violations(made, Accumulating(), made.root.subtree_tags())
    assert (violation.rule, violation.nodes) == ("V1", ("w0", "w1", "w2"))


def test_derived_fork_is_respected_by_hoisting_tags_that_do_not_accumulate():
    names = ["b1", "v1", "b2", "v2"]
    made = plan(
        Accumulating(),
        Topology([Stream(f"s{n}", TagSet.of(n), other_rate=9.0 if n[0] == "v" else 1.0) for n in names]),
        max_leaves=4,
    )
    assert len(made.leaves) > 1
    assert violations(made, Accumulating(), made.root.subtree_tags()) == []


def test_two_thousand_siblings_are_compared_without_looking_at_every_pair():
    asked = []

    class Asking(Dependence):
        def between(self, left, right):
            asked.append(1)
            return super().between(left, right)

    class Wide(Window):
        depends = Asking(*Window.depends.rules)

    leaves = [values(i) for i in range(2000)]
    assert violations(window(*leaves), Wide(), streams(2000)) == []
    assert len(asked) < 5 * 2000


def test_very_many_violations_are_listed_in_part():
    made = Plan(
        PlanNode(
            "w0",
            ImplTagSet(),
            children=tuple(
                PlanNode(f"b{i}", ImplTagSet.of({f"b{i}": TagSet.of(BARRIER)})) for i in range(60)
            ),
        )
    )
    with pytest.raises(InvalidPlanError, match=r"and \d+ more"):
        check(made, Window(), made.root.subtree_tags())


def test_oracle_looks_at_hash_classes_that_hold_none_of_the_sampled_keys():
    sides = [
        PlanNode(f"w{i}", ImplTagSet.of(v=TagSet.from_kinds({"value": KeySet.hashed(64, [c])})))
        for i, c in ((1, 7), (2, 25))
    ]
    assert not any(sampled(side.tags.stream("v")) for side in sides)
    rest = {"value": KeySet.all() - KeySet.hashed(64, [7, 25])}
    root = PlanNode(
        "w0", ImplTagSet.of(v=TagSet.from_kinds(rest), b=TagSet.of(BARRIER)), children=tuple(sides)
    )
    topology = Topology(
        [Stream("v", TagSet.from_kinds({"value": KeySet.all()})), Stream("b", TagSet.of(BARRIER))]
    )
    assert not list(faults(Plan(root), Window(), topology))
    corrupted = moved(Plan(root), "w0", "w1", ImplTagSet.of(b=TagSet.of(BARRIER)))
    assert found(corrupted) == [("V2", ("w1", "w2"))]
    assert list(faults(corrupted, Window(), topology))


@settings(max_examples=75, deadline=None)
@given(instances(), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_moving_dropping_and_copying_tags_is_reported_when_it_is_wrong(instance, seed, rnd):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)
    nodes = list(made.nodes())
    source = rnd.choice([node for node in nodes if any(sampled(tags) for _, tags in node.tags.streams)])
    stream = rnd.choice([name for name, tags in source.tags.streams if sampled(tags)])
    tags = TagSet.of(rnd.choice(sampled(source.tags.stream(stream))))
    target = rnd.choice([None, *(node.id for node in nodes if node is not source)])
    taken = rnd.choice([source.id, None])
    assume(taken or target)
    corrupted = moved(made, taken, target, ImplTagSet.of({stream: tags}))
    rules = {violation.rule for violation in violations(corrupted, program, topology)}
    assert bool(rules) == bool(list(faults(corrupted, program, topology)))
    if taken and target is None:
        assert "coverage" in rules
