"""Plan units: subtrees that share nothing, so that one Spark task can compute each from the events alone.

A worker that owns no events forks its state once, at the beginning, and joins it once, at the end. So the subtrees below such
workers are independent of each other (the keys of a page-view join, say). A unit begins at the first worker below them that
owns events or has no children.

A unit whose root owns one stream, above children that all accumulate, is computed in *windows*: one task per child that owns
events folds them to partial states, one per window between two events of the root. `cut` makes such a unit of a single worker.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.tags import kind
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Windows(Program):
...     depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
...     accumulates = (VALUE,)
...     def init(self): return 0
...     def identity(self): return 0
...     def join(self, left, right): return left + right
>>> leaves = tuple(PlanNode(f"leaf{i}", ImplTagSet.of({f"v/{i}": TagSet.of(VALUE)})) for i in range(2))
>>> root = PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=leaves)
>>> [(unit.node.id, [leaf.id for leaf in unit.folds]) for unit in Division(Windows(), Plan(root)).units]
[('root', ['leaf0', 'leaf1'])]
>>> alone = PlanNode("alone", ImplTagSet.of({"b": TagSet.of(BARRIER), "v": TagSet.of(VALUE)}))
>>> [unit] = Division(Windows(), Plan(alone)).units
>>> cut(unit, Windows()).node.tags, [fold.tags for fold in cut(unit, Windows()).folds]
({b: {barrier}}, [{v: {value}}])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program, State
from dgs.model.tag_sets import TagSet
from dgs.model.user_code import UserCode
from dgs.planner.plan import Plan, PlanNode, is_accumulating
from dgs.workers.protocol.forking import Forking


@dataclass(frozen=True, slots=True)
class Unit:
    """A subtree that shares nothing with others. `folds`: the nodes below its root that own events, if it is computed in windows."""

    number: int
    node: PlanNode
    folds: tuple[PlanNode, ...] = ()


def cut(unit: Unit, program: Program) -> Unit | None:
    """Return a unit with the same events whose kinds that accumulate are folded apart from its root; None if that cannot be.

    It can be if all other events are of one stream, whatever workers the plan has for them: so the order of the windows is known.
    """
    node, tags = unit.node, unit.node.subtree_tags()
    apart = TagSet.of(*program.accumulating)
    folded = ImplTagSet.of({stream: some & apart for stream, some in tags})
    if not folded or len((tags - folded).streams) > 1 or program.accumulating & set(map(str, program.stamps)):
        return None
    root = PlanNode(node.id, tags - folded, node.state_type)
    return Unit(unit.number, root, (PlanNode(node.id, folded, node.state_type),))


class Division:
    """The units of a plan, with fork and join of a state over them. `in_windows`: whether windows are allowed."""

    def __init__(self, program: Program, plan: Plan, *, in_windows: bool = True) -> None:
        self._program, self._plan, self._in_windows = program, plan, in_windows
        self._units: dict[str, Unit] = {}
        self._divide(plan.root)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units, from left to right."""
        return tuple(self._units.values())

    def fork(self, state: State) -> tuple[dict[str, State], dict[str, State]]:
        """Return the first states of the units by the ids of their roots, and the states that workers above them keep.

        A worker above children that all accumulate keeps its own. The state given is not used again.
        """
        parts: dict[str, State] = {}
        kept: dict[str, State] = {}
        self._fork(self._plan.root, state, parts, kept)
        return parts, kept

    def join(self, parts: dict[str, State], kept: dict[str, State]) -> State:
        """Return the whole state, joined from the last states of the units. The states given are not used again."""
        return self._join(self._plan.root, parts, kept)

    def _divide(self, node: PlanNode) -> None:
        if self._is_unit(node):
            self._units[node.id] = Unit(len(self._units), node, self._folds(node))
            return
        for child in node.children:
            self._divide(child)

    @staticmethod
    def _is_unit(node: PlanNode) -> bool:
        return node.is_leaf or bool(node.tags)

    def _folds(self, node: PlanNode) -> tuple[PlanNode, ...]:
        alone = len(node.tags.streams) == 1 and bool(node.children)
        if not (self._in_windows and alone and all(self._accumulates(child) for child in node.children)):
            return ()
        return tuple(below for child in node.children for below in child.walk() if below.tags)

    def _accumulates(self, node: PlanNode) -> bool:
        return is_accumulating(node, self._program.accumulating)

    def _takers(self, node: PlanNode) -> list[int]:
        return [i for i, child in enumerate(node.children) if not self._accumulates(child)]

    def _fork(self, node: PlanNode, state: State, parts: dict[str, State], kept: dict[str, State]) -> None:
        if self._is_unit(node):
            parts[node.id] = state
            return
        takers = self._takers(node)
        for child in node.children:
            if self._accumulates(child):
                self._fork(child, self._identity(), parts, kept)
        if not takers:
            kept[node.id] = state
            return
        for position, part in Forking(self._program, node, takers).fork(state):
            self._fork(node.children[position], part, parts, kept)

    def _join(self, node: PlanNode, parts: dict[str, State], kept: dict[str, State]) -> State:
        if self._is_unit(node):
            return parts[node.id]
        forking = Forking(self._program, node, self._takers(node))
        below = [self._join(child, parts, kept) for child in node.children]
        if node.id not in kept:
            return forking.join(below)
        whole = kept[node.id]
        for state in below:
            whole = forking.joined_with(whole, state)
        return whole

    def _identity(self) -> Any:
        return UserCode(self._program).call("identity", self._program.identity)
