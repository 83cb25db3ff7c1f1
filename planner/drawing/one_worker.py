"""The reason why a plan has one worker: one phrase for users who expected parallelism.

>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> from dgs.planner.topology import Stream
>>> class Sum(Program): "It declares nothing."
>>> topology = Topology([Stream("a", TagSet.of("value"))])
>>> why_one_worker(Plan(PlanNode("w0", topology.impl_tags()), optimizer="greedy"), Sum(), topology)
'the program has neither `fork` nor `join`'
"""

from __future__ import annotations

from dgs.model.program import Program
from dgs.planner.plan import Plan
from dgs.planner.topology import Topology

NO_DIVISION = "its frequent tags depend on each other, also when rarer ones are left to a worker above (`rate` says which are rare)"


def why_one_worker(
    plan: Plan, program: Program, topology: Topology, *, most_leaves: int | None = None
) -> str | None:
    """Return why a plan has one worker, None if it has several. `most_leaves`: the optimizer's bound."""
    if len(plan) > 1:
        return None
    single, shared = _single_tag(topology), _tag_to_share(program, topology)
    reasons = [
        (plan.optimizer is None, "the plan was written so"),
        (plan.optimizer == "sequential", "the optimizer `sequential` makes no others"),
        (not program.fork_joins(), _without_forks(program)),
        (
            program.dependence.is_total,
            "the program gives no `depends`, so every event depends on every other",
        ),
        (plan.because is not None, f"no other is predicted to be faster ({plan.because})"),
        (single is not None, f"all events are {single}: `split` the stream, or give its tags keys"),
        (most_leaves == 1, "optimizer.max_leaves is 1"),
        (
            topology.cpus == 1 and not most_leaves,
            "there is one CPU to plan for, unless `optimizer.max_leaves` is given",
        ),
        (shared is not None, f"most events are {shared}: `split` it, so that several workers share them"),
    ]
    return next((reason for holds, reason in reasons if holds), NO_DIVISION)


def _without_forks(program: Program) -> str:
    """Return the methods that a program lacks to fork its state, as a phrase."""
    has_fork, has_join = program.gives("fork"), program.gives("join")
    if not has_join:
        return (
            "the program has `fork` but no `join`"
            if has_fork
            else "the program has neither `fork` nor `join`"
        )
    if not program.accumulates:
        return "the program has `join` but no `fork`, and no `accumulates`"
    if not program.gives("identity"):
        return "the program has `accumulates` and `join`, but neither `identity` nor `fork`"
    return (
        "the program has no `fork`, and its `accumulates` cannot replace it: those kinds depend on each other, "
        "or `identity` changes a state that it is joined with"
    )


def _tag_to_share(program: Program, topology: Topology) -> str | None:
    """Return the only tag of the stream of most events, and that stream, if these events are independent of each other."""
    rates = {one.id: sum(one.rates.values()) + one.other_rate for one in topology.streams}
    stream = max(topology.streams, key=lambda one: rates[one.id])
    listed = list(stream.tags.tags()) if stream.tags.is_finite else []
    has_most = 2 * rates[stream.id] > sum(rates.values())
    if not has_most or len(listed) != 1 or program.dependence(listed[0], listed[0]) or "/" in stream.id:
        return None
    return f"{listed[0]!r} of stream {stream.id!r}"


def _single_tag(topology: Topology) -> str | None:
    """Return the tag and stream of all events if there is only one of both."""
    found = [(stream, tags) for stream, tags in topology.impl_tags() if tags]
    if len(found) != 1 or not found[0][1].is_finite:
        return None
    stream, tags = found[0]
    listed = list(tags.tags())
    return f"{listed[0]!r} of stream {stream!r}" if len(listed) == 1 else None
