"""Matching a tag tree to state types, or fitting it to them: a type for each worker, and forks for each parent (Definition 3.2, V1).

From the leaves up, every node gets the set of types it may have. Children with the same possibilities are interchangeable, so the
question at a node is whether a type can be forked into a multiset of children; answers are cached by type and multiset.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.program import StateType
>>> class Split(Program):
...     depends = Dependence(("b", "a", ALWAYS))
...     def states(self):
...         return (StateType("whole", TagSet.everything(), max), StateType("part", TagSet.of("a"), max))
...     def fork_joins(self):
...         return (ForkJoin("open", "whole", "part", "part", max, max), ForkJoin("halve", "part", "part", "part", max, max))
>>> a = [PlanNode(f"a{i}", ImplTagSet.of({f"a{i}": TagSet.of("a")})) for i in range(3)]
>>> root = match(PlanNode("root", ImplTagSet.of(b=TagSet.of("b")), children=tuple(a)), Split())
>>> root.state_type, [child.state_type for child in root.children], [step.fork for step in root.fork_tree.steps()]
('whole', ['part', 'part', 'part'], ['open', 'halve'])

Fitting costs some parallelism. If no sequence of forks leads from a node to its children, the node is changed until one does: groupings are
opened, two children become one leaf, or the parent absorbs a child. The last resort is one worker that owns everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import prod

from dgs.errors import NoPlanError
from dgs.model.program import ForkJoin, Program
from dgs.model.tag_sets import TagSet, union
from dgs.planner.optimizers.atoms import Atom, impl_tags
from dgs.planner.optimizers.tag_tree import TagTree, branch, collapse, fold
from dgs.planner.plan import ForkStep, PlanNode, balanced, rebuilt

Types = frozenset[str]
Counts = tuple[int, ...]

SEARCH_LIMIT = 200_000
"""The most steps of the search for one node's fork tree."""

ENUMERATED_SPLITS = 4096
"""Up to this number, all ways to divide a node's children are tried."""


@dataclass(frozen=True, slots=True)
class Options:
    """The types that the root of a subtree may have, and the types that handle all tags of the subtree."""

    possible: Types
    handling: Types


