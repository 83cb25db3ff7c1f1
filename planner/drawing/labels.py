"""Labels of workers in drawings: id, tags, machine, and state type if the plan has several.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> VALUE, BARRIER = kind("value"), kind("barrier", key=int)
>>> node = PlanNode("w0", ImplTagSet.of(a=TagSet.of(VALUE), b=TagSet.of(VALUE), c=TagSet.of(BARRIER)), node="node-a")
>>> lines(node, Plan(node))
['w0 on node-a', 'value from a, b', 'barrier(all) from c']
"""

from __future__ import annotations

from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode

MAX_NAMES = 6
"""The most entries of a list in a label; a longer list is cut."""


def lines(node: PlanNode, plan: Plan) -> list[str]:
    """Return the lines of a worker's label: first its name, then its tags, with equal tags of several streams on one line."""
    types = {other.state_type for other in plan.nodes()}
    head = node.id + (f" : {node.state_type}" if len(types) > 1 else "")
    streams: dict[TagSet, list[str]] = {}
    for stream, tags in node.tags.streams:
        streams.setdefault(tags, []).append(stream)
    owned = [f"{tag_text(tags)} from {some(names)}" for tags, names in streams.items()]
    return [f"{head} on {node.node}" if node.node else head, *(owned or ["no tags: forks and joins only"])]


def tag_text(tags: TagSet) -> str:
    """Return the tags of one stream as text; of many tags the first ones and the number of the rest."""
    if tags == TagSet.everything():
        return "everything"
    if not tags.is_finite:
        return repr(tags)[1:-1]
    return some([repr(tag) for tag in tags.tags()])


def some(names: list[str]) -> str:
    """Return a list as text; of a long one the first entries and the number of the rest."""
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return ", ".join(names[: MAX_NAMES - 1]) + f" and {len(names) - MAX_NAMES + 1} more"
