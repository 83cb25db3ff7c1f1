"""The `exhaustive` optimizer: every tag tree of a small instance, to judge other optimizers by.

>>> from dgs.model.dependence import Dependence
>>> from dgs.planner.optimizers.atoms import Atom
>>> graph = DependenceGraph([Atom("s", "k", i) for i in range(3)], Dependence())
>>> trees = list(all_trees(graph))
>>> len(trees), count_trees(graph)
(11, 11)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, product
from math import prod

from dgs.errors import UsageError
from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.optimizers.tag_tree import TagTree, branch, leaf

MOST_TREES = 25_000
"""The largest number of trees that are tried."""

MOST_ATOMS = 8
"""The largest number of atoms over which trees are counted."""


def all_trees(graph: DependenceGraph) -> Iterator[TagTree]:
    """Yield every tag tree over the atoms whose sibling subtrees are independent, the single leaf first.

    Raises UsageError where there are more than MOST_TREES.
    """
    number = count_trees(graph)
    if number > MOST_TREES:
        some = f"more than {MOST_TREES:,}" if number == float("inf") else f"{number:,}"
        message = (
            f"the optimizer exhaustive would compare {some} plans of {len(graph.atoms)} groups of tags: "
            "it is for small programs. Use the optimizer cost"
        )
        raise UsageError(message=message)
    yield from unbounded(graph)


def unbounded(graph: DependenceGraph) -> Iterator[TagTree]:
    """Yield the same trees, however many there are."""

    def trees(inside: tuple[int, ...]) -> Iterator[TagTree]:
        yield leaf(graph.atoms[i] for i in inside)
        for own, groups in _divisions(graph, inside):
            for children in product(*(list(trees(group)) for group in groups)):
                yield branch([graph.atoms[i] for i in own], children)

    yield from trees(tuple(range(len(graph.atoms))))


def count_trees(graph: DependenceGraph) -> float:
    """Return how many trees there are; infinity above MOST_ATOMS atoms."""
    if len(graph.atoms) > MOST_ATOMS:
        return float("inf")

    @cache
    def count(inside: tuple[int, ...]) -> int:
        return 1 + sum(prod(map(count, groups)) for _, groups in _divisions(graph, inside))

    return count(tuple(range(len(graph.atoms))))


def _divisions(
    graph: DependenceGraph, inside: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Yield each choice of a node's own atoms, with the atoms of each of its two or more children."""
    for size in range(len(inside) - 1):
        for own in combinations(inside, size):
            parts = graph.components([i for i in inside if i not in own])
            for groups in _partitions(parts):
                if len(groups) > 1:
                    yield own, [tuple(sorted(i for part in group for i in part)) for group in groups]


def _partitions(parts: Sequence[list[int]]) -> Iterator[list[list[list[int]]]]:
    """Yield all ways to put components into groups."""
    if not parts:
        yield []
        return
    first, rest = parts[0], parts[1:]
    for groups in _partitions(rest):
        yield [[first], *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], [first, *group], *groups[i + 1 :]]
