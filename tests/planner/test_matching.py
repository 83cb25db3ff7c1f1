"""Matching: types and forks are found where they exist, and an error names the node and the reason."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import NoPlanError
from dgs.model.dependence import Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.optimizers.atoms import Atom
from dgs.planner.optimizers.matching import Matcher, Options, fitted, match
from dgs.planner.optimizers.tag_tree import branch, leaf
from dgs.planner.plan import PlanNode
from tests.planner.instances import Typed


class Several(Program):
    """Letters are independent. `all` opens into `a` and `rest`; only `a` forks on."""

    depends = Dependence()

    def __init__(self, *forks: str) -> None:
        self._forks = tuple(ForkJoin("".join(f.split()), *f.split(), max, max) for f in forks)

    def states(self):
        return (
            StateType("all", TagSet.everything(), max),
            StateType("a", TagSet.of("a"), max),
            StateType("rest", TagSet.of("b", "c"), max),
        )

    def fork_joins(self):
        return self._forks


def tree(*letters, own=""):
    children = tuple(
        PlanNode(f"{x}{i}", ImplTagSet.of({f"{x}{i}": TagSet.of(x)})) for i, x in enumerate(letters)
    )
    tags = ImplTagSet.of({x: TagSet.of(x) for x in own})
    return PlanNode("root", tags, children=children)


def types(root):
    return [root.state_type, *(child.state_type for child in root.children)]


def test_match_reorders_and_shapes_forks_freely():
    root = match(tree("a", "b", "a"), Several("all a rest", "a a a"))
    assert types(root) == ["all", "a", "rest", "a"]
    assert sorted(root.fork_tree.leaves()) == [0, 1, 2]


def test_match_looks_past_the_first_fork_that_starts_right():
    root = match(tree("a", "b", "c"), Several("all a a", "all a all", "all rest rest"))
    assert types(root) == ["all", "a", "rest", "rest"]


def test_match_refuses_a_type_in_the_middle_that_cannot_handle_its_children():
    """By its types `a` could fork into anything, but it does not handle b."""
    with pytest.raises(NoPlanError):
        match(tree("b", "c", "a"), Several("all a a", "a rest rest", "a a a"))


def test_match_keeps_given_types():
    program = Several("all all all", "all a rest")
    assert types(match(tree("a", "b"), program, fixed={"a0": "all", "b1": "all"})) == ["all", "all", "all"]
    with pytest.raises(NoPlanError, match=r"b1.*can only have type all, rest, not a"):
        match(tree("a", "b"), program, fixed={"b1": "a"})


def test_failure_names_the_node_and_the_types_it_could_have():
    with pytest.raises(NoPlanError, match="node 'root' could have type all, rest, but no sequence of forks"):
        match(tree("b", "b"), Several("all a rest"))


def test_failure_says_that_there_is_no_fork():
    with pytest.raises(NoPlanError, match="no fork and join"):
        match(tree("a", "b"), Several())


def test_wide_nodes_of_many_classes_are_matched_in_bounded_time():
    letters = "abc" * 12
    root = match(tree(*letters), Several("all all all", "all a all"))
    assert sorted(root.fork_tree.leaves()) == list(range(36))


def forkable(program, name, children):
    """Return the answer by trying every way to divide the children, the oracle for the matcher's memo."""
    if len(children) == 1:
        return name in children[0].possible
    if not all(name in child.handling for child in children):
        return False
    everything = range(len(children))
    return any(
        forkable(program, fork.left, [children[i] for i in chosen])
        and forkable(program, fork.right, [children[i] for i in everything if i not in chosen])
        for fork in program.fork_joins()
        if fork.parent == name
        for size in range(1, len(children))
        for chosen in itertools.combinations(everything, size)
    )


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False))
def test_matcher_agrees_with_trying_every_division(rnd):
    program = Typed(rnd)
    names = [state.name for state in program.states()]
    children = []
    for _ in range(rnd.randint(2, 4)):
        handling = frozenset(name for name in names if rnd.random() < 0.7)
        children.append(Options(frozenset(name for name in handling if rnd.random() < 0.8), handling))
    for name in names:
        assert Matcher(program).can_fork(name, children) == forkable(program, name, children)


def atom(letter, rate=1.0):
    return Atom(f"s{letter}{rate}", letter, rate=rate)


def test_fitting_merges_only_leaves_that_do_not_fit():
    """b and c must share the only `rest`; the two a stay apart."""
    program = Several("all a rest", "a a a")
    made = fitted(
        branch([], [leaf([atom("a", 5.0)]), leaf([atom("a", 6.0)]), leaf([atom("b")]), leaf([atom("c")])]),
        program,
    )
    assert sorted(sorted(str(a.kind) for a in child.own) for child in made.children) == [
        ["a"],
        ["a"],
        ["b", "c"],
    ]


def test_fitting_moves_up_tags_that_no_child_can_hold():
    program = Several("all a a")
    made = fitted(branch([], [leaf([atom("a", 5.0)]), leaf([atom("a", 6.0)]), leaf([atom("b")])]), program)
    assert [a.kind for a in made.own] == ["b"]
    assert len(made.children) == 2


def test_fitting_ends_with_one_worker():
    made = fitted(branch([], [leaf([atom("b")]), leaf([atom("a")])]), Several("rest a a"))
    assert made.children == ()


def test_fitting_fails_when_one_worker_cannot_do_it():
    class Less(Several):
        def states(self):
            return Several.states(self)[1:]

    with pytest.raises(NoPlanError, match="no state type handles"):
        fitted(leaf([atom("a"), atom("b")]), Less())


def test_tags_without_kind_in_the_types_are_named():
    class Less(Several):
        def states(self):
            return Several.states(self)[2:]

    with pytest.raises(NoPlanError, match=repr(Tag("a"))):
        match(PlanNode("w0", ImplTagSet.of(s=TagSet.of("a"))), Less())
