"""Predicted costs of synchronisations: frames between hosts, caches that are cold after long other work, and stretches of one reading."""

from __future__ import annotations

import pytest

import dgs
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.monoids import SUM, Windows
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Predictor
from dgs.planner.prediction.traffic import BATCH_EVENTS
from dgs.planner.topology import Machine, Stream, Topology

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")
FREE = {"kinds": {"value": 0.0, "barrier": 0.0}, "read": 0.0, "stretch": 0.0, "piece": 0.0, "hop": 0.0}


class Forking(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


class Sums(Windows):
    """Folds whole windows at once."""

    monoid, accumulates, closes = SUM, (VALUE,), (BARRIER,)


def seconds(program, costs, *, values, children, home=None, barriers=1.0):
    """Return the seconds for the events of one second: a barrier above leaves with `values` each. `home`: the host of the root and of each leaf."""
    names = [f"leaf{i}" for i in range(children)]
    leaves = tuple(PlanNode(name, ImplTagSet.of({name: TagSet.of(VALUE)})) for name in names)
    plan = Plan(PlanNode("root", ImplTagSet.of(barriers=TagSet.of(BARRIER)), children=leaves))
    streams = [Stream("barriers", TagSet.of(BARRIER), {BARRIER(): barriers})]
    streams += [Stream(name, TagSet.of(VALUE), {VALUE(): values}) for name in names]
    placed = dict(zip(["root", *names], home or [0] * (children + 1), strict=True))
    topology = Topology(streams, [Machine("here", cpus=2)], hosts=1 + max(placed.values()))
    found = Predictor(program, topology, costs).predict(plan, placed)
    return (barriers + children * values) / found.throughput


def more_per_barrier(values, hosts):
    """Return the seconds per barrier that values do not explain, with `values` of 10 us in each of two leaves between two barriers."""
    costs = Costs(kinds={"value": 10e-6, "barrier": 0.0}, hop=0.0)
    found = seconds(Forking(), costs, values=values, children=2, home=[0, 0, hosts - 1])
    return found - 2 / hosts * values * 10e-6


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_synchronisation_takes_longer_after_long_work_up_to_a_bound(hosts):
    often, seldom, rare = (more_per_barrier(values, hosts) for values in (10.0, 1000.0, 10_000.0))
    assert seldom > 1.5 * often
    assert seldom < rare < 4 * often


def test_caches_are_cold_for_the_first_children_only():
    def cold(children):
        work = Costs(**FREE | {"kinds": {"value": 1e-3, "barrier": 0.0}}, fork=0.0, join=0.0)
        busy = seconds(Forking(), work, values=1000.0 / children, children=children)
        return busy - 1.0 - children * work.synchronisation

    assert cold(1) < 0.7 * cold(2)
    assert cold(8) == pytest.approx(cold(2), rel=0.01)


def test_all_children_on_one_other_host_are_asked_in_one_frame():
    dear = Costs(**FREE, message=1e-3, synchronisation=0.0, fork=0.0, join=0.0)
    one, many = (
        seconds(Forking(), dear, values=10.0, children=count, home=[0, *[1] * count], barriers=100.0)
        for count in (1, 6)
    )
    assert many == pytest.approx(one, rel=0.01)
    assert one > 100 * 2 * 1e-3  # there and back


def test_a_worker_that_accumulates_folds_each_reading_on_its_own():
    values = 100 * BATCH_EVENTS
    costs = Costs(**FREE, columns=0.0, column_kinds={"value": 0.0}, column_calls={"value": 1e-3}, call=0.0)
    assert seconds(Sums(), costs, values=values, children=2, barriers=0.001) > 2 * 99 * 1e-3
