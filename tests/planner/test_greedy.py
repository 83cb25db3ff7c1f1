"""The one-pass greedy optimizer against a literal recursion of Appendix B, and its cost."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.key_sets import KeySet
from dgs.model.tags import Tag
from dgs.planner.optimizers.atoms import Atom
from dgs.planner.optimizers.graph import Components, DependenceGraph
from dgs.planner.optimizers.greedy import first_removals, greedy_tree, later_removals

EVERY_KEY = KeySet.all()


def by_recursion(graph, vertices, removals):
    """Return (own, children) by Appendix B: remove until at least two components are left."""
    if nx.number_connected_components(graph.subgraph(vertices)) > 1:
        own = []
    else:
        own = [i for i in removals if i in vertices]
        for count in range(1, len(own) + 1):
            left = set(vertices) - set(own[:count])
            if left and nx.number_connected_components(graph.subgraph(left)) > 1:
                own = own[:count]
                break
        else:
            return sorted(own), []
    left = set(vertices) - set(own)
    return sorted(own), [set(part) for part in nx.connected_components(graph.subgraph(left))]


def reference(symbolic, graph, vertices, *, first=True):
    removals = first_removals(symbolic) if first else later_removals(symbolic)
    own, parts = by_recursion(graph, vertices, removals)
    return own, sorted(reference(symbolic, graph, part, first=False) for part in parts)


def shape(tree, position):
    own = sorted(position[atom.stream] for atom in tree.own)
    return own, sorted(shape(child, position) for child in tree.children)


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 12))
    tags = [Tag("abc"[draw(st.integers(0, 2))], draw(st.integers(0, 3))) for _ in range(size)]
    rates = draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))
    atoms = [
        Atom(f"s{i:02}", tag.kind, tag.key, rate=rate)
        for i, (tag, rate) in enumerate(zip(tags, rates, strict=True))
    ]
    if draw(st.booleans()):
        dependent = draw(st.sets(st.tuples(st.sampled_from(tags), st.sampled_from(tags))))
        return DependenceGraph(
            atoms,
            Dependence.from_function(lambda a, b: (a, b) in dependent or (b, a) in dependent, set(tags)),
        )
    rules = st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from([ALWAYS, SAME_KEY]))
    return DependenceGraph(atoms, Dependence(*draw(st.lists(rules, max_size=4))))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_greedy_is_the_recursion_of_appendix_b(symbolic):
    graph = nx.Graph(symbolic.edges())
    graph.add_nodes_from(range(len(symbolic.atoms)))
    position = {atom.stream: i for i, atom in enumerate(symbolic.atoms)}
    expected = reference(symbolic, graph, set(graph.nodes))
    assert shape(greedy_tree(symbolic), position) == expected


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_edges_are_the_dependent_pairs(graph):
    pairs = [(i, j) for j in range(len(graph.atoms)) for i in range(j)]
    assert set(graph.edges()) == {
        (i, j) for i, j in pairs if graph.dependence(graph.atoms[i].tag, graph.atoms[j].tag)
    }


def keys(size):
    """Half of the tags are updates, each dependent on the view of its key."""
    half = size // 2
    atoms = [Atom("u", "update", k, rate=k % 7) for k in range(half)] + [
        Atom("v", "view", k, rate=k % 11 + 9) for k in range(half)
    ]
    return atoms, Dependence(("update", "update", SAME_KEY), ("update", "view", SAME_KEY))


def clique(size):
    return [Atom("s", "x", k, rate=k % 97) for k in range(size)], Dependence(("x", "x", ALWAYS))


def star(size):
    return [
        Atom("b", "barrier", rate=0.5),
        *(Atom("s", "x", k, rate=k % 97 + 1) for k in range(size - 1)),
    ], Dependence(("barrier", "x", ALWAYS))


def classes(size):
    atoms = [Atom("u", "update", None, EVERY_KEY, c, size // 2, rate=1) for c in range(size // 2)]
    atoms += [Atom("v", "view", None, EVERY_KEY, c, size // 2, rate=9) for c in range(size // 2)]
    return atoms, Dependence(("update", "view", SAME_KEY))


@pytest.mark.parametrize("make", [keys, clique, star, classes])
def test_insertion_takes_a_constant_number_of_steps_per_tag(make):
    atoms, dependence = make(10_000)
    graph = DependenceGraph(atoms, dependence)
    components = Components(graph)
    for i in reversed(later_removals(graph)):
        components.add(i)
    assert components.steps <= 6 * len(atoms)
    assert graph.hub_count <= 4 * len(atoms)


@pytest.mark.parametrize(("make", "leaves"), [(keys, 5000), (clique, 1), (star, 9999), (classes, 5000)])
def test_ten_thousand_tags_fall_into_the_expected_leaves(make, leaves):
    assert greedy_tree(DependenceGraph(*make(10_000))).leaf_count == leaves


def test_keys_are_not_looked_up_in_the_equal_domains_of_all_splits(monkeypatch):
    atoms = [Atom("s", "view", key, rate=1) for key in range(100)]
    splits = [KeySet.all() - KeySet.of(range(100)) for _ in range(100)]
    atoms += [Atom(f"s/{i}", "view", None, own, 0, 1, rate=1) for i, own in enumerate(splits)]
    looked, contains = [], KeySet.__contains__
    monkeypatch.setattr(KeySet, "__contains__", lambda *one: looked.append(one) or contains(*one))
    DependenceGraph(atoms, Dependence(("view", "view", SAME_KEY)))
    assert len(looked) < 1000


def test_a_chain_of_ten_thousand_tags_needs_no_recursion():
    """Tag i depends on i + 1, and odd tags are rare: removing tags 1, 3, ... cuts off one tag each, five thousand levels deep."""
    size = 10_000
    atoms = [Atom("s", "x", k, rate=k if k % 2 else size + k) for k in range(size)]
    links = {frozenset([k, k + 1]) for k in range(size - 1)}
    graph = DependenceGraph(atoms, Dependence())
    for a, b in map(sorted, links):
        graph.pairs[a].add(b)
        graph.pairs[b].add(a)
    tree = greedy_tree(graph)
    assert tree.leaf_count == size // 2
    assert sum(1 for _ in tree.walk()) == size - 1


def path(*names):
    """Return a path graph: `rare` tags in the order a plan lists their streams, between frequent ends."""
    atoms = [Atom(name, "x", i, rate=1 if name.startswith("rare") else 9) for i, name in enumerate(names)]
    tags = [atom.tag for atom in atoms]
    return DependenceGraph(atoms, Dependence.from_function(lambda a, b: abs(a.key - b.key) == 1, tags))


def test_ties_are_broken_by_stream_at_the_first_level():
    tree = greedy_tree(path("a", "rare-z", "b", "rare-y", "c"))
    assert [atom.stream for atom in tree.own] == ["rare-y"]


def test_ties_are_broken_by_the_order_of_streams_below():
    tree = greedy_tree(path("a", "rare-z", "b", "rare-y", "c", "rare-a", "d"))
    assert [atom.stream for atom in tree.own] == ["rare-a"]
    assert [atom.stream for child in tree.children if child.children for atom in child.own] == ["rare-z"]
