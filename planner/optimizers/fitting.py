"""Fitting a tag tree to the state types of a program, at the cost of some parallelism.

If no sequence of forks leads from a node to its children, the node changes until one does: groupings are opened, two children
become one leaf, or the parent absorbs a child. The last resort is one worker that owns everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from dgs.errors import NoPlanError
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet, union
from dgs.planner.optimizers.atoms import Atom, impl_tags
from dgs.planner.optimizers.matching import Matcher, Options, explain_failure
from dgs.planner.optimizers.tag_tree import TagTree, branch, collapse, fold


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A fitted subtree; without a possible type, its parent has to absorb it."""

    tree: TagTree
    tags: TagSet
    options: Options
    below: tuple[_Part, ...] = ()


def fitted(tree: TagTree, program: Program) -> TagTree:
    """Return the tree, changed no more than found necessary, so that it matches the program's state types.

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
