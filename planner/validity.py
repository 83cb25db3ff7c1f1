"""Validity of a plan for a program and its streams, checked for every plan before anything runs (Definition 3.2).

Structure and coverage: a plan is a tree of uniquely named workers that owns every implementation tag exactly once. V1: each worker's
state type fits its tags, and forks and joins of the right types exist along its fork tree. V2: workers of which neither is above the other
own independent and disjoint implementation tags. All violations are reported, not only the first.

Subtrees are compared before nodes: if the union of many workers is independent of the union of many others, none of their pairs is
compared. So a valid plan of n workers costs about n comparisons of sets, not n squared.

>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> VALUE = kind("value")
>>> class Sum(Program): "Declares nothing, so everything depends on everything, and gives no fork."
>>> sides = [PlanNode(f"w{i}", ImplTagSet.of({f"v/{i}": TagSet.of(VALUE)})) for i in (1, 2)]
>>> plan = Plan(PlanNode("w0", ImplTagSet(), children=tuple(sides)))
>>> for found in violations(plan, Sum(), plan.root.subtree_tags()):
...     print(found)
V1 at w0: w0 has children, but program Sum has no fork and join. Give the program fork and join, or use one worker
V2 at w1, w2: value of w1 depends on value of w2, and neither is above the other. Give both tags to one node, or one of them to w0 or above
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dgs.errors import InvalidPlanError
from dgs.model.dependence import Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet, union_of
from dgs.planner.plan import ForkStep, Plan, PlanNode
from dgs.planner.topology import Topology

SHOWN = 50
"""The most violations that a listing spells out."""

RuleName = Literal["V1", "V2", "coverage", "structure"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plan breaks: of Definition 3.2 (`V1`, `V2`), coverage or structure.

    >>> print(Violation("V1", ("w1",), (), "it has state type 'sum', which the program does not have", "Use one of: state"))
    V1 at w1: it has state type 'sum', which the program does not have. Use one of: state
    """

    rule: RuleName
    nodes: tuple[str, ...]
    tags: tuple[str, ...]
    message: str
    fix: str

    def __str__(self) -> str:
        where = f" at {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.rule}{where}: {self.message}. {self.fix}"


def listing(violations: Sequence[Violation]) -> str:
    """Return the violations, one per line; of very many the first ones and the number of the rest."""
    lines = [f"  {violation}" for violation in violations[:SHOWN]]
    if len(violations) > SHOWN:
        lines.append(f"  ... and {len(violations) - SHOWN} more")
    return "\n".join(lines)


LIMIT = 1000
"""The number of violations at which the search stops."""


def structure_violations(plan: Plan) -> list[Violation]:
    """Return violations: duplicate ids, nodes with one child, fork trees that miss or repeat a child, leaves without tags."""
    counted = Counter(node.id for node in plan.nodes())
    found = [
        Violation(
            "structure", (name,), (), f"{count} nodes have the id {name!r}", "Give each node its own id"
        )
        for name, count in counted.items()
        if count > 1
    ]
    for node in plan.nodes():
        found.extend(_of_node(node))
    return found + [_idle(node) for node in plan.leaves if not node.tags and node is not plan.root]


def _idle(leaf: PlanNode) -> Violation:
    message = f"{leaf.id} has neither tags nor children: it would do nothing"
    return Violation("structure", (leaf.id,), (), message, "Remove it, or give it tags")


def _of_node(node: PlanNode) -> Iterator[Violation]:
    count = len(node.children)
    if count == 1:
        child = node.children[0].id
        message = f"{node.id} has exactly one child, {child}: there is nothing to fork"
        yield Violation(
            "structure", (node.id,), (), message, f"Merge {child} into {node.id}, or add a sibling"
        )
    elif node.fork_tree is not None:
        reached = sorted(node.fork_tree.leaves())
        if reached != list(range(count)):
            message = f"the forks of {node.id} lead to the children {reached}, it has {list(range(count))}"
            yield Violation("structure", (node.id,), (), message, "Name every child exactly once in `forks`")


def coverage_violations(plan: Plan, everything: ImplTagSet) -> list[Violation]:
    """Return violations: tags without an owner, tags that no stream carries, tags owned both by a node and by one above it."""
    found: list[Violation] = []
    totals: dict[int, ImplTagSet] = {}
    for node in reversed(list(plan.nodes())):
        below = union_of((totals.pop(id(child)) for child in node.children), ImplTagSet())
        twice = node.tags & below
        if twice:
            found.extend(_owned_twice(node, twice))
        totals[id(node)] = node.tags | below
    owned = totals[id(plan.root)]
    missing, superfluous = everything - owned, owned - everything
    if missing:
        fix = "Add it to a node: the root is always possible"
        found += [
            Violation("coverage", (), _names(s, t), f"no node owns {t!r} of stream {s!r}", fix)
            for s, t in missing.streams
        ]
    if superfluous:
        found.extend(_unknown(plan, superfluous, everything))
    return found


