"""Shaping of tag trees: merged leaves, bounded fan-out, fitted state types; and the atoms of the trees."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.optimizers.atoms import Atom, atoms, impl_tags
from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.optimizers.tag_tree import bound_fan_out, branch, leaf, merge_leaves
from dgs.planner.topology import Machine, Stream, Topology
from tests.planner.instances import instances

VIEW, UPDATE = kind("view", key=str), kind("update", key=str)


def random_trees(rnd, depth=0):
    own = [
        Atom(f"s{rnd.randrange(10**9)}", "x", rate=float(rnd.choice([0, 1, 1, 7, 90])))
        for _ in range(rnd.randint(1, 2))
    ]
    width = rnd.choice([0, 2, 3, 5 if depth else 9]) if depth < 3 else 0
    return branch(
        own if width == 0 or rnd.random() < 0.6 else [], [random_trees(rnd, depth + 1) for _ in range(width)]
    )


trees = st.builds(lambda seed: random_trees(random.Random(seed)), st.integers(0, 10**6))


def owners(tree):
    """Return for each atom the atoms at or above its node, and those below it."""
    found, stack = {}, [(tree, frozenset())]
    while stack:
        node, above = stack.pop()
        here = above | frozenset(atom.stream for atom in node.own)
        found.update((atom.stream, here) for atom in node.own)
        stack += [(child, here) for child in node.children]
    return found


def related(tree):
    above = owners(tree)
    return {(a, b) for a, lineage in above.items() for b in lineage} | {
        (b, a) for a, lineage in above.items() for b in lineage
    }


@settings(deadline=None)
@given(trees, st.integers(1, 12))
def test_merge_leaves_bounds_them_and_uses_the_bound(tree, bound):
    merged = merge_leaves(tree, bound)
    assert merged.leaf_count <= bound
    assert merged.leaf_count >= min(2, bound, tree.leaf_count)
    assert sorted(atom.stream for atom in merged.atoms()) == sorted(atom.stream for atom in tree.atoms())


@settings(deadline=None, max_examples=25)
@given(trees, st.integers(1, 6), st.integers(2, 4))
def test_shaping_never_makes_siblings_of_a_node_and_its_ancestor(tree, leaves, fan_out):
    assert related(tree) <= related(bound_fan_out(merge_leaves(tree, leaves), fan_out))


@settings(deadline=None)
@given(trees, st.integers(2, 5))
def test_bound_fan_out_keeps_leaves_and_order(tree, bound):
    bounded = bound_fan_out(tree, bound)
    assert all(len(node.children) <= bound for node in bounded.walk())
    assert [n.own for n in bounded.walk() if n.own] == [n.own for n in tree.walk() if n.own]


def test_merge_leaves_keeps_a_heavy_child_divided():
    heavy = branch([Atom("h", "x", rate=1.0)], [leaf([Atom(f"h{i}", "x", rate=100.0)]) for i in range(8)])
    light = [leaf([Atom(f"l{i}", "x", rate=1.0)]) for i in range(50)]
    merged = merge_leaves(branch([], [*light, heavy]), 8)
    (kept,) = [child for child in merged.children if child.children]
    assert kept.leaf_count >= 6
    assert merged.leaf_count == 8


def test_merged_leaves_carry_about_the_same_rate():
    flat = branch([], [leaf([Atom(f"s{i}", "x", rate=float(i))]) for i in range(100)])
    rates = [child.rate for child in merge_leaves(flat, 7).children]
    assert max(rates) < 1.05 * min(rates)


def test_a_node_left_with_one_leaf_absorbs_it():
    tree = branch([Atom("b", "x", rate=1.0)], [leaf([Atom(f"s{i}", "x", rate=9.0)]) for i in range(3)])
    assert merge_leaves(tree, 1).children == ()


@settings(max_examples=30, deadline=None)
@given(instances(), st.sampled_from([1, 3, 8]))
def test_atoms_partition_the_arriving_tags(instance, classes):
    program, topology = instance
    found = atoms(topology, program, classes=classes)
    total = ImplTagSet()
    for atom in found:
        one = ImplTagSet.of({atom.stream: atom.tags})
        assert total.isdisjoint(one)
        total = total | one
    assert total == topology.impl_tags() == impl_tags(found)


class Join(Program):
    depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))


def join_topology():
    updates = Stream("u", TagSet.of(UPDATE), rates={UPDATE("rare"): 0.1}, other_rate=10.0)
    views = Stream("v", TagSet.of(VIEW), rates={VIEW("hot"): 90.0, VIEW("rare"): 0.2}, other_rate=40.0)
    some = Stream("few", TagSet.of(VIEW("listed"), VIEW("hot")), other_rate=2.0)
    return Topology([updates, views, some], [Machine("m", 2)])


def test_hot_keys_are_pulled_out_of_every_stream_they_must_line_up_with():
    singles = {
        (atom.stream, atom.key) for atom in atoms(join_topology(), Join(), classes=8) if atom.is_single
    }
    assert singles == {("u", "hot"), ("v", "hot"), ("few", "listed"), ("few", "hot")}


def test_rates_of_atoms_add_up():
    topology = join_topology()
    found = atoms(topology, Join(), classes=8)
    for stream in topology.streams:
        total = sum(atom.rate for atom in found if atom.stream == stream.id)
        assert abs(total - stream.other_rate - sum(stream.rates.values())) < 1e-9


def test_edges_of_hash_classes_miss_no_dependence():
    found = atoms(join_topology(), Join(), classes=4)
    edges = set(DependenceGraph(found, Join().dependence).edges())
    for i, a in enumerate(found):
        for j, b in enumerate(found[:i]):
            assert ((j, i) in edges) == Join().dependence.between(a.tags, b.tags), (str(a), str(b))
