"""The derived fork serves one side only: shaping trees of accumulating programs that give no fork of their own.

The fork derived from `accumulates` hands the whole state to the one side that holds kinds which do not accumulate. So at
most one child of a node may hold such kinds. Where several do, all but the busiest are opened: their tags that do not
accumulate move up to the node, and what remains of them, all of it independent, become its children.
"""

from __future__ import annotations

from dgs.program import Program
from planner.tag_tree import TagTree, branch, fold, leaf


def one_sided(tree: TagTree, program: Program) -> TagTree:
    """Return a tree that the program's fork can serve; the same tree if the program gives a fork.

    >>> from dgs.program import Program
    >>> one_sided(leaf([]), Program()).children
    ()
    """
    if not program.has_derived_fork:
        return tree
    accumulating = program.accumulating

    def visit(node: TagTree, below: list[tuple[TagTree, float | None]]) -> tuple[TagTree, float | None]:
        """Return the tree and the rate of what does not accumulate in it, None if all of it does."""
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
