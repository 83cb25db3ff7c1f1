"""Forking and joining at an n-ary node: the paper's binary forks along one fixed binary tree (Section 2.1, Section 3.2).

Joins undo the forks on the same tree: C2 cancels matching pairs only, and no law says that join is associative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dgs.errors import InternalError, ProgramError
from dgs.model.program import Program, State
from dgs.model.tag_sets import TagSet, union
from dgs.model.user_code import UserCode
from dgs.planner.plan import ForkStep, PlanNode
from dgs.workers.observing.figures import FORK, JOIN, NO_METER, NoMeter


class Forking:
    """The fork tree of one node with the program's functions and the TagSets of the subtrees.

    Only the children at the positions `takers` get a part of the state. A child whose subtree accumulates gets none; its
    partial states are joined last.
    """

    def __init__(
        self, program: Program, node: PlanNode, takers: Sequence[int], meter: NoMeter = NO_METER
    ) -> None:
        self._meter = meter
        self._code = UserCode(program, node.id)
        self._functions = {pair.name: pair for pair in program.fork_joins()}
        self._tree = None if node.fork_tree is None else _contracted(node.fork_tree, frozenset(takers))
        self._others = [i for i in range(len(node.children)) if i not in takers]
        tags = [child.subtree_tags().tags() for child in node.children]
        self._tags: dict[ForkStep, tuple[TagSet, TagSet]] = {}
        for step in self._tree.steps() if isinstance(self._tree, ForkStep) else ():
            left, right = (union(tags[i] for i in side) for side in step.sides())
            self._tags[step] = (left, right)

    def fork(self, state: State) -> list[tuple[int, State]]:
        """Return the parts of a state, each with the position of its taker. The state is not used again (R9)."""
        before = self._meter.enter(FORK)
        parts: list[tuple[int, State]] = []
        pending: list[tuple[int | ForkStep | None, State]] = [(self._tree, state)]
        while pending:
            step, whole = pending.pop()
            if isinstance(step, ForkStep):
                left, right = self._call("fork", step.fork, whole, *self._tags[step])
                pending += [(step.right, right), (step.left, left)]
            elif step is not None:
                parts.append((step, whole))
        self._meter.enter(before)
        return parts

    def join(self, states: Sequence[State]) -> State:
        """Return the whole state, joined from the parts of all children. The parts are not used again (R9)."""

        def joined(step: int | ForkStep) -> State:
            if isinstance(step, int):
                return states[step]
            return self._call("join", step.fork, joined(step.left), joined(step.right))

        if self._tree is None:
            raise InternalError(problem=f"no child of worker {self._code.worker} has a state to join")
        before = self._meter.enter(JOIN)
        whole = joined(self._tree)
        for position in self._others:
            whole = self._joined(whole, states[position])
        self._meter.enter(before)
        return whole

    def joined_with(self, state: State, partial: State) -> State:
        """Return a state joined with the partial state of an accumulating subtree."""
        before = self._meter.enter(JOIN)
        whole = self._joined(state, partial)
        self._meter.enter(before)
        return whole

    def _joined(self, state: State, partial: State) -> State:
        return self._call("join", next(iter(self._functions)), state, partial)

    def _call(self, function: str, pair: str, *args: Any) -> Any:
        result = self._code.call(function, getattr(self._functions[pair], function), *args)
        if function == "fork" and not (isinstance(result, (tuple, list)) and len(result) == 2):  # noqa: PLR2004
            problem = f"fork must return two states, it returned {type(result).__name__}"
            raise ProgramError(program=self._code.program.name, problem=problem)
        return result


def _contracted(step: int | ForkStep, takers: frozenset[int]) -> int | ForkStep | None:
    """Return the fork tree over the takers alone: steps with only one side left are removed."""
    if isinstance(step, int):
        return step if step in takers else None
    left, right = _contracted(step.left, takers), _contracted(step.right, takers)
    if left is None or right is None:
        return right if left is None else left
    return ForkStep(step.fork, left, right)