class Matcher:
    """The search for one program. Caches its results."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.types = program.states()
        self.forks = program.fork_joins()
        self._handling: dict[TagSet, Types] = {}
        self._found: dict[tuple[tuple[Options, ...], str, Counts], tuple[ForkJoin, Counts] | None] = {}
        self._steps = 0

    @property
    def initial(self) -> str:
        """The type every root has."""
        return self.types[0].name

    @cached_property
    def is_uniform(self) -> bool:
        """Whether the program has a single state type that forks into itself: then any tree matches."""
        return len(self.types) == 1 and bool(self.forks)

    def handling(self, tags: TagSet) -> Types:
        """Return the names of the types that handle all of `tags`."""
        if tags not in self._handling:
            self._handling[tags] = frozenset(t.name for t in self.types if _covers(t.handles, tags))
        return self._handling[tags]

    def options(self, tags: TagSet, children: Sequence[Options]) -> Options:
        """Return the options of a node whose whole subtree has `tags` and whose children have the options `children`."""
        handling = self.handling(tags)
        if not children:
            return Options(handling, handling)
        return Options(frozenset(t for t in handling if self.can_fork(t, children)), handling)

    def can_fork(self, state_type: str, children: Sequence[Options]) -> bool:
        """Return whether a state of `state_type` can be forked into states for all of the children."""
        classes, counts = _classes(children)
        self._steps = 0
        return self._search(classes, state_type, counts) is not None

    def fork_tree(self, state_type: str, children: Sequence[Options]) -> tuple[int | ForkStep, list[str]]:
        """Return a fork tree over the positions of the children, and their types. `can_fork` must hold."""
        classes, counts = _classes(children)
        waiting = {option: [i for i, child in enumerate(children) if child == option] for option in classes}
        types = [""] * len(children)

        def build(name: str, counts: Counts) -> int | ForkStep:
            if sum(counts) == 1:
                child = waiting[classes[counts.index(1)]].pop(0)
                types[child] = name
                return child
            found = self._search(classes, name, counts)
            if found is None:
                raise NoPlanError(program=self.program.name, reason=f"type {name!r} cannot fork here")
            fork, left = found
            right = tuple(a - b for a, b in zip(counts, left, strict=True))
            return ForkStep(fork.name, build(fork.left, left), build(fork.right, right))

        return build(state_type, counts), types

    def _search(
        self, classes: tuple[Options, ...], name: str, counts: Counts
    ) -> tuple[ForkJoin, Counts] | None:
        """Return the first fork of type `name` that serves all children, and the counts of those on its left side."""
        key = (classes, name, counts)
        if key in self._found:
            return self._found[key]
        held = [option for option, count in zip(classes, counts, strict=True) if count]
        found = None
        if all(name in option.handling for option in held):
            for fork, left in self._candidates(name, counts):
                right = tuple(a - b for a, b in zip(counts, left, strict=True))
                if self._serves(classes, fork.left, left) and self._serves(classes, fork.right, right):
                    found = (fork, left)
                    break
        self._found[key] = found
        return found

    def _serves(self, classes: tuple[Options, ...], name: str, counts: Counts) -> bool:
        if sum(counts) == 1:
            return name in classes[counts.index(1)].possible
        return self._search(classes, name, counts) is not None

    def _candidates(self, name: str, counts: Counts) -> Iterator[tuple[ForkJoin, Counts]]:
        forks = [fork for fork in self.forks if fork.parent == name]
        for left in _splits(counts):
            for fork in forks:
                self._steps += 1
                if self._steps > SEARCH_LIMIT:
                    return
                yield fork, left


def match(root: PlanNode, program: Program, *, fixed: Mapping[str, str] | None = None) -> PlanNode:
    """Return the tree with state types and fork trees; `fixed` gives the types of some nodes by id.

    Raises NoPlanError with the lowest node that cannot be served, and the reason.
    """
    matcher, given = Matcher(program), fixed or {}
    if (
        matcher.is_uniform
        and not given
        and matcher.handling(union(dict.fromkeys(tags for node in root.walk() for _, tags in node.tags)))
    ):
        return _uniform(root, matcher)
    options: dict[int, Options] = {}
    tags: dict[int, TagSet] = {}
    for node in reversed(list(root.walk())):
        whole = node.tags.tags()
        for child in node.children:
            whole = whole | tags[id(child)]
        tags[id(node)] = whole
        found = matcher.options(whole, [options[id(child)] for child in node.children])
        wanted = frozenset([given[node.id]]) if node.id in given else found.possible
        if node is root:
            wanted = wanted & {matcher.initial}
        options[id(node)] = Options(found.possible & wanted, found.handling)
        if not options[id(node)].possible:
            raise NoPlanError(
                program=program.name, reason=explain_failure(matcher, node.id, whole, found, wanted)
            )
    return _assigned(root, matcher, options)


def _uniform(root: PlanNode, matcher: Matcher) -> PlanNode:
    name, fork = matcher.initial, matcher.forks[0].name

    def visit(node: PlanNode, below: tuple[PlanNode, ...]) -> PlanNode:
        tree = balanced(len(below), fork) if below else None
        return replace(
            node, state_type=name, children=below, fork_tree=tree if isinstance(tree, ForkStep) else None
        )

    return rebuilt(root, visit)


def _assigned(root: PlanNode, matcher: Matcher, options: Mapping[int, Options]) -> PlanNode:
    """Choose types from the root down, then build the nodes from the leaves up."""
    types = {id(root): matcher.initial}
    trees: dict[int, ForkStep | None] = {}
    for node in root.walk():
        if not node.children:
            trees[id(node)] = None
            continue
        below = [options[id(child)] for child in node.children]
        tree, names = matcher.fork_tree(types[id(node)], below)
        trees[id(node)] = tree if isinstance(tree, ForkStep) else None
        types.update((id(child), name) for child, name in zip(node.children, names, strict=True))

    def visit(node: PlanNode, below: tuple[PlanNode, ...]) -> PlanNode:
        return replace(node, state_type=types[id(node)], children=below, fork_tree=trees[id(node)])

    return rebuilt(root, visit)


def explain_failure(matcher: Matcher, node_id: str, tags: TagSet, found: Options, wanted: Types) -> str:
    """Return the reason that a node cannot be served: no type for its tags, no fork to its children, or the wrong type."""
    if not found.handling:
        return f"no state type handles {tags!r}, the tags of node {node_id!r} and all below it"
    if not matcher.forks and not found.possible:
        return f"node {node_id!r} has children, but the program has no fork and join"
    if not found.possible:
        names = ", ".join(sorted(found.handling))
        return f"node {node_id!r} could have type {names}, but no sequence of forks leads from there to its children"
    names = ", ".join(sorted(found.possible))
    return f"node {node_id!r} can only have type {names}, not {', '.join(sorted(wanted)) or matcher.initial}"


def _covers(handles: TagSet, tags: TagSet) -> bool:
    return handles == TagSet.everything() or tags <= handles


def _classes(children: Sequence[Options]) -> tuple[tuple[Options, ...], Counts]:
    """Return the distinct options in order of first appearance, and the number of children with each."""
    counted = Counter(children)
    return tuple(counted), tuple(counted.values())


def _splits(counts: Counts) -> Iterator[Counts]:
    """Yield the non-empty, proper parts of a multiset, the most balanced first.

    If there are very many, yield only a half, and each single child and its rest.
    """
    total = sum(counts)
    if prod(count + 1 for count in counts) <= ENUMERATED_SPLITS:
        parts = product(*(range(count + 1) for count in counts))
        yield from sorted(
            (p for p in parts if 0 < sum(p) < total), key=lambda p: (abs(total - 2 * sum(p)), p)
        )
        return
    positions = [i for i, count in enumerate(counts) for _ in range(count)]
    half = Counter(positions[: (total + 1) // 2])
    yield tuple(half[i] for i in range(len(counts)))
    for i, count in enumerate(counts):
        if count:
            single = tuple(int(i == j) for j in range(len(counts)))
            yield from (single, tuple(c - s for c, s in zip(counts, single, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A fitted subtree. If it has no possible type, its parent has to absorb it."""

    tree: TagTree
    tags: TagSet
    options: Options
    below: tuple[_Part, ...] = ()


