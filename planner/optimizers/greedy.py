"""The greedy optimizer (Appendix B): synchronise on rare tags, so that frequent tags run in leaves.

The recursion: remove the tags of lowest rate until the dependence graph has at least two components. The removed tags make the
node, the components its children. A graph that is disconnected from the start gives a node without tags; a graph that never
disconnects gives a leaf. Read backwards this is one union-find pass: insert tags from the highest rate down. A tag that connects
k >= 2 components is the last one removed at a node with k children; a tag that connects a single component belongs to the
same node as that component's last tag. So the whole recursion costs one pass, near-linear in tags and rules.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> atoms = [Atom("v1", "value", rate=9), Atom("v2", "value", rate=8), Atom("b", "barrier", rate=1)]
>>> tree = greedy_tree(DependenceGraph(atoms, Dependence(("barrier", "value", ALWAYS))))
>>> [str(atom) for atom in tree.own], [str(child.own[0]) for child in tree.children]
(['barrier@b'], ['value@v1', 'value@v2'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dgs.planner.optimizers.atoms import Atom
from dgs.planner.optimizers.graph import Components, DependenceGraph
from dgs.planner.optimizers.tag_tree import TagTree, branch


@dataclass(slots=True)
class _Part:
    """A growing component: the atoms of its top node so far, and the parts below."""

    own: list[int]
    children: list[_Part] = field(default_factory=list)


def greedy_tree(graph: DependenceGraph) -> TagTree:
    """Return the tag tree of the greedy recursion. Ties: see `first_removals` and `later_removals`."""
    parts = _insert(graph, first_removals(graph))
    if len(parts) > 1:
        return _tree(graph, _Part([], _insert(graph, later_removals(graph))))
    root = parts[0]
    if root.children:
        # Below the first level ties break in another order, so the rest is inserted again.
        removed = set(root.own)
        root.children = _insert(graph, [i for i in later_removals(graph) if i not in removed])
    return _tree(graph, root)


def tree_of_removals(graph: DependenceGraph, removals: Sequence[int]) -> TagTree:
    """Return the tag tree of the same recursion with any order of removal."""
    parts = _insert(graph, removals)
    return _tree(graph, parts[0] if len(parts) == 1 else _Part([], parts))


def first_removals(graph: DependenceGraph) -> list[int]:
    """Return the order of removal at the first level: by rate; equal rates by (stream, tag).

    If no rate is known, atoms with the most dependences count as rare, because they separate the others.
    """
    if not any(atom.rate for atom in graph.atoms):
        return by_degree(graph)
    return sorted(range(len(graph.atoms)), key=lambda i: (graph.atoms[i].rate, graph.atoms[i].order))


def later_removals(graph: DependenceGraph) -> list[int]:
    """Return the order of removal below the first level: by rate; equal rates in the order of the atoms."""
    if not any(atom.rate for atom in graph.atoms):
        return by_degree(graph)
    return sorted(range(len(graph.atoms)), key=lambda i: graph.atoms[i].rate)


def by_degree(graph: DependenceGraph) -> list[int]:
    """Return the order of removal by the number of dependences, most first."""
    degrees = graph.degrees()
    return sorted(range(len(degrees)), key=lambda i: -degrees[i])


def _insert(graph: DependenceGraph, removals: Sequence[int]) -> list[_Part]:
    """Insert atoms in reverse order of removal; return the parts at the end."""
    components = Components(graph)
    parts: dict[int, _Part] = {}
    for i in reversed(removals):
        below = [parts.pop(root) for root in components.add(i)]
        if len(below) == 1:
            part = below[0]
            part.own.append(i)
            parts[i] = part
        else:
            parts[i] = _Part([i], below)
    return list(parts.values())


def _tree(graph: DependenceGraph, root: _Part) -> TagTree:
    """Return the tag tree of a part, children in the order of their first atoms."""
    order, stack = [], [root]
    while stack:
        part = stack.pop()
        order.append(part)
        stack.extend(part.children)
    built: dict[int, tuple[int, TagTree]] = {}
    for part in reversed(order):
        own: list[Atom] = [graph.atoms[i] for i in reversed(part.own)]
        below = sorted((built.pop(id(child)) for child in part.children), key=lambda pair: pair[0])
        first = min(part.own + [position for position, _ in below[:1]])
        built[id(part)] = first, branch(own, [tree for _, tree in below])
    return built[id(root)][1]
