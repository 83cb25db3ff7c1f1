"""Instances for the planner: programs with streams, and an oracle of validity that checks tag by tag."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

from dgs.model.dependence import Dependence
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import ImplTag, Tag
from dgs.planner.plan import ForkStep, Plan, PlanNode
from dgs.planner.topology import Machine, Stream, Topology
from tests.strategies import random_workload

LETTERS = [Tag(letter) for letter in "abcdef"]


class Typed(Program):
    """A program of several random state types and forks, over six kinds without keys; it computes nothing."""

    def __init__(self, rnd: random.Random) -> None:
        dependent = {frozenset([a, b]) for a in LETTERS for b in LETTERS if rnd.random() < 0.25}
        self.depends = Dependence.from_function(lambda a, b: frozenset([a, b]) in dependent, LETTERS)
        some = [TagSet.of(*rnd.sample(LETTERS, rnd.randint(1, 5))) for _ in range(rnd.randint(0, 4))]
        sets = [TagSet.of(*LETTERS), *some]
        self._states = tuple(StateType(f"t{i}", tags, max) for i, tags in enumerate(sets))
        self._forks = tuple(
            ForkJoin(f"f{i}", *(rnd.choice(self._states).name for _ in range(3)), max, max)
            for i in range(rnd.randint(1, 8))
        )

    def states(self):
        return self._states

    def fork_joins(self):
        return self._forks


def random_instance(rnd: random.Random) -> tuple[Program, Topology]:
    """Return a program (any of the test programs, or one of random state types) and streams with some rates known."""
    if rnd.random() < 0.4:
        program: Program = Typed(rnd)
        sets = [TagSet.of(tag) for tag in LETTERS]
        sets += [TagSet.of(*rnd.sample(LETTERS, rnd.randint(1, 3))) for _ in range(rnd.randint(0, 2))]
        ids = [f"s{i}" for i in range(len(sets))]
    else:
        work = random_workload(rnd, most_events=0)
        program, sets, ids = work.program, work.tags, work.stream_ids
    machines = [Machine(f"m{i}", rnd.randint(1, 3)) for i in range(rnd.randint(1, 3))]
    streams = [_stream(rnd, name, tags, machines) for name, tags in zip(ids, sets, strict=True)]
    return program, Topology(streams, machines)


def _stream(rnd: random.Random, name: str, tags: TagSet, machines: list[Machine]) -> Stream:
    known = [tag for tag in sampled(tags) if rnd.random() < 0.5]
    rates = {tag: float(rnd.choice([1, 1, 5, 50, 300])) for tag in known}
    location = rnd.choice([None, "elsewhere", *(machine.id for machine in machines)])
    return Stream(name, tags, rates, rnd.choice([0.0, 20.0]), location)


def instances() -> st.SearchStrategy[tuple[Program, Topology]]:
    return st.builds(random_instance, st.randoms(use_true_random=False))


def sampled(tags: TagSet) -> list[Tag]:
    """Return the tags of a finite set; of an infinite one, some of each kind."""
    some = [Tag(kind, key) for kind, _ in tags.kinds for key in (None, *range(12), "x")]
    return [*dict.fromkeys([*tags.tags(), *(tag for tag in some if tag in tags)])]


def faults(plan: Plan, program: Program, topology: Topology) -> Iterator[str]:
    """Yield the violations of a plan by the text of Definition 3.2, one (sampled) implementation tag at a time."""
    itags = [ImplTag(tag, stream.id) for stream in topology.streams for tag in _looked_at(plan, stream)]
    owners = {itag: [node.id for node in plan.nodes() if itag in node.tags] for itag in itags}
    yield from (f"{itag} has owners {nodes}" for itag, nodes in owners.items() if len(nodes) != 1)
    above = {node.id: {node.id, *(other.id for other in plan.ancestors(node.id))} for node in plan.nodes()}
    for a in itags:
        for b in itags:
            if program.dependence(a.tag, b.tag):
                yield from (
                    f"{a} at {m} and {b} at {n}"
                    for m in owners[a]
                    for n in owners[b]
                    if m not in above[n] and n not in above[m]
                )
    for leaf in plan.leaves:
        if leaf is not plan.root and not any(leaf.id in nodes for nodes in owners.values()):
            yield f"{leaf.id} owns nothing"
    yield from _typing_faults(plan, program, itags)


def _looked_at(plan: Plan, stream: Stream) -> list[Tag]:
    """Return the sampled tags of a stream, and one for each node that owns keys of a kind without a sampled one."""
    looked_at = sampled(stream.tags)
    for node in plan.nodes():
        mine = node.tags.stream(stream.id) & stream.tags
        for kind, keys in mine.kinds:
            if keys and not any(tag.kind == kind and tag in mine for tag in looked_at):
                more = (Tag(kind, key) for key in range(100_000))
                looked_at.append(next(tag for tag in more if tag in mine))
    return looked_at


def _typing_faults(plan: Plan, program: Program, itags: list[ImplTag]) -> Iterator[str]:
    handles = {state.name: state.handles for state in program.states()}
    forks = {fork.name: fork for fork in program.fork_joins()}

    def of_side(node: PlanNode, side: int | ForkStep, expected: str) -> Iterator[str]:
        children = [node.children[i] for i in ([side] if isinstance(side, int) else side.leaves())]
        below = [i.tag for i in itags if any(i in other.tags for child in children for other in child.walk())]
        yield from (f"{expected} in {node.id} cannot do {t}" for t in below if t not in handles[expected])
        if isinstance(side, int):
            if children[0].state_type != expected:
                yield f"{children[0].id} should be {expected}"
            return
        if forks[side.fork].parent != expected:
            yield f"fork {side.fork} of {node.id} is not from {expected}"
        yield from of_side(node, side.left, forks[side.fork].left)
        yield from of_side(node, side.right, forks[side.fork].right)

    if plan.root.state_type != program.states()[0].name:
        yield "the root has the wrong type"
    for node in plan.nodes():
        yield from (
            f"{node.id} cannot do {i}"
            for i in itags
            if i in node.tags and i.tag not in handles[node.state_type]
        )
        if node.children:
            assert sorted(node.fork_tree.leaves()) == list(range(len(node.children)))
            yield from of_side(node, node.fork_tree, node.state_type)
        if program.has_derived_fork:
            several = [
                c.id
                for c in node.children
                if any(
                    i in n.tags and i.tag.kind not in program.accumulating for n in c.walk() for i in itags
                )
            ]
            if len(several) > 1:
                yield f"the derived fork of {node.id} cannot serve {several}"
