"""Tag trees: the trees that optimizers shape before state types, machines and ids are chosen.

>>> leaves = [leaf([Atom("values", "value", i, rate=10.0 * i)]) for i in (1, 2)]
>>> tree = branch([Atom("barriers", "barrier", rate=1.0)], leaves)
>>> tree.rate, tree.leaf_count, len(collapse(tree).own)
(31.0, 2, 3)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dgs.planner.optimizers.atoms import Atom, impl_tags
from dgs.planner.plan import PlanNode, renumbered

T = TypeVar("T")

RARE = 0.02
"""The share of all events that the rarest trees have together."""


@dataclass(frozen=True, slots=True, eq=False)
class TagTree:
    """A node with its own atoms and children, made by `branch`. `rate` and `leaf_count` are those of the whole subtree."""

    own: tuple[Atom, ...]
    children: tuple[TagTree, ...]
    rate: float
    leaf_count: int

    def walk(self) -> Iterator[TagTree]:
        """Yield the node and all below it, parents first. Not recursive: trees may be ten thousand deep."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def atoms(self) -> Iterator[Atom]:
        """Yield the atoms of the whole subtree."""
        for node in self.walk():
            yield from node.own


def leaf(own: Iterable[Atom]) -> TagTree:
    """Return a tree of one node."""
    return branch(own, ())


def branch(own: Iterable[Atom], children: Iterable[TagTree]) -> TagTree:
    """Return a node over `children`; a single child is absorbed, because a plan has no node with one child."""
    mine, below = tuple(own), tuple(children)
    if len(below) == 1:
        mine, below = mine + below[0].own, below[0].children
    rate = sum(atom.rate for atom in mine) + sum(child.rate for child in below)
    return TagTree(mine, below, rate, sum(child.leaf_count for child in below) or 1)


def collapse(*trees: TagTree) -> TagTree:
    """Return one leaf that owns all tags of the trees. Always valid: one worker keeps all dependences."""
    if len(trees) == 1 and not trees[0].children:
        return trees[0]
    return leaf(atom for tree in trees for atom in tree.atoms())


def fold(tree: TagTree, visit: Callable[[TagTree, list[T]], T]) -> T:
    """Return `visit(node, results of its children)` for the root, computed from the leaves up without recursion."""
    results: dict[int, T] = {}
    for node in reversed(list(tree.walk())):
        results[id(node)] = visit(node, [results.pop(id(child)) for child in node.children])
    return results[id(tree)]


def balanced_groups(trees: Sequence[TagTree], count: int) -> list[list[TagTree]]:
    """Return the trees in at most `count` non-empty groups of about equal rate, each tree added to the lightest group, heaviest first.

    The rarest trees, which make no difference together, are dealt by number: of keys that are unknown now, all may become frequent.
    """
    groups: list[list[TagTree]] = [[] for _ in range(min(count, len(trees)))]
    ordered = sorted(trees, key=lambda t: -t.rate)
    frequent = _frequent(ordered)
    loads = [(0.0, 0, number) for number in range(len(groups))]
    for tree in ordered[:frequent]:
        load, size, number = heapq.heappop(loads)
        groups[number].append(tree)
        heapq.heappush(loads, (load + tree.rate, size + 1, number))
    by_load = [number for *_, number in sorted(loads)]
    for i, tree in enumerate(ordered[frequent:]):
        groups[by_load[i % len(groups)]].append(tree)
    return groups


def _frequent(ordered: Sequence[TagTree]) -> int:
    """Return how many of some trees, the most frequent first, are not rare: all others together have at most RARE of the rate."""
    left, count = RARE * sum(tree.rate for tree in ordered), len(ordered)
    while count and ordered[count - 1].rate <= left:
        count -= 1
        left -= ordered[count].rate
    return count


def to_plan_node(tree: TagTree) -> PlanNode:
    """Return the tree as plan nodes with ids w0, w1, ...; state types and forks are the defaults."""
    return renumbered(
        fold(tree, lambda node, below: PlanNode("", impl_tags(node.own), children=tuple(below)))
    )
