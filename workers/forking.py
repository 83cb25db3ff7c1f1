"""Forking and joining at an n-ary node: the paper's binary forks along one fixed binary tree (2.1, 3.2).

Joins undo the forks on the same tree: C2 cancels matching pairs only, and nobody promised associativity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dgs.errors import DgsError, InternalError, ProgramError
from dgs.program import Program, State
from dgs.tagset import TagSet, union
from dgs.user_code import user_error
from planner.plan import ForkStep, PlanNode


class Forking:
    """The fork tree of one node with the program's functions and the TagSets of the subtrees."""

    def __init__(self, program: Program, node: PlanNode, worker: str) -> None:
        self.is_leaf = node.is_leaf
        self._program = program
        self._worker = worker
        self._functions = {pair.name: pair for pair in program.fork_joins()}
        self._tree = node.fork_tree
        tags = [child.subtree_tags().tags() for child in node.children]
        self._tags: dict[ForkStep, tuple[TagSet, TagSet]] = {}
        for step in self._tree.steps() if self._tree is not None else ():
            left, right = (union(tags[i] for i in _positions(side)) for side in (step.left, step.right))
            self._tags[step] = (left, right)

    def fork(self, state: State) -> list[State]:
        """Return the children's parts of a state, in their order. The state is not used again (R9)."""
        if self._tree is None:
            raise InternalError(problem=f"worker {self._worker} is a leaf and cannot fork")
        parts: dict[int, State] = {}
        pending: list[tuple[int | ForkStep, State]] = [(self._tree, state)]
        while pending:
            step, whole = pending.pop()
            if isinstance(step, int):
                parts[step] = whole
                continue
            left, right = self._call("fork", step, whole, *self._tags[step])
            pending += [(step.right, right), (step.left, left)]
        return [parts[i] for i in range(len(parts))]

    def join(self, states: Sequence[State]) -> State:
        """Return the whole state of the children's parts. The parts are not used again (R9)."""

        def joined(step: int | ForkStep) -> State:
            if isinstance(step, int):
                return states[step]
            return self._call("join", step, joined(step.left), joined(step.right))

        if self._tree is None:
            raise InternalError(problem=f"worker {self._worker} is a leaf and cannot join")
        return joined(self._tree)

    def _call(self, function: str, step: ForkStep, *args: Any) -> Any:
        try:
            result = getattr(self._functions[step.fork], function)(*args)
        except DgsError:
            raise
        except Exception as error:
            raise user_error(self._program, function, error, worker=self._worker) from error
        if function == "fork" and not (isinstance(result, (tuple, list)) and len(result) == 2):  # noqa: PLR2004
            problem = f"fork must return two states, it returned {type(result).__name__}"
            raise ProgramError(program=self._program.name, problem=problem)
        return result


def _positions(side: int | ForkStep) -> list[int]:
    return [side] if isinstance(side, int) else list(side.leaves())
