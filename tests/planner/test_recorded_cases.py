"""The greedy optimizer makes the trees of the paper's prototype."""

from __future__ import annotations

import pytest

from dgs.planner.optimizers.atoms import atoms, impl_tags
from dgs.planner.optimizers.by_name import plan
from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.optimizers.greedy import greedy_tree
from dgs.planner.optimizers.matching import fitted, match
from dgs.planner.optimizers.tag_tree import to_plan_node
from dgs.planner.plan import Plan
from dgs.planner.validity import violations
from tests.planner import recorded

pytestmark = pytest.mark.skipif(not recorded.NAMES, reason="the recorded cases are not beside the checkout")


def tree_of(case):
    return greedy_tree(DependenceGraph(atoms(case.topology, case.program), case.program.dependence))


def shape(tree):
    return repr(impl_tags(tree.own)), sorted(shape(child) for child in tree.children)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_greedy_makes_the_recorded_tree(name):
    case = recorded.load(name)
    assert shape(tree_of(case)) == recorded.recorded_shape(case.root_tree)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_matching_finds_state_types_for_the_recorded_tree(name):
    case = recorded.load(name)
    made = Plan(match(to_plan_node(tree_of(case)), case.program))
    assert violations(made, case.program, case.topology) == []


@pytest.mark.parametrize("name", recorded.NAMES)
def test_fitting_leaves_a_tree_that_matches_alone(name):
    case = recorded.load(name)
    assert shape(fitted(tree_of(case), case.program)) == shape(tree_of(case))


@pytest.mark.parametrize("name", recorded.NAMES)
@pytest.mark.parametrize("max_leaves", [1, 2, 3])
def test_plan_bounds_the_leaves_of_recorded_cases(name, max_leaves):
    case = recorded.load(name)
    made = plan(case.program, case.topology, max_leaves=max_leaves)
    assert len(made.leaves) <= max_leaves
