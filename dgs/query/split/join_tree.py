"""The joins of a block as a tree: its leaves are compacted or read unchanged, and its predicates are as deep as possible.

Above a leaf, its columns are named `i.name`, with the leaf's number, and `i.$w` is its weight: null if an outer join found no partner.
Everything above the leaves is written in these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dgs.query.errors import QueryError, Span
from dgs.query.functions import arguments_of, name_of
from dgs.query.relation import Expand, How, Join, Map, Relation, Source, Union, Where, Window, walk
from dgs.query.scalar import Scalar, call, column, columns_of, conjuncts, substituted, when

WEIGHT = "$w"
"""The column of a row's weight, in batches and in compactions."""

LINEAR = (Source, Map, Where, Expand, Window, Union)


def reads_streams(relation: Relation) -> bool:
    """Return whether a relation reads any stream."""
    return any(isinstance(one, Source) and one.changes for one in walk(relation))


def is_linear(relation: Relation) -> bool:
    """Return whether a relation is made of streams by linear nodes: its compactions add up."""
    return all(
        isinstance(one, LINEAR) and (not isinstance(one, Source) or one.changes) for one in walk(relation)
    )


@dataclass(slots=True)
class Leaf:
    """One input of a block. `is_stream`: it is compacted, with `filters` inside; otherwise the answer reads it, and filters it.

    `is_nullable`: an outer join may give nulls for it. `counts`: its weight multiplies; not on the right of semi and anti joins.
    """

    number: int
    relation: Relation
    is_stream: bool
    filters: list[Scalar] = field(default_factory=list)
    is_nullable: bool = False
    counts: bool = True

    @property
    def weight(self) -> Scalar:
        """The column of its weight."""
        return column(f"{self.number}.{WEIGHT}")

    def leaves(self) -> Iterator[Leaf]:
        """Yield itself."""
        yield self

    def presence(self) -> Scalar:
        """Return the condition that the row is there, and not nulls in its place."""
        return call("not", call("isnull", self.weight))

    def place(self, predicate: Scalar) -> None:
        """Take a predicate over its columns alone."""
        self.filters.append(predicate)

    def place_on(self, predicate: Scalar) -> None:
        """Take a predicate over its columns alone."""
        self.filters.append(predicate)


