"""Random valid tag trees from a seed, for runtime tests: optimizers choose only a few shapes.

A node keeps a random part of its atoms, which need not separate the others. The components of the rest are put into random groups, and each
group is a child. So there are roots with several independent tags, nodes with tags that nothing below depends on, nodes without tags, and
sometimes one leaf that owns everything.

>>> from dgs.model.dependence import Dependence
>>> from dgs.planner.optimizers.atoms import Atom
>>> graph = DependenceGraph([Atom("s", "k", i) for i in range(6)], Dependence())
>>> trees = [random_tree(graph, seed=seed, max_leaves=6, max_fan_out=3) for seed in range(200)]
>>> sorted({tree.leaf_count for tree in trees})
[1, 2, 3, 4, 5]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.optimizers.tag_tree import TagTree, branch

STOP = 0.12
"""Probability that a node keeps all of its atoms although they could be divided."""


@dataclass(slots=True, eq=False)
class _Node:
    own: list[int]
    children: list[_Node] = field(default_factory=list)


def random_tree(graph: DependenceGraph, *, seed: int, max_leaves: int, max_fan_out: int) -> TagTree:
    """Return a random tag tree whose sibling subtrees are independent. The same seed gives the same tree everywhere."""
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    root = _Node(list(range(len(graph.atoms))))
    waiting, order = [(root, max_leaves)], []
    while waiting:
        node, leaves = waiting.pop()
        order.append(node)
        shared = _divide(graph, node, draw, min(leaves, max_fan_out))
        if shared:
            waiting.extend(_with_leaves(shared, leaves, draw))
            node.children = shared
    built: dict[int, TagTree] = {}
    for node in reversed(order):
        own = [graph.atoms[i] for i in node.own]
        built[id(node)] = branch(own, [built.pop(id(child)) for child in node.children])
    return built[id(root)]


def _divide(graph: DependenceGraph, node: _Node, draw: Random, bound: int) -> list[_Node]:
    """Keep a random part of the atoms at the node; return children for the others, none if the node stays a leaf."""
    if bound < 2 or draw.random() < STOP:  # noqa: PLR2004 - a fork has two sides
        return []
    order = draw.sample(node.own, len(node.own))
    kept = draw.choice([0, 0, 1, draw.randint(0, len(order) // 2), draw.randint(0, len(order))])
    while True:
        parts = graph.components(order[kept:])
        if len(parts) > 1:
            break
        if kept >= len(order):
            return []
        kept += 1 + draw.randrange(1 + (len(order) - kept) // 8)
    count = draw.choice([2, draw.randint(2, min(len(parts), bound))])
    draw.shuffle(parts)
    groups = [_Node(list(parts[i])) for i in range(count)]
    for part in parts[count:]:
        draw.choice(groups).own.extend(part)
    node.own = order[:kept]
    return groups


def _with_leaves(children: list[_Node], leaves: int, draw: Random) -> list[tuple[_Node, int]]:
    """Share the leaves that the subtree may have among the children, at least one each."""
    shares = [1] * len(children)
    for _ in range(min(leaves - len(children), 4 * len(children))):
        shares[draw.randrange(len(children))] += 1
    return list(zip(children, shares, strict=True))
