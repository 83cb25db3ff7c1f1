"""Three ways to shape a tag tree: few leaves, one side for what does not accumulate, a bounded fan-out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dgs.model.program import Program
from dgs.planner.optimizers.tag_tree import TagTree, balanced_groups, branch, collapse, fold, leaf


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
    """Return the positions of the children that keep their trees: those worth two leaves, else all if there are leaves for each."""
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
    """Return the tree with at most `max_fan_out` (>= 2) children at each node: inner nodes that own no tags come between.

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
