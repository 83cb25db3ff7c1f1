"""Synchronisations after long other work: the caches of the core then hold other code and data."""

from __future__ import annotations

import pytest

import dgs
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Predictor
from dgs.planner.topology import Machine, Stream, Topology

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Forking(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


def more_per_barrier(values, hosts):
    """Return the seconds per barrier that values do not explain, with `values` of 10 us in each leaf between two barriers."""
    leaves = tuple(PlanNode(f"leaf{i}", ImplTagSet.of({f"values{i}": TagSet.of(VALUE)})) for i in range(2))
    plan = Plan(PlanNode("root", ImplTagSet.of(barriers=TagSet.of(BARRIER)), children=leaves))
    streams = [Stream("barriers", TagSet.of(BARRIER), {BARRIER(): 1.0})]
    streams += [Stream(f"values{i}", TagSet.of(VALUE), {VALUE(): values}) for i in range(2)]
    topology = Topology(streams, [Machine("here", cpus=2)], hosts=hosts)
    costs = Costs(kinds={"value": 10e-6, "barrier": 0.0}, hop=0.0)
    found = Predictor(Forking(), topology, costs).predict(plan)
    return (1 + 2 * values) / found.throughput - 2 / hosts * values * 10e-6


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_synchronisation_takes_longer_after_long_work_up_to_a_bound(hosts):
    often, seldom, rare = (more_per_barrier(values, hosts) for values in (10.0, 1000.0, 10_000.0))
    assert seldom > 1.5 * often
    assert seldom < rare < 4 * often
