"""Structure and coverage: a plan is a tree of uniquely named workers that owns every implementation tag exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import union_of
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.validity.violations import Violation


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
