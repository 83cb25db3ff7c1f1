"""V1: each worker's state type fits its tags, and forks and joins of the right types exist along its fork tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet, union_of
from dgs.planner.plan import ForkStep, Plan, PlanNode
from dgs.planner.validity.violations import Violation


def typing_violations(plan: Plan, program: Program) -> list[Violation]:
    """Return the violations by state types or forks that do not fit."""
    rules = _TypingRules(program)
    found: list[list[Violation]] = []
    tags: dict[int, TagSet] = {}
    for node in reversed(list(plan.nodes())):
        below = [tags.pop(id(child)) for child in node.children]
        tags[id(node)] = union_of([node.tags.tags(), *below], TagSet())
        found.append([*rules.of_node(node, tags[id(node)]), *rules.of_forks(node, below)])
    initial = program.states()[0].name
    if plan.root.state_type != initial and plan.root.state_type in rules.types:
        message = f"the root {plan.root.id} has state type {plan.root.state_type!r}, but the run starts with {initial!r}"
        found.append([Violation("V1", (plan.root.id,), (), message, f"Give it `state: {initial}`")])
    return [violation for group in reversed(found) for violation in group]


class _TypingRules:
    def __init__(self, program: Program) -> None:
        self._program = program
        self.types: dict[str, StateType] = {t.name: t for t in program.states()}
        self._forks: dict[str, ForkJoin] = {f.name: f for f in program.fork_joins()}
        self._limited = {t.name for t in program.states() if t.handles != TagSet.everything()}
        self._accumulating = TagSet.of(*program.accumulating)

    def of_node(self, node: PlanNode, whole: TagSet) -> Iterator[Violation]:
        """Yield violations by the state type of a node; `whole`: the tags of its subtree."""
        state = self.types.get(node.state_type)
        if state is None:
            message = f"{node.id} has state type {node.state_type!r}, which program {self._program.name} does not have"
            yield Violation("V1", (node.id,), (), message, f"Use one of: {', '.join(self.types)}")
            return
        unhandled = self._unhandled(state.name, whole)
        if unhandled:
            message = f"state type {state.name!r} of {node.id} does not handle {unhandled!r}, which it or a node below owns"
            fix = "Use a state type that does, or move these tags out of the subtree"
            yield Violation("V1", (node.id,), (repr(unhandled),), message, fix)

    def of_forks(self, node: PlanNode, below: Sequence[TagSet]) -> Iterator[Violation]:
        """Yield violations by the fork tree of a node; `below`: the tags of its children's subtrees."""
        if not node.children:
            return
        if not self._forks:
            message = f"{node.id} has children, but program {self._program.name} has no fork and join"
            fix = "Give the program fork and join, or use one worker"
            yield Violation("V1", (node.id,), (), message, fix)
            return
        if node.fork_tree is None or any(not 0 <= i < len(below) for i in node.fork_tree.leaves()):
            return  # a violation of structure
        stack: list[tuple[ForkStep, str]] = [(node.fork_tree, node.state_type)]
        while stack:
            step, name = stack.pop()
            yield from self._of_step(node, step, name, below)
            fork = self._forks.get(step.fork)
            sides = [(step.left, fork.left if fork else None), (step.right, fork.right if fork else None)]
            stack += [(side, name) for side, name in sides if isinstance(side, ForkStep) and name]

    def _of_step(
        self, node: PlanNode, step: ForkStep, name: str, below: Sequence[TagSet]
    ) -> Iterator[Violation]:
        fork = self._forks.get(step.fork)
        if fork is None:
            message = f"{node.id} forks with {step.fork!r}, which program {self._program.name} does not have"
            yield Violation("V1", (node.id,), (), message, f"Use one of: {', '.join(self._forks)}")
            return
        if fork.parent != name and name in self.types:
            message = f"fork {fork.name!r} of {node.id} starts from type {fork.parent!r}, but the state there is {name!r}"
            yield Violation("V1", (node.id,), (), message, self._advice(name))
        yield from self._of_side(node, fork, fork.left, step.left, below)
        yield from self._of_side(node, fork, fork.right, step.right, below)
        yield from self._of_derived_fork(node, step, below)

    def _of_side(
        self, node: PlanNode, fork: ForkJoin, made: str, side: int | ForkStep, below: Sequence[TagSet]
    ) -> Iterator[Violation]:
        if isinstance(side, int):
            child = node.children[side]
            if child.state_type != made:
                message = f"fork {fork.name!r} of {node.id} makes a {made!r} for {child.id}, which has type {child.state_type!r}"
                fix = f"Give {child.id} `state: {made}`, or use another fork"
                yield Violation("V1", (node.id, child.id), (), message, fix)
            return
        if made not in self._limited:
            return
        unhandled = self._unhandled(made, union_of((below[i] for i in side.leaves()), TagSet()))
        if unhandled:
            message = f"fork {fork.name!r} of {node.id} makes a {made!r} that does not handle {unhandled!r} of the children it is for"
            yield Violation(
                "V1", (node.id,), (repr(unhandled),), message, "Use another fork, or another tree of forks"
            )

    def _of_derived_fork(
        self, node: PlanNode, step: ForkStep, below: Sequence[TagSet]
    ) -> Iterator[Violation]:
        """Yield violations by the fork derived from `accumulates`: it can give the state to one side only."""
        if not self._program.has_derived_fork:
            return
        both = [
            [i for i in _positions(side) if below[i] - self._accumulating] for side in (step.left, step.right)
        ]
        if all(both):
            a, b = both[0][0], both[1][0]
            names = (node.children[a].id, node.children[b].id)
            tags = (repr(below[a] - self._accumulating), repr(below[b] - self._accumulating))
            message = f"the fork derived from `accumulates` cannot serve two sides with tags that do not accumulate: {tags[0]} below {names[0]}, {tags[1]} below {names[1]}"
            fix = f"Give the program a fork, or move the tags of one side to {node.id}"
            yield Violation("V1", (node.id, *names), tags, message, fix)

    def _unhandled(self, name: str, tags: TagSet) -> TagSet:
        return tags - self.types[name].handles if name in self._limited else TagSet()

    def _advice(self, name: str) -> str:
        fitting = [fork.name for fork in self._forks.values() if fork.parent == name]
        return (
            f"Forks of {name!r} are: {', '.join(fitting)}"
            if fitting
            else f"No fork starts from {name!r}: make it a leaf"
        )


def _positions(side: int | ForkStep) -> list[int]:
    return [side] if isinstance(side, int) else list(side.leaves())