def _owned_twice(node: PlanNode, twice: ImplTagSet) -> Iterator[Violation]:
    for below in list(node.walk())[1:]:
        for stream, tags in (below.tags & twice).streams:
            message = f"both {node.id} and {below.id} below it own {tags!r} of stream {stream!r}"
            fix = "Remove it from one of them"
            yield Violation("coverage", (node.id, below.id), _names(stream, tags), message, fix)


def _unknown(plan: Plan, superfluous: ImplTagSet, everything: ImplTagSet) -> Iterator[Violation]:
    known = [stream for stream, _ in everything.streams]
    for node in plan.nodes():
        for stream, tags in (node.tags & superfluous).streams:
            if stream in known:
                message = f"{node.id} owns {tags!r} of stream {stream!r}, which does not carry it"
                fix = f"Remove it, or add it to the tags of the stream: {everything.stream(stream)!r}"
            else:
                message = f"{node.id} owns tags of stream {stream!r}, which does not exist"
                fix = f"The streams are: {', '.join(known)}"
            yield Violation("coverage", (node.id,), _names(stream, tags), message, fix)


def _names(stream: str, tags: object) -> tuple[str, ...]:
    return (f"{tags!r}@{stream}",)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The tags of a group of workers: a single worker (`owner`), or two or more `parts`."""

    itags: ImplTagSet
    tags: TagSet
    parts: tuple[_Group, ...] = ()
    owner: PlanNode | None = None


def independence_violations(plan: Plan, dependence: Dependence) -> list[Violation]:
    """Return the pairs of workers, neither above the other, that share a tag or own dependent tags."""
    found: list[Violation] = []
    groups: dict[int, _Group] = {}
    for node in reversed(list(plan.nodes())):
        level = [groups.pop(id(child)) for child in node.children]
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            for pair in pairs:
                if len(pair) > 1 and len(found) < LIMIT:
                    found.extend(_clashes(node, pair[0], pair[1], dependence))
            level = [pair[0] if len(pair) == 1 else _joined(*pair) for pair in pairs]
        groups[id(node)] = _joined(_Group(node.tags, node.tags.tags(), owner=node), *level)
    return found[:LIMIT]


def _joined(*parts: _Group) -> _Group:
    if len(parts) == 1:
        return parts[0]
    itags = union_of((part.itags for part in parts), ImplTagSet())
    return _Group(itags, union_of((part.tags for part in parts), TagSet()), parts)


def _clashes(above: PlanNode, left: _Group, right: _Group, dependence: Dependence) -> Iterator[Violation]:
    """Yield the violations between the workers of two groups below `above`, descending only into groups that clash."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if not _overlap(a.itags, b.itags) and not dependence.between(a.tags, b.tags):
            continue
        if a.owner is not None and b.owner is not None:
            yield _violation(above, a.owner, b.owner, dependence)
        elif a.owner is not None:
            stack += [(a, part) for part in reversed(b.parts)]
        else:
            stack += [(part, b) for part in reversed(a.parts)]


def _overlap(left: ImplTagSet, right: ImplTagSet) -> bool:
    """Return whether two sets share an implementation tag; only common streams are compared."""
    few, many = sorted((dict(left.streams), dict(right.streams)), key=len)
    return any(stream in many and not tags.isdisjoint(many[stream]) for stream, tags in few.items())


def _violation(above: PlanNode, a: PlanNode, b: PlanNode, dependence: Dependence) -> Violation:
    names, shared = (a.id, b.id), a.tags & b.tags
    if shared:
        tags = tuple(f"{tags!r}@{stream}" for stream, tags in shared.streams)
        message = f"both {a.id} and {b.id} own {', '.join(tags)}, and neither is above the other"
        return Violation("V2", names, tags, message, "Remove it from one of them")
    mine, yours = dependence.witness(a.tags.tags(), b.tags.tags()) or ("", "")
    message = f"{mine} of {a.id} depends on {yours} of {b.id}, and neither is above the other"
    fix = f"Give both tags to one node, or one of them to {above.id} or above"
    return Violation("V2", names, (mine, yours), message, fix)


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
            return  # `structure_violations` reports it
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
        both = [[i for i in side if below[i] - self._accumulating] for side in step.sides()]
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


__all__ = ["Violation", "check", "violations"]


def violations(plan: Plan, program: Program, streams: Topology | ImplTagSet) -> list[Violation]:
    """Return all violations of a plan; an empty list if it is valid.

    `streams`: the topology, or all implementation tags of the streams.
    """
    everything = streams.impl_tags() if isinstance(streams, Topology) else streams
    found = structure_violations(plan)
    found += typing_violations(plan, program)
    found += independence_violations(plan, program.dependence)
    found += coverage_violations(plan, everything)
    return found


def check(plan: Plan, program: Program, streams: Topology | ImplTagSet) -> None:
    """Raise InvalidPlanError if there are violations; its message lists them, and its attribute `violations` holds them."""
    found = violations(plan, program, streams)
    if found:
        raise InvalidPlanError(program=program.name, listing=listing(found), violations=found)
