"""Explanations of a plan: what each worker owns, joins and waits for, and why a plan has one worker only.

An explanation has the rate of each implementation tag, the workers it joins and waits for, and those it runs beside.

>>> from dgs.model.dependence import ALWAYS
>>> from dgs.model.tags import kind
>>> from dgs.planner.topology import Stream
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Sum(Program):
...     depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS))
>>> streams = [Stream("ticks", TagSet.of(BARRIER), other_rate=1), Stream("a", TagSet.of(VALUE), other_rate=90)]
>>> streams += [Stream("b", TagSet.of(VALUE), other_rate=80)]
>>> leaves = [PlanNode(f"w{i}", ImplTagSet.of({s: TagSet.of(VALUE)})) for i, s in ((1, "a"), (2, "b"))]
>>> plan = Plan(PlanNode("w0", ImplTagSet.of(ticks=TagSet.of(BARRIER)), children=tuple(leaves)))
>>> print(as_explanation(explain(plan, Sum(), Topology(streams))))
w0 owns barrier from ticks (1/s, 0.58% of all)
    every event joins w1, w2 and forks back; it must: barrier depends on value of w1, value of w2
w1 owns value from a (90/s, 53% of all)
    runs beside w2 without waiting for it
    waits for barrier of w0, on which it depends
w2 owns value from b (80/s, 47% of all)
    runs beside w1 without waiting for it
    waits for barrier of w0, on which it depends

One phrase tells users who expected parallelism why a plan has one worker.

>>> class Sum(Program): "It declares nothing."
>>> topology = Topology([Stream("a", TagSet.of("value"))])
>>> why_one_worker(Plan(PlanNode("w0", topology.impl_tags()), optimizer="greedy"), Sum(), topology)
'the program has neither `fork` nor `join`'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dgs.model.dependence import Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.planner.drawing.labels import some, tag_text
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.topology import Topology, by_kind, kind_rates


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of the tags of one kind from one stream at one worker.

    `joins`: all children, which every event of the tags joins; `because`: children with dependent tags in their subtree;
    `waits_for`: nodes above with dependent tags; both map node ids to the dependent tags. `beside`: siblings of the node; `rate`
    in events per second, `share` of the rate of all streams; `accumulates`: the program lets these events run ahead of joins.
    """

    node: str
    machine: str | None
    stream: str
    tags: TagSet
    rate: float
    share: float
    joins: tuple[str, ...]
    because: Mapping[str, str]
    waits_for: Mapping[str, str]
    beside: tuple[str, ...]
    accumulates: bool


def explain(plan: Plan, program: Program, topology: Topology) -> list[Explanation]:
    """Return one explanation per worker, stream and kind, in the order of the plan."""
    rates = kind_rates(plan, topology.streams)
    total = sum(rates.values())
    below = _subtrees(plan)
    found = []
    for node in plan.nodes():
        parent = plan.parent(node.id)
        beside = tuple(child.id for child in parent.children if child is not node) if parent else ()
        for stream, tags in node.tags.streams:
            for part, name in by_kind(tags):
                rate = rates.get((node.id, stream, name), 0.0)
                found.append(
                    Explanation(
                        node=node.id,
                        machine=node.node,
                        stream=stream,
                        tags=part,
                        rate=rate,
                        share=rate / total if total else 0.0,
                        joins=tuple(child.id for child in node.children),
                        because=_dependents(part, node.children, below, program.dependence),
                        waits_for=_dependents(part, list(plan.ancestors(node.id)), None, program.dependence),
                        beside=beside,
                        accumulates=name in program.accumulating,
                    )
                )
    return found


def as_explanation(explanations: Sequence[Explanation]) -> str:
    """Return the explanations as text, one paragraph each."""
    return "\n".join(line for one in explanations for line in _lines(one))


def _lines(one: Explanation) -> Iterator[str]:
    tags = tag_text(one.tags)
    machine = f" on {one.machine}" if one.machine else ""
    rate = f" ({one.rate:.3g}/s, {100 * one.share:.2g}% of all)" if one.rate else ""
    yield f"{one.node}{machine} owns {tags} from {one.stream}{rate}"
    if one.accumulates:
        yield "    accumulates: its events are added up without waiting for the state"
    elif one.joins:
        reason = some([f"{dependent} of {child}" for child, dependent in one.because.items()])
        why = (
            f"it must: {tags} depends on {reason}"
            if reason
            else "nothing below depends on it: a leaf of its own would do"
        )
        yield f"    every event joins {some(list(one.joins))} and forks back; {why}"
    if one.beside:
        yield f"    runs beside {some(list(one.beside))} without waiting for {'it' if len(one.beside) == 1 else 'them'}"
    if one.waits_for:
        yield f"    waits for {some([f'{other} of {node}' for node, other in one.waits_for.items()])}, on which it depends"


def _subtrees(plan: Plan) -> dict[str, ImplTagSet]:
    found: dict[str, ImplTagSet] = {}
    for node in reversed(list(plan.nodes())):
        whole = node.tags
        for child in node.children:
            whole = whole | found[child.id]
        found[node.id] = whole
    return found


def _dependents(
    tags: TagSet, nodes: Sequence[PlanNode], whole: Mapping[str, ImplTagSet] | None, dependence: Dependence
) -> dict[str, str]:
    """Return the nodes (with their subtrees, if `whole` is given) that own tags depending on `tags`, each with those tags."""
    found = {}
    for node in nodes:
        theirs = (whole[node.id] if whole else node.tags).tags()
        parts = [tag_text(part) for part, _ in by_kind(theirs) if dependence.between(tags, part)]
        if parts:
            found[node.id] = some(parts)
    return found


NO_DIVISION = "its frequent tags depend on each other, also when rarer ones are left to a worker above (`rate` says which are rare)"

NO_TYPED_DIVISION = (
    "the optimizer found no division of the tags that both `depends` and the forks of the state types allow"
)


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
        (len(program.states()) > 1, NO_TYPED_DIVISION),
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
    """Return the only tag of the stream with the most events, and that stream, if its events are independent of each other."""
    rates = {one.id: sum(one.rates.values()) + one.other_rate for one in topology.streams}
    stream = max(topology.streams, key=lambda one: rates[one.id])
    listed = list(stream.tags.tags()) if stream.tags.is_finite else []
    has_most = 2 * rates[stream.id] > sum(rates.values())
    if not has_most or len(listed) != 1 or program.dependence(listed[0], listed[0]) or "/" in stream.id:
        return None
    return f"{listed[0]!r} of stream {stream.id!r}"


def _single_tag(topology: Topology) -> str | None:
    """Return the tag and the stream of all events if there is only one of each."""
    found = [(stream, tags) for stream, tags in topology.impl_tags() if tags]
    if len(found) != 1 or not found[0][1].is_finite:
        return None
    stream, tags = found[0]
    listed = list(tags.tags())
    return f"{listed[0]!r} of stream {stream!r}" if len(listed) == 1 else None
