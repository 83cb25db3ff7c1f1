"""Lanes partition every worker's tags, and tags share a lane only if no other worker tells them apart."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import Tag, kind
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.lanes import Lanes, Router
from tests.strategies import random_workload
from tests.workers.simulated.test_simulation import random_plan

VIEW, UPDATE, OTHER = kind("view", key=str), kind("update", key=str), kind("other")
BY_KEY = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))


@given(st.integers(0, 10**6))
def test_lanes_partition_the_tags_of_every_worker_and_stream(seed):
    work = random_workload(random.Random(seed))
    plan = random_plan(work, seed)
    lanes = Lanes(plan, work.program.dependence)
    for node in plan.nodes():
        for stream, tags in node.tags:
            mine = [lane.tags for lane in lanes.of(node.id) if lane.stream == stream]
            assert union(mine) == tags
            assert all(a.isdisjoint(b) for i, a in enumerate(mine) for b in mine[i + 1 :])


@given(st.integers(0, 10**6))
def test_lanes_of_a_leaf_wait_for_each_other_as_their_tags_depend(seed):
    work = random_workload(random.Random(seed))
    plan = random_plan(work, seed)
    lanes = Lanes(plan, work.program.dependence)
    for leaf in plan.leaves:
        ordered = lanes.ordered(leaf.id)
        for i, others in ordered.items():
            for j in ordered:
                depend = work.program.dependence.between(lanes.all[i].tags, lanes.all[j].tags)
                assert i == j or (j in others) == depend


@given(st.integers(0, 10**6))
def test_tags_of_one_lane_depend_on_the_same_lanes_of_other_workers(seed):
    work = random_workload(random.Random(seed))
    plan = random_plan(work, seed)
    depends = work.program.dependence
    lanes = Lanes(plan, depends)
    for node in plan.nodes():
        theirs = [lane.tags for lane in lanes.above(node.id)]
        for lane in lanes.of(node.id):
            mine = [TagSet.of(tag) for tag in lane.tags.tags()]
            assert len({tuple(depends.between(one, other) for other in theirs) for one in mine}) <= 1


def test_a_relation_given_as_a_function_has_the_lanes_of_its_rules():
    """Rooms in houses: `same house` is a predicate of two keys, and reports of a house are ordered with all of its rooms."""
    rooms, house = [f"h{h}r{r}" for h in range(3) for r in range(5)], kind("house", key=("h0", "h1", "h2"))
    read = kind("read", key=rooms)
    depends = Dependence((house, read, lambda a, b: a.key == b.key[:2]), (house, house, SAME_KEY))
    reads, houses = TagSet.of(read), TagSet.of(house)
    one = Plan(PlanNode("w0", ImplTagSet.of(reads=reads, houses=houses)))
    assert [lane.tags for lane in Lanes(one, depends).all] == [houses, reads]
    by_house = [TagSet.of(*(read(room) for room in rooms if room[:2] == h)) for h in ("h0", "h1", "h2")]
    below = tuple(PlanNode(f"w{i}", ImplTagSet.of(**{f"reads/{i}": reads})) for i in range(1, 3))
    apart = Lanes(Plan(PlanNode("w0", ImplTagSet.of(houses=houses), children=below)), depends)
    assert [lane.tags for lane in apart.of("w1")] == by_house
    assert [lane.tags for lane in apart.of("w0")] == [TagSet.of(house(h)) for h in ("h0", "h1", "h2")]


def test_lanes_of_one_worker_keep_all_keys_of_a_kind_together():
    plan = Plan(PlanNode("w0", ImplTagSet.of(views=TagSet.of(VIEW), updates=TagSet.of(UPDATE))))
    assert [lane.tags for lane in Lanes(plan, BY_KEY).all] == [TagSet.of(UPDATE), TagSet.of(VIEW)]


def test_lanes_of_kinds_with_different_partners_are_apart():
    """`other` must not wait for views, although it arrives on the stream of the updates."""
    tags = ImplTagSet.of(views=TagSet.of(VIEW), mixed=TagSet.of(UPDATE, OTHER))
    lanes = Lanes(Plan(PlanNode("w0", tags)), BY_KEY)
    assert {lane.tags for lane in lanes.all} == {TagSet.of(UPDATE), TagSet.of(VIEW), TagSet.of(OTHER)}


def test_lanes_at_a_parent_are_connected_through_its_subtree():
    """R6: two increments of the root are ordered because the reads below depend on both."""
    inc, read = kind("inc", key=(0, 1)), kind("read", key=(0, 1))
    depends = Dependence((inc, read, SAME_KEY), (read, read, SAME_KEY))
    leaves = (
        PlanNode("r", ImplTagSet.of(r=TagSet.of(read(0)))),
        PlanNode("x", ImplTagSet.of(x=TagSet.of(read(1)))),
    )
    root = PlanNode(
        "root", ImplTagSet.of(a=TagSet.of(inc(0)), b=TagSet.of(inc(0)), c=TagSet.of(inc(1))), children=leaves
    )
    lanes = Lanes(Plan(root), depends)
    a, b, c = (next(lane.id for lane in lanes.all if lane.stream == s) for s in "abc")
    assert lanes.ordered("root") == {a: (b,), b: (a,), c: ()}


def test_router_finds_the_lane_of_unseen_keys():
    plan = Plan(PlanNode("w0", ImplTagSet.of(views=TagSet.of(VIEW))))
    router = Router(Lanes(plan, BY_KEY))
    assert router.lane("views", VIEW("never seen")) == 0
    assert router.lane("views", Tag("update", "a")) is None
    assert router.lane("elsewhere", VIEW("a")) is None
