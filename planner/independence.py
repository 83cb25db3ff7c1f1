"""V2: workers side by side own independent and disjoint implementation tags.

Subtrees are compared before nodes: where the union of many workers is independent of the union of many others, none of
their pairs is looked at. So a valid plan of n workers costs about n comparisons of sets, not n squared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dgs.dependence import Dependence
from dgs.impl_tags import ImplTagSet
from planner.plan import Plan, PlanNode
from planner.violations import Violation

LIMIT = 1000
"""Violations after which no more pairs are looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """All that some workers own: a single worker (`owner`), or the two or more parts it is made of."""

    tags: ImplTagSet
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
        groups[id(node)] = _joined(_Group(node.tags, owner=node), *level)
    return found[:LIMIT]


def _joined(*parts: _Group) -> _Group:
    if len(parts) == 1:
        return parts[0]
    tags = parts[0].tags
    for part in parts[1:]:
        tags = tags | part.tags
    return _Group(tags, parts)


def _clashes(above: PlanNode, left: _Group, right: _Group, dependence: Dependence) -> Iterator[Violation]:
    """Yield the violations between the workers of two groups below `above`: descend only where the groups clash."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        shared = a.tags & b.tags
        if not shared and not dependence.between(a.tags.tags(), b.tags.tags()):
            continue
        if a.owner is not None and b.owner is not None:
            yield _violation(above, a.owner, b.owner, shared, dependence)
        elif a.owner is not None:
            stack += [(a, part) for part in reversed(b.parts)]
        else:
            stack += [(part, b) for part in reversed(a.parts)]


def _violation(
    above: PlanNode, a: PlanNode, b: PlanNode, shared: ImplTagSet, dependence: Dependence
) -> Violation:
    names = (a.id, b.id)
    if shared:
        tags = tuple(f"{tags!r}@{stream}" for stream, tags in shared.streams)
        message = f"both {a.id} and {b.id} own {', '.join(tags)}, and neither is above the other"
        return Violation("V2", names, tags, message, "Remove it from one of them")
    mine, yours = dependence.witness(a.tags.tags(), b.tags.tags()) or ("", "")
    message = f"{mine} of {a.id} depends on {yours} of {b.id}, and neither is above the other"
    fix = f"Give both tags to one node, or one of them to {above.id} or above"
    return Violation("V2", names, (mine, yours), message, fix)
