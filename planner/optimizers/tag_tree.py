"""Tag trees: the trees that optimizers shape before state types, machines and ids are chosen.

>>> leaves = [leaf([Atom("values", "value", i, rate=10.0 * i)]) for i in (1, 2)]
>>> tree = branch([Atom("barriers", "barrier", rate=1.0)], leaves)
>>> tree.rate, tree.leaf_count, len(collapse(tree).own)
(31.0, 2, 3)

There are three ways to shape a tag tree: few leaves, one side for tags that do not accumulate, a bounded fan-out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from dgs.model.program import Program
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

    The rarest trees, which together make no difference, are dealt round robin: any of them may get the keys that become frequent later.
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
    """Return the number of frequent trees. The trees are ordered by rate, and the rare ones together have at most RARE of it."""
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


def merge_leaves(tree: TagTree, max_leaves: int) -> TagTree:
    """Return the tree with at most `max_leaves` leaves of about equal rate; a node left with one leaf absorbs it.

    Merging sibling subtrees into one leaf never breaks V2: a union of siblings is as independent of the rest as each of them was.
    The number of leaves is divided from the root down, by rate; a subtree that gets one leaf is collapsed.

    >>> from dgs.planner.optimizers.atoms import Atom
    >>> tree = branch([], [leaf([Atom("s", "k", i, rate=rate)]) for i, rate in enumerate([6.0, 5.0, 4.0, 3.0])])
    >>> [[atom.key for atom in child.own] for child in merge_leaves(tree, 2).children]
    [[0, 3], [1, 2]]
    """
    kept: dict[int, list[TagTree]] = {}
    order: list[TagTree] = []
    stack = [(tree, max_leaves)]
    while stack:
        node, budget = stack.pop()
        order.append(node)
        if budget >= node.leaf_count:
            continue
        children = _share(node, budget) if budget > 1 else []
        kept[id(node)] = [child for child, _ in children]
        stack.extend(children)
    built: dict[int, TagTree] = {}
    for node in reversed(order):
        if id(node) not in kept:
            built[id(node)] = node
        elif not kept[id(node)]:
            built[id(node)] = collapse(node)
        else:
            built[id(node)] = branch(node.own, [built[id(child)] for child in kept[id(node)]])
    return built[id(tree)]


def _share(node: TagTree, budget: int) -> list[tuple[TagTree, int]]:
    """Return the remaining children, each with its number of leaves; together at most `budget`.

    A child worth two leaves or more keeps its tree; all others share the remaining leaves in groups of about equal rate.
    """
    total = sum(map(_weight, node.children))
    worth = [_weight(child) * budget / total for child in node.children]
    large = _large(node, worth, budget)
    small = [child for i, child in enumerate(node.children) if i not in large]
    shares = {i: min(max(1, int(worth[i])), node.children[i].leaf_count) for i in large}
    if small and sum(shares.values()) >= budget:
        shares[max(large, key=shares.__getitem__)] -= 1
    groups = balanced_groups(small, budget - sum(shares.values())) if small else []
    rest = budget - sum(shares.values()) - len(groups)
    for i in sorted(large, key=lambda i: shares[i] - worth[i]):
        more = min(rest, node.children[i].leaf_count - shares[i])
        shares[i] += more
        rest -= more
    merged = [(collapse(*group) if len(group) > 1 else group[0], 1) for group in groups]
    return [*((node.children[i], shares[i]) for i in large), *merged]


def _large(node: TagTree, worth: Sequence[float], budget: int) -> list[int]:
    """Return the positions of the children that keep their trees: those worth two leaves, or if there are none all, if each can have a leaf."""
    trees = [i for i, child in enumerate(node.children) if child.children]
    large = [i for i in trees if int(worth[i]) > 1]
    return trees if not large and len(node.children) <= budget else large


def _weight(tree: TagTree) -> float:
    """Return the rate of a subtree, plus a little for every leaf in case rates are unknown."""
    return tree.rate + 1e-9 * tree.leaf_count


def one_sided(tree: TagTree, program: Program) -> TagTree:
    """Return a tree that the program's fork can serve; the same tree if the program gives a fork.

    The fork derived from `accumulates` hands the whole state to the one side that holds kinds which do not accumulate. So at most
    one child of a node may hold such kinds. If several do, all but the busiest are opened: their tags that do not accumulate move
    up to the node, and their other tags, all independent, become its children.

    >>> from dgs.model.program import Program
    >>> one_sided(leaf([]), Program()).children
    ()
    """
    if not program.has_derived_fork:
        return tree
    accumulating = program.accumulating

    def visit(node: TagTree, below: list[tuple[TagTree, float | None]]) -> tuple[TagTree, float | None]:
        """Return the tree and the rate of its tags that do not accumulate, None without such tags."""
        busy = sorted((pair for pair in below if pair[1] is not None), key=lambda pair: -(pair[1] or 0.0))
        opened = {id(child) for child, _ in busy[1:]}
        up, down = list(node.own), []
        for child, _ in below:
            if id(child) in opened:
                up += [atom for atom in child.atoms() if atom.kind not in accumulating]
                down += _accumulating_leaves(child, accumulating)
            else:
                down.append(child)
        rates = [atom.rate for atom in up if atom.kind not in accumulating]
        rest = sum(rate or 0.0 for _, rate in busy[:1])
        return branch(up, down), sum(rates) + rest if rates or busy else None

    return fold(tree, visit)[0]


def _accumulating_leaves(tree: TagTree, accumulating: frozenset[str]) -> list[TagTree]:
    """Return one leaf for the accumulating atoms of each node: they are pairwise independent."""
    owned = [[atom for atom in node.own if atom.kind in accumulating] for node in tree.walk()]
    return [leaf(atoms) for atoms in owned if atoms]


def bound_fan_out(tree: TagTree, max_fan_out: int) -> TagTree:
    """Return the tree with at most `max_fan_out` (>= 2) children at each node, by inner nodes without tags.

    Synchronising k children costs the parent k messages; a tree over them costs each node at most `max_fan_out`, and its depth is
    logarithmic.

    >>> from dgs.planner.optimizers.atoms import Atom
    >>> flat = branch([Atom("b", "barrier")], [leaf([Atom("s", "value", i)]) for i in range(9)])
    >>> [len(child.children) for child in bound_fan_out(flat, 8).children]
    [5, 4]
    """
    return fold(tree, lambda node, below: branch(node.own, _grouped(below, max_fan_out)))


def _grouped(children: Sequence[TagTree], bound: int) -> list[TagTree]:
    """Return at most `bound` trees over the children in order, as shallow as possible and of about equal size."""
    if len(children) <= bound:
        return list(children)
    below = 1
    while below * bound < len(children):
        below *= bound
    count = -(-len(children) // below)
    size, more = divmod(len(children), count)
    starts = [i * size + min(i, more) for i in range(count + 1)]
    parts = [children[a:b] for a, b in pairwise(starts)]
    return [branch((), _grouped(part, bound)) for part in parts]
