"""Merging leaves: as many as there are CPUs, of about equal rate.

Merging sibling subtrees into one leaf never breaks V2: a union of siblings is as independent of the rest as each of them
was. The leaves to have are shared out from the root down, by rate; what gets one leaf is collapsed.

>>> from planner.atoms import Atom
>>> from planner.tag_tree import leaf
>>> tree = branch([], [leaf([Atom("s", "k", i, rate=rate)]) for i, rate in enumerate([6.0, 5.0, 4.0, 3.0])])
>>> [[atom.key for atom in child.own] for child in merge_leaves(tree, 2).children]
[[0, 3], [1, 2]]
"""

from __future__ import annotations

from planner.tag_tree import TagTree, balanced_groups, branch, collapse


def merge_leaves(tree: TagTree, max_leaves: int) -> TagTree:
    """Return the tree with at most `max_leaves` leaves; a node left with one leaf absorbs it."""
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
    """Return the children that remain, each with the number of leaves it may have; together `budget` at most.

    A child worth two leaves or more keeps its tree; all others share the remaining leaves in groups of equal rate.
    """
    total = sum(_weight(child) for child in node.children)
    worth = {id(child): int(_weight(child) * budget / total) for child in node.children}
    large = [child for child in node.children if child.children and worth[id(child)] > 1]
    if not large and len(node.children) <= budget:
        large = [child for child in node.children if child.children]
    small = [child for child in node.children if not any(child is other for other in large)]
    shares = {id(child): min(max(1, worth[id(child)]), child.leaf_count) for child in large}
    room = budget - sum(shares.values())
    if small and room < 1:
        shares[id(max(large, key=lambda child: shares[id(child)]))] -= 1
        room = 1
    groups = balanced_groups(small, room) if small else []
    room -= len(groups)
    for child in sorted(large, key=lambda child: shares[id(child)] - _weight(child) * budget / total):
        more = min(room, child.leaf_count - shares[id(child)])
        shares[id(child)] += more
        room -= more
    merged = [(collapse(*group) if len(group) > 1 else group[0], 1) for group in groups]
    return [*((child, shares[id(child)]) for child in large), *merged]


def _weight(tree: TagTree) -> float:
    """Return the rate of a subtree; where rates are unknown every leaf weighs a little."""
    return tree.rate + 1e-9 * tree.leaf_count
