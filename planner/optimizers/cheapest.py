"""The optimizers `cost` and `exhaustive`: they propose tag trees, and the plan with the fastest prediction is chosen.

`cost` proposes a few trees. One is the greedy tree, which depends on rates alone. Others have fewer leaves, another order of removal, or
rare tags lowered into leaves where they separate nothing, or nearly all tags in one leaf. A single worker is also a proposal, and often the best. Small programs also get
trees with a kind of one stream at the root, and all trees, or random ones.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.planner.optimizers.atoms import Atom
>>> atoms = [Atom("v", "value", i, rate=9.0) for i in range(2)] + [Atom("b", "barrier", rate=2.0), Atom("v", "value", 2, rate=1.0)]
>>> graph = DependenceGraph(atoms, Dependence(("barrier", "value", ALWAYS)))
>>> tree = greedy_tree(graph)
>>> [str(atom) for atom in tree.own], [str(atom) for atom in lowered(graph, tree).own]
(['value(2)@v', 'barrier@b'], ['barrier@b'])

`exhaustive` proposes every tag tree of a small instance, to judge other optimizers by.

>>> graph = DependenceGraph([Atom("s", "k", i) for i in range(3)], Dependence())
>>> trees = list(all_trees(graph))
>>> len(trees), count_trees(graph)
(11, 11)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import prod

from dgs.errors import UsageError
from dgs.model.program import Program
from dgs.planner.optimizers.atoms import Atom, impl_tags
from dgs.planner.optimizers.graph import Components, DependenceGraph
from dgs.planner.optimizers.greedy import by_degree, greedy_tree, tree_of_removals
from dgs.planner.optimizers.matching import Matcher
from dgs.planner.optimizers.random_trees import random_tree
from dgs.planner.optimizers.tag_tree import (
    TagTree,
    bound_fan_out,
    branch,
    collapse,
    fold,
    leaf,
    merge_leaves,
    one_sided,
)

MOST_TREES = 25_000
"""The largest number of trees that are tried."""

MOST_ATOMS = 8
"""The largest number of atoms over which trees are counted."""


def all_trees(
    graph: DependenceGraph, *, max_leaves: int | None = None, max_fan_out: int | None = None
) -> Iterator[TagTree]:
    """Yield every tag tree over the atoms whose sibling subtrees are independent, the single leaf first, that keeps the bounds given.

    Raises UsageError if there are more than MOST_TREES without bounds.
    """
    number = count_trees(graph)
    if number > MOST_TREES:
        some = f"more than {MOST_TREES:,}" if number == float("inf") else f"{number:,}"
        message = (
            f"the optimizer exhaustive would compare {some} plans of {len(graph.atoms)} groups of tags: "
            "it is for small programs. Use the optimizer cost"
        )
        raise UsageError(message=message)
    for tree in unbounded(graph):
        if (max_leaves is None or tree.leaf_count <= max_leaves) and (
            max_fan_out is None or all(len(node.children) <= max_fan_out for node in tree.walk())
        ):
            yield tree


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


ALL_COUNTS = 4
"""Every number of leaves up to this one is tried. Above it, each step adds half as many."""

MANY_ATOMS = 2000
"""Above it only the greedy order of removal is tried, so that 10,000 implementation tags are planned in about a second. All orders are
tried over fewer hash classes."""

FEW_TREES = 400
"""If there are no more trees than these, all are tried, which takes about a tenth of a second."""

FEW_ATOMS, RANDOM_TREES = 12, 40
"""With at most FEW_ATOMS atoms, RANDOM_TREES random trees are tried instead: state types may allow none of the others."""

MOST_WORK = 200_000
"""The number of visited atoms at which lowering ends, since deep trees have many subtrees."""


def proposals(
    graph: DependenceGraph, program: Program, *, max_leaves: int, max_fan_out: int
) -> Iterator[TagTree]:
    """Yield one worker, then trees with more and more leaves."""
    yield leaf(graph.atoms)
    greedy = greedy_tree(graph)
    orders = (by_degree, _by_gain) if len(graph.atoms) <= MANY_ATOMS else ()
    others = [tree_of_removals(graph, order(graph)) for order in orders]
    wholes = [greedy, below := grafted(greedy), *(lowered(graph, tree) for tree in (greedy, *others))]
    if orders:
        wholes += [*_groupings(greedy, program), *_groupings(below, program)]
    if len(graph.atoms) <= FEW_ATOMS:
        wholes += _raisings(greedy)
    for whole in dict.fromkeys(wholes):
        tree = one_sided(whole, program)
        for count in _counts(min(max_leaves, tree.leaf_count)):
            yield bound_fan_out(merge_leaves(tree, count), max_fan_out)
        if orders and max_leaves > 1 and len(tree.children) > 2:  # noqa: PLR2004 - a fork has two sides
            yield lopsided(tree)
    for tree in _others(graph, max_leaves=max_leaves, max_fan_out=max_fan_out):
        shaped = bound_fan_out(merge_leaves(one_sided(tree, program), max_leaves), max_fan_out)
        if shaped.children:
            yield shaped


def _others(graph: DependenceGraph, *, max_leaves: int, max_fan_out: int) -> Iterator[TagTree]:
    """Yield all trees if they are few, else random ones if there are few atoms."""
    if count_trees(graph) <= FEW_TREES:
        yield from unbounded(graph)
    elif len(graph.atoms) <= FEW_ATOMS:
        for seed in range(RANDOM_TREES):
            yield random_tree(graph, seed=seed, max_leaves=max_leaves, max_fan_out=max_fan_out)


def _by_gain(graph: DependenceGraph) -> list[int]:
    """Return the order of removal by rate (the cost of synchronising) over the number of dependences (the parts it separates)."""
    degrees = graph.degrees()
    return sorted(range(len(degrees)), key=lambda i: graph.atoms[i].rate / (1 + degrees[i]))


def grafted(tree: TagTree) -> TagTree:
    """Return the tree with leaves that stand beside subtrees of a node without tags in the largest subtree, where they can merge with its leaves.

    >>> a, b, c, d = (leaf([Atom("s", "k", i)]) for i in range(4))
    >>> found = grafted(branch((), [a, branch(b.own, [c, d])]))
    >>> found.own == b.own, found.children == (c, d, a)
    (True, True)
    """

    def visit(node: TagTree, below: list[TagTree]) -> TagTree:
        trees = sorted((child for child in below if child.children), key=lambda child: -child.rate)
        if node.own or not trees or len(trees) == len(below):
            return _over(node, below)
        leaves = [child for child in below if not child.children]
        return branch((), [branch(trees[0].own, [*trees[0].children, *leaves]), *trees[1:]])

    return fold(tree, visit)


def _over(node: TagTree, below: list[TagTree]) -> TagTree:
    """Return the node over other children, itself if they are its own."""
    return node if below == list(node.children) else branch(node.own, below)


def grouped(tree: TagTree, key: Callable[[TagTree], Hashable]) -> TagTree:
    """Return the tree with siblings that have the same key below a node of their own, so that they merge with each other first."""

    def visit(node: TagTree, below: list[TagTree]) -> TagTree:
        groups: dict[Hashable, list[TagTree]] = {}
        for child in below:
            groups.setdefault(key(child), []).append(child)
        if len(groups) in (0, 1, len(below)):
            return _over(node, below)
        return branch(node.own, [branch((), group) for group in groups.values()])

    return fold(tree, visit)


def _groupings(tree: TagTree, program: Program) -> Iterator[TagTree]:
    """Yield the tree with siblings grouped by their streams, which are then not split, and by the state types that handle them."""
    yield grouped(tree, lambda child: frozenset(atom.stream for atom in child.atoms()))
    if len(program.states()) > 1:
        matcher = Matcher(program)
        yield grouped(tree, lambda child: matcher.handling(impl_tags(child.atoms()).tags()))


def lopsided(tree: TagTree) -> TagTree:
    """Return the tree with all below its root in one leaf, but the rarest child: in one process more leaves only cost more.

    >>> a, b, c = (leaf([Atom("s", "k", i, rate=float(i))]) for i in range(3))
    >>> [child.rate for child in lopsided(branch((), [a, b, c])).children]
    [3.0, 0.0]
    """
    *others, rarest = sorted(tree.children, key=lambda child: -child.rate)
    return branch(tree.own, [collapse(*others), collapse(rarest)])


def _raisings(tree: TagTree) -> Iterator[TagTree]:
    """Yield the tree with the tags of one stream and kind at the root, whose host then handles them while leaves handle others."""
    below = [atom for child in tree.children for atom in child.atoms()]
    for stream, kind in dict.fromkeys((atom.stream, atom.kind) for atom in below):
        yield raised(tree, [atom for atom in below if (atom.stream, atom.kind) == (stream, kind)])


def raised(tree: TagTree, atoms: Sequence[Atom]) -> TagTree:
    """Return the tree with some atoms from below its root at the root.

    >>> a, b, c = (Atom("s", "k", i) for i in range(3))
    >>> found = raised(branch((), [leaf([a]), leaf([b]), leaf([c])]), [b])
    >>> found.own == (b,), len(found.children)
    (True, 2)
    """
    moved = set(map(id, atoms))

    def visit(node: TagTree, below: list[TagTree | None]) -> TagTree | None:
        kept = [atom for atom in node.own if id(atom) not in moved]
        children = [child for child in below if child]
        return branch(kept, children) if kept or children else None

    rest = fold(tree, visit) or leaf(())
    return branch([*rest.own, *atoms], rest.children)


def _counts(most: int) -> Iterator[int]:
    count = 2
    while count < most:
        yield count
        count += 1 if count < ALL_COUNTS else count // 2
    if most > 1:
        yield most


def lowered(graph: DependenceGraph, tree: TagTree) -> TagTree:
    """Return the tree with every atom as low as possible. An atom that depends on nothing below its node becomes a leaf there.

    An atom that depends on one child's subtree only moves into that subtree. The most frequent atoms go first. If no atom moves, the tree
    is unchanged.
    """
    number = {id(atom): i for i, atom in enumerate(graph.atoms)}
    work, waiting, order = 0, [tree], list[tuple[TagTree, list[Atom], list[TagTree]]]()
    while waiting:
        node = waiting.pop()
        work += sum(1 for _ in node.atoms())
        is_done = not node.children or work > MOST_WORK
        own, children = (list(node.own), list(node.children)) if is_done else _lowered(graph, node, number)
        order.append((node, own, children))
        waiting.extend(children)
    if all(len(own) == len(node.own) for node, own, _ in order):
        return tree
    built: dict[int, TagTree] = {}
    for node, own, children in reversed(order):
        built[id(node)] = branch(own, [built.pop(id(child)) for child in children])
    return built[id(tree)]


def _lowered(
    graph: DependenceGraph, node: TagTree, number: Mapping[int, int]
) -> tuple[list[Atom], list[TagTree]]:
    """Return the own atoms that a node keeps, and its children with the others."""
    parts, children = Components(graph), list(node.children)
    place: dict[int, int] = {}
    for position, child in enumerate(children):
        inside = [number[id(atom)] for atom in child.atoms()]
        for i in inside:
            parts.add(i)
        place.update(dict.fromkeys(map(parts.find, inside), position))
    kept = []
    for atom in sorted(node.own, key=lambda atom: -atom.rate):
        i = number[id(atom)]
        near = {place[root] for root in parts.touched(i)}
        if len(near) > 1:
            kept.append(atom)
            continue
        parts.add(i)
        place[i] = near.pop() if near else len(children)
        if place[i] == len(children):
            children.append(leaf([atom]))
        else:
            below = children[place[i]]
            children[place[i]] = branch((atom, *below.own), below.children)
    return kept, children
