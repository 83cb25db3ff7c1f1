"""The reason why a plan has one worker, in one phrase; nothing for a plan with several."""

import re

import pytest

import dgs
from dgs.model.tag_sets import TagSet
from dgs.planner.drawing.explain import why_one_worker
from dgs.planner.optimizers.by_name import plan
from dgs.planner.topology import Machine, Stream, Topology

VALUE, BARRIER, OTHER = dgs.kind("value"), dgs.kind("barrier"), dgs.kind("other")
RULES = dgs.Dependence((BARRIER, VALUE, dgs.ALWAYS))


def method(*_):
    return 0


def made(**parts):
    return type(
        "Made", (dgs.Program,), {"init": method, "update": method, "kinds": (VALUE, BARRIER), **parts}
    )()


def streams(*parts, cpus=4):
    found = [Stream(f"s{i}", TagSet.of(tag), rates={tag(): 1.0}) for i, tag in enumerate(parts)]
    return Topology(found, [Machine("here", cpus=cpus)])


MANY = streams(BARRIER, VALUE, VALUE)
RARE_BARRIERS = Topology(
    [
        Stream("s0", TagSet.of(BARRIER), rates={BARRIER(): 1.0}),
        Stream("s1", TagSet.of(VALUE), rates={VALUE(): 9.0}),
    ],
    [Machine("here", cpus=4)],
)
FORKS = {"fork": method, "join": method, "depends": RULES}


@pytest.mark.parametrize(
    ("parts", "topology", "options", "reason"),
    [
        ({"depends": RULES}, MANY, {}, "neither `fork` nor `join`"),
        ({"depends": RULES, "fork": method}, MANY, {}, "`fork` but no `join`"),
        ({"depends": RULES, "join": method}, MANY, {}, "`join` but no `fork`, and no `accumulates`"),
        (
            {"depends": RULES, "join": method, "accumulates": (VALUE,)},
            MANY,
            {},
            "neither `identity` nor `fork`",
        ),
        (
            {"depends": RULES, "join": lambda *_: 1, "identity": method, "accumulates": (VALUE,)},
            MANY,
            {},
            "`identity` changes a state",
        ),
        ({"fork": method, "join": method}, MANY, {}, "gives no `depends`"),
        (FORKS, MANY, {"name": "sequential"}, "the optimizer `sequential`"),
        (FORKS, streams(VALUE), {}, "all events are value of stream 's0'"),
        (FORKS, MANY, {"max_leaves": 1}, "optimizer.max_leaves is 1"),
        (FORKS, streams(BARRIER, VALUE, VALUE, cpus=1), {}, "one CPU"),
        (FORKS, streams(BARRIER, VALUE), {}, "depend on each other"),
        (FORKS, RARE_BARRIERS, {}, "most events are value of stream 's1': `split` it"),
    ],
)
def test_reason_for_one_worker(parts, topology, options, reason):
    program = made(**parts)
    found = plan(program, topology, **options)
    assert len(found) == 1
    assert reason in why_one_worker(found, program, topology, most_leaves=options.get("max_leaves"))


def typed(**parts):
    """Return a program whose values and other events have states of their own."""
    handled = {"whole": TagSet.everything(), "values": TagSet.of(VALUE), "others": TagSet.of(OTHER)}
    states = tuple(dgs.StateType(name, tags, method) for name, tags in handled.items())
    forks = (dgs.ForkJoin("apart", "whole", "values", "others", method, method),)
    rules = dgs.Dependence((BARRIER, VALUE, dgs.ALWAYS), (BARRIER, OTHER, dgs.ALWAYS))
    given = {"states": lambda _: states, "fork_joins": lambda _: forks}
    return made(kinds=(VALUE, BARRIER, OTHER), depends=rules, **given, **parts)


@pytest.mark.parametrize("name", ["greedy", "cost"])
def test_state_types_that_fork_otherwise_are_the_reason(name):
    found = plan(typed(), MANY, name=name)
    assert "the forks of the state types allow" in why_one_worker(found, typed(), MANY)


def test_one_worker_is_compared_with_several_and_not_with_itself():
    """Most proposed trees fit no state types, and end as one worker, too."""
    topology = streams(BARRIER, VALUE, OTHER)
    reason = why_one_worker(plan(typed(), topology, name="cost"), typed(), topology)
    assert re.fullmatch(
        r"no other is predicted to be faster \(3 workers: \d+ times as slow as one worker, where .*\)", reason
    )


def test_several_workers_need_no_reason():
    program = made(**FORKS)
    assert why_one_worker(plan(program, MANY), program, MANY) is None


def test_without_any_rate_it_says_that_plans_cannot_be_compared():
    unknown = Topology(
        [Stream("s0", TagSet.of(BARRIER)), *(Stream(f"s{i}", TagSet.of(VALUE)) for i in (1, 2))],
        [Machine("here", cpus=4)],
    )
    program = made(**FORKS)
    found = plan(program, unknown, name="cost")
    assert "give `rate:`" in why_one_worker(found, program, unknown)