def fitted(tree: TagTree, program: Program) -> TagTree:
    """Return the tree, changed as little as necessary to match the program's state types.

    Raises NoPlanError if not even a single worker matches, because the initial state type does not handle all tags.
    """
    matcher = Matcher(program)
    if not matcher.forks:
        tree = collapse(tree)
    elif matcher.is_uniform:
        return tree
    return _Fitting(matcher, tree).run()


class _Fitting:
    """One run over one tree."""

    def __init__(self, matcher: Matcher, root: TagTree) -> None:
        self._matcher = matcher
        self._root = root

    def run(self) -> TagTree:
        found = fold(self._root, self._visit)
        if not found.options.possible:
            wanted = frozenset([self._matcher.initial])
            options = self._matcher.options(found.tags, ())
            reason = explain_failure(self._matcher, "w0", found.tags, options, wanted)
            raise NoPlanError(program=self._matcher.program.name, reason=reason)
        return found.tree

    def _visit(self, node: TagTree, below: list[_Part]) -> _Part:
        own, children = node.own, below
        while True:
            part = self._part(node is self._root, own, children)
            if part.options.possible or not part.below:
                return part
            own, children = self._reduced(node is self._root, part)

    def _part(self, is_root: bool, own: tuple[Atom, ...], children: list[_Part]) -> _Part:
        """Return the node over these children; an only child is absorbed."""
        if len(children) == 1:
            own, children = own + children[0].tree.own, list(children[0].below)
        tags = impl_tags(own).tags() | union(child.tags for child in children)
        options = self._matcher.options(tags, [child.options for child in children])
        if is_root:
            options = Options(options.possible & {self._matcher.initial}, options.handling)
        return _Part(branch(own, [child.tree for child in children]), tags, options, tuple(children))

    def _reduced(self, is_root: bool, part: _Part) -> tuple[tuple[Atom, ...], list[_Part]]:
        """Return the node's own tags and children after the first change that gives it a type, or after the cheapest change."""
        first = None
        for own, children in self._changes(part):
            if self._part(is_root, own, children).options.possible:
                return own, children
            first = first or (own, children)
        return first or (tuple(part.tree.atoms()), [])

    def _changes(self, part: _Part) -> Iterator[tuple[tuple[Atom, ...], list[_Part]]]:
        own, children = part.tree.own, list(part.below)
        hopeless = [child for child in children if not child.options.possible]
        if hopeless:
            yield self._absorbed(own, children, hopeless)
            return
        groupings = [child for child in children if not child.tree.own and child.below]
        if groupings:
            opened = [[*child.below] if child in groupings else [child] for child in children]
            yield own, [child for several in opened for child in several]
        for a, b in sorted(combinations(children, 2), key=lambda pair: pair[0].tree.rate + pair[1].tree.rate):
            merged = self._part(False, collapse(a.tree, b.tree).own, [])
            if merged.options.possible:
                yield own, [merged if child is a else child for child in children if child is not b]
        for child in sorted(children, key=lambda child: child.tree.rate):
            yield self._absorbed(own, children, [child])

    def _absorbed(
        self, own: tuple[Atom, ...], children: list[_Part], absorbed: list[_Part]
    ) -> tuple[tuple[Atom, ...], list[_Part]]:
        up = tuple(atom for child in absorbed for atom in child.tree.atoms())
        return own + up, [child for child in children if child not in absorbed]