@dataclass(slots=True)
class Joined:
    """A join in a block. `on`: its predicates; `filters`: those that must come after it."""

    left: Leaf | Joined
    right: Leaf | Joined
    how: How
    span: Span | None
    on: list[Scalar] = field(default_factory=list)
    filters: list[Scalar] = field(default_factory=list)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves, left to right."""
        yield from self.left.leaves()
        yield from self.right.leaves()

    def presence(self) -> Scalar:
        """Return the condition that a row is there, and not nulls in its place."""
        if self.how == "full":
            return call("or", self.left.presence(), self.right.presence())
        return self.left.presence()

    def place(self, predicate: Scalar) -> None:
        """Place a predicate of rows above the join as deep as its meaning allows."""
        used = leaves_used(predicate)
        if used and used <= numbers(self.left) and self.how != "full":
            self.left.place(predicate)
        elif used and used <= numbers(self.right) and self.how == "inner":
            self.right.place(predicate)
        elif self.how == "inner":
            self.on.append(predicate)
        else:
            self.filters.append(predicate)

    def place_on(self, predicate: Scalar) -> None:
        """Place a predicate of the join itself: for an inner or semi join anywhere below; otherwise only one over the optional side may go below."""
        used = leaves_used(predicate)
        if used and used <= numbers(self.right) and self.how != "full":
            self.right.place(predicate)
        elif used and used <= numbers(self.left) and self.how in ("inner", "semi"):
            self.left.place(predicate)
        else:
            self.on.append(predicate)

    def pairs(self) -> tuple[tuple[tuple[Scalar, Scalar], ...], list[Scalar]]:
        """Return the equalities of `on` as pairs of left and right, and the other predicates."""
        pairs, rest = [], []
        left, right = numbers(self.left), numbers(self.right)
        for one in self.on:
            sides = arguments_of(one) if name_of(one) == "eq" else []
            used = [leaves_used(side) for side in sides]
            if sides and used[0] and used[1] and used[0] <= left and used[1] <= right:
                pairs.append((sides[0], sides[1]))
            elif sides and used[0] and used[1] and used[1] <= left and used[0] <= right:
                pairs.append((sides[1], sides[0]))
            else:
                rest.append(one)
        return tuple(pairs), rest


Tree = Leaf | Joined


def leaves_used(scalar: Scalar) -> frozenset[int]:
    """Return the numbers of the leaves whose columns a scalar reads."""
    return frozenset(int(name.partition(".")[0]) for name in columns_of(scalar))


def numbers(tree: Tree) -> frozenset[int]:
    """Return the numbers of the leaves of a tree."""
    return frozenset(leaf.number for leaf in tree.leaves())


class Block:
    """The joins below a group, or below the rows that go out. `columns`: the block's columns as scalars over the leaves."""

    def __init__(self, relation: Relation) -> None:
        self._count = 0
        self.tree, self.columns = self._flat(relation)
        self.leaves = list(self.tree.leaves())

    @property
    def streams(self) -> list[Leaf]:
        """The leaves that are compacted."""
        return [leaf for leaf in self.leaves if leaf.is_stream]

    def _flat(self, relation: Relation) -> tuple[Tree, dict[str, Scalar]]:
        if is_linear(relation) or not reads_streams(relation):
            return self._leaf(relation)
        if isinstance(relation, Where):
            tree, columns = self._flat(relation.input)
            for one in conjuncts(relation.predicate):
                tree.place(substituted(one, columns))
            return tree, columns
        if isinstance(relation, Map):
            tree, columns = self._flat(relation.input)
            return tree, {name: substituted(one, columns) for name, one in relation.fields}
        if isinstance(relation, Join):
            return self._joined(relation)
        return self._leaf(relation)

    def _leaf(self, relation: Relation) -> tuple[Leaf, dict[str, Scalar]]:
        leaf = Leaf(self._count, relation, is_linear(relation))
        self._count += 1
        return leaf, {name: column(f"{leaf.number}.{name}") for name in relation.schema.names}

    def _joined(self, node: Join) -> tuple[Joined, dict[str, Scalar]]:
        (left, of_left), (right, of_right) = self._flat(node.left), self._flat(node.right)
        tree = Joined(left, right, node.how, node.span)
        for one, other in node.pairs:
            tree.place_on(call("eq", substituted(one, of_left), substituted(other, of_right)))
        for one in conjuncts(node.residual):
            tree.place_on(substituted(one, of_left | of_right))
        if node.how in ("semi", "anti"):
            for leaf in right.leaves():
                leaf.counts = False
            return tree, of_left
        if node.how in ("left", "full"):
            of_right = _optional(right, of_right)
        if node.how == "full":
            of_left = _optional(left, of_left)
        return tree, of_left | of_right


def _optional(tree: Tree, columns: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return columns of a side that may be missing: values computed below the join are then null."""
    for leaf in tree.leaves():
        leaf.is_nullable = True
    guard: Callable[[Scalar], Scalar] = lambda one: one if one.key == "column" else when(tree.presence(), one)  # noqa: E731
    return {name: guard(one) for name, one in columns.items()}


def check_bounded(block: Block) -> None:
    """Raise QueryError Q302 if two streams of a block have no equality between them, through however many other inputs."""
    group = {leaf.number: leaf.number for leaf in block.leaves}

    def root(number: int) -> int:
        return number if group[number] == number else root(group[number])

    for predicate in _equalities(block.tree):
        used = sorted(leaves_used(predicate))
        for other in used[1:]:
            group[root(other)] = root(used[0])
    streams = [
        leaf for leaf in block.streams if not any(isinstance(one, Window) for one in walk(leaf.relation))
    ]
    for leaf in streams[1:]:
        if root(leaf.number) != root(streams[0].number):
            first, second = (_names(one.relation) for one in (streams[0], leaf))
            raise QueryError.of(
                "Q302",
                f"no equality between the streams {first} and {second}: their product grows without bound",
                "Add an equality, a window on both, or make one a table that does not change.",
                leaf.relation.span,
            )


def _equalities(tree: Tree) -> Iterator[Scalar]:
    if isinstance(tree, Joined):
        yield from (one for one in tree.on if name_of(one) == "eq")
        yield from _equalities(tree.left)
        yield from _equalities(tree.right)


def _names(relation: Relation) -> str:
    return " and ".join(sorted({repr(one.name) for one in walk(relation) if isinstance(one, Source)}))
