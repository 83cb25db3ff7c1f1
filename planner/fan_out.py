"""Bounding the fan-out: a flat tree becomes a balanced one, with inner nodes that own no tags.

Synchronising k children costs the parent k messages; a tree over them costs each node at most `max_fan_out`, and its depth
is logarithmic.

>>> from planner.atoms import Atom
>>> from planner.tag_tree import leaf
>>> flat = branch([Atom("b", "barrier")], [leaf([Atom("s", "value", i)]) for i in range(9)])
>>> [len(child.children) for child in bound_fan_out(flat, 8).children]
[5, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.tag_tree import TagTree, branch, fold


def bound_fan_out(tree: TagTree, max_fan_out: int) -> TagTree:
    """Return the tree with at most `max_fan_out` (>= 2) children at each node."""
    return fold(tree, lambda node, below: branch(node.own, _grouped(below, max_fan_out)))


def _grouped(children: Sequence[TagTree], bound: int) -> list[TagTree]:
    """Return at most `bound` trees over the children in their order, as shallow as can be, of about equal size."""
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
