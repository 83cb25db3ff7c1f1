"""Synchronization plans: immutable n-ary trees of workers (Definition 3.1).

>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> leaves = [PlanNode(f"leaf{i}", ImplTagSet.of({f"values/{i}": TagSet.of(VALUE)})) for i in range(2)]
>>> plan = Plan(PlanNode("root", ImplTagSet.of(barriers=TagSet.of(BARRIER)), children=tuple(leaves)))
>>> [node.id for node in plan.nodes()], plan.depth, plan.parent("leaf1").id
(['root', 'leaf0', 'leaf1'], 2, 'root')
>>> plan.root.fork_tree
ForkStep(fork='fork', left=0, right=1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import union_of

DEFAULT_STATE = "state"
DEFAULT_FORK = "fork"


@dataclass(frozen=True, slots=True)
class ForkStep:
    """One binary fork inside an n-ary node: the name of the ForkJoin, and for each side a child's position or another step."""

    fork: str
    left: int | ForkStep
    right: int | ForkStep

    def sides(self) -> tuple[list[int], list[int]]:
        """Return the positions of the children on each side, from left to right."""
        left, right = (
            [one] if isinstance(one, int) else list(one.leaves()) for one in (self.left, self.right)
        )
        return left, right

    def leaves(self) -> Iterator[int]:
        """Yield the positions of the children below this step, from left to right."""
        return chain(*self.sides())

    def steps(self) -> Iterator[ForkStep]:
        """Yield this step and those below it, parents first."""
        yield self
        for side in (self.left, self.right):
            if isinstance(side, ForkStep):
                yield from side.steps()


def balanced(count: int, fork: str = DEFAULT_FORK, first: int = 0) -> int | ForkStep:
    """Return the balanced fork tree over `count` children in order; for a single child its position."""
    if count == 1:
        return first
    half = (count + 1) // 2
    return ForkStep(fork, balanced(half, fork, first), balanced(count - half, fork, first + half))


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A worker of the plan: the implementation tags it owns, the type of its state, its children.

    `fork_tree` is the binary tree along which its state forks to the children (and joins back); None without children.
    A node with children has at least two. `node` names the machine it is placed on, None for any.
    """

    id: str
    tags: ImplTagSet
    state_type: str = DEFAULT_STATE
    children: tuple[PlanNode, ...] = ()
    fork_tree: ForkStep | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        if self.fork_tree is None and len(self.children) > 1:
            object.__setattr__(self, "fork_tree", balanced(len(self.children)))

    @property
    def is_leaf(self) -> bool:
        """Whether the node has no children."""
        return not self.children

    def walk(self) -> Iterator[PlanNode]:
        """Yield the node and all below it, parents first, children in order. Not recursive: a plan may be deep."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def subtree_tags(self) -> ImplTagSet:
        """Return the implementation tags of the node and of all below it."""
        return union_of((node.tags for node in self.walk()), ImplTagSet())


@dataclass(frozen=True)
class Plan:
    """A tree of workers. Immutable; equal when the trees are.

    `optimizer`: the name of its optimizer, None for a plan written by hand. `because`: why it was chosen, if there was a choice.
    """

    root: PlanNode
    optimizer: str | None = field(default=None, compare=False)
    because: str | None = field(default=None, compare=False)

    def nodes(self) -> Iterator[PlanNode]:
        """Yield all nodes, parents first."""
        return self.root.walk()

    @cached_property
    def _by_id(self) -> dict[str, PlanNode]:
        return {node.id: node for node in self.nodes()}

    @cached_property
    def _parents(self) -> dict[str, PlanNode]:
        return {child.id: node for node in self.nodes() for child in node.children}

    def node(self, node_id: str) -> PlanNode:
        """Return the node of that id. Raises KeyError if there is none."""
        return self._by_id[node_id]

    def parent(self, node_id: str) -> PlanNode | None:
        """Return the parent of a node, None for the root."""
        return self._parents.get(node_id)

    def ancestors(self, node_id: str) -> Iterator[PlanNode]:
        """Yield the nodes above a node, the nearest first."""
        above = self.parent(node_id)
        while above is not None:
            yield above
            above = self.parent(above.id)

    @property
    def leaves(self) -> tuple[PlanNode, ...]:
        """The nodes without children."""
        return tuple(node for node in self.nodes() if node.is_leaf)

    @property
    def depth(self) -> int:
        """Number of nodes on the longest path from the root to a leaf."""
        levels, level = 0, [self.root]
        while level:
            levels, level = levels + 1, [child for node in level for child in node.children]
        return levels

    def __len__(self) -> int:
        return len(self._by_id)


def rebuilt(root: PlanNode, visit: Callable[[PlanNode, tuple[PlanNode, ...]], PlanNode]) -> PlanNode:
    """Return `visit(node, its rebuilt children)` of the root, built from the leaves up without recursion."""
    finished: list[PlanNode] = []
    for node in reversed(list(root.walk())):
        count = len(node.children)
        below = tuple(reversed(finished[len(finished) - count :]))
        del finished[len(finished) - count :]
        finished.append(visit(node, below))
    return finished[0]


def renumbered(root: PlanNode) -> PlanNode:
    """Return the tree with ids w0, w1, ... in the order of `walk`, as optimizers number it."""
    numbers = iter(range(sum(1 for _ in root.walk()) - 1, -1, -1))
    return rebuilt(root, lambda node, below: replace(node, id=f"w{next(numbers)}", children=below))


def is_accumulating(node: PlanNode, kinds: Collection[str]) -> bool:
    """Return whether a subtree has only tags of `kinds`, which accumulate. Then it answers with partial states."""
    if not kinds:
        return False
    owned = [tags for one in node.walk() for _, tags in one.tags]
    return bool(owned) and not any(
        tags.others or any(name not in kinds for name, _ in tags.kinds) for tags in owned
    )
