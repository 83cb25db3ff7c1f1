"""V2: workers side by side own independent and disjoint implementation tags.

Subtrees are compared before nodes: if the union of many workers is independent of the union of many others, none of their
pairs is compared. So a valid plan of n workers costs about n comparisons of sets, not n squared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dgs.model.dependence import Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet, union_of
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.validity.violations import Violation

LIMIT = 1000
"""Most violations found before the search stops."""


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
    """Return whether the two share an implementation tag; only common streams are compared."""
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
