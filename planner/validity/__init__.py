"""Validity of a plan for a program and its streams, checked for every plan before anything runs (Definition 3.2).

The rules: structure, V1 (state types, forks), V2 (workers side by side own independent, disjoint tags) and coverage (every
implementation tag has exactly one owner). All violations are reported, not only the first.

`rules` finds violations, and says them in words.

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

from dgs.errors import InvalidPlanError
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program
from dgs.planner.plan import Plan
from dgs.planner.topology import Topology
from dgs.planner.validity.rules import (
    Violation,
    coverage_violations,
    independence_violations,
    listing,
    structure_violations,
    typing_violations,
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
