"""Plans of every optimizer for any program and streams: valid, bounded, and deterministic."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import NoPlanError, UsageError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.key_sets import KeySet
from dgs.model.program import Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.drawing.text import as_text
from dgs.planner.optimizers import atoms, cheapest
from dgs.planner.optimizers.by_name import OPTIMIZERS, plan
from dgs.planner.prediction.costs import Costs
from dgs.planner.topology import Machine, Stream, Topology
from dgs.planner.validity import violations
from tests.planner.instances import faults, instances, random_instance

VALUE, BARRIER, VIEW, UPDATE = kind("value"), kind("barrier"), kind("view", key=str), kind("update", key=str)


class Copying(Program):
    def fork(self, state, left, right):
        return state, state

    def join(self, left, right):
        return left


class Window(Copying):
    depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS))


class Join(Copying):
    depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))


def windows(count, cpus=8):
    values = [Stream(f"v{i:02}", TagSet.of(VALUE), other_rate=100.0) for i in range(count)]
    return Topology([Stream("b", TagSet.of(BARRIER), other_rate=1.0), *values], [Machine("m", cpus)])


@settings(max_examples=75, deadline=None)
@given(instances(), st.sampled_from(sorted(OPTIMIZERS)), st.integers(0, 10**6))
def test_plan_is_valid_tag_by_tag(instance, name, seed):
    program, topology = instance
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheapest, "MOST_TREES", 30)
        try:
            made = plan(program, topology, name=name, seed=seed)
        except UsageError as error:
            assert (name, "use the optimizer cost" in str(error).lower()) == ("exhaustive", True)  # noqa: PT017
            return
    assert list(faults(made, program, topology)) == []


@settings(max_examples=50, deadline=None)
@given(
    instances(),
    st.sampled_from(["cost", "exhaustive", "greedy", "random"]),
    st.integers(1, 9),
    st.integers(2, 4),
)
def test_plan_keeps_its_bounds(instance, name, max_leaves, max_fan_out):
    program, topology = instance[0], replace(instance[1], hosts=8)
    bounds, dear = {"max_leaves": max_leaves, "max_fan_out": max_fan_out}, Costs(update=1e-2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheapest, "MOST_TREES", 300)
        try:
            made = plan(program, topology, name=name, costs=dear, **bounds)
        except UsageError:
            assert name == "exhaustive"
            return
    assert len(made.leaves) <= max_leaves
    assert [node.id for node in made.nodes()] == [f"w{i}" for i in range(len(made))]
    if len(program.states()) == 1:
        assert all(len(node.children) <= max_fan_out for node in made.nodes())


@pytest.mark.parametrize(("bounds", "leaves"), [({"max_leaves": 2}, 2), ({"max_fan_out": 2}, 4), ({}, 4)])
def test_exhaustive_takes_the_best_plan_within_its_bounds(bounds, leaves):
    topology = Topology(windows(4).streams, [Machine("m", 4)], hosts=4)
    made = plan(Window(), topology, name="exhaustive", costs=Costs(update=1e-3), **bounds)
    assert len(made.leaves) == leaves
    assert max(len(node.children) for node in made.nodes()) <= bounds.get("max_fan_out", 4)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_plan_without_fork_is_one_worker(name):
    class Plain(Program):
        depends = Dependence()

    made = plan(Plain(), windows(3), name=name, max_leaves=4)
    assert len(made) == 1
    assert made.root.tags == windows(3).impl_tags()


def test_plan_names_its_optimizer():
    assert plan(Window(), windows(2), name="random").optimizer == "random"


def test_plan_refuses_an_unknown_optimizer():
    with pytest.raises(UsageError, match="cost, exhaustive, greedy, random, sequential"):
        plan(Window(), windows(2), name="fast")


def test_plan_fails_when_no_worker_could_do_everything():
    class Partial(Copying):
        def states(self):
            return (StateType("state", TagSet.of(VALUE), max),)

    with pytest.raises(NoPlanError, match=r"no state type handles .*barrier"):
        plan(Partial(), windows(2))


def test_greedy_puts_the_barrier_above_the_values():
    made = plan(Window(), windows(5))
    assert made.root.tags.tags() == TagSet.of(BARRIER)
    assert [leaf.tags.tags() for leaf in made.leaves] == [TagSet.of(VALUE)] * 5


def test_greedy_puts_the_barrier_above_the_values_when_no_rate_is_known():
    streams = [Stream(stream.id, stream.tags) for stream in reversed(windows(5).streams)]
    made = plan(Window(), Topology(streams, [Machine("m", 8)]))
    assert made.root.tags.tags() == TagSet.of(BARRIER)


def test_greedy_has_as_many_leaves_as_there_are_cpus():
    assert len(plan(Window(), windows(30, cpus=6)).leaves) == 6


def test_greedy_balances_a_flat_tree():
    made = plan(Window(), windows(60), max_leaves=60, max_fan_out=4)
    assert len(made.leaves) == 60
    assert made.depth == 4


def test_greedy_divides_unbounded_keys_by_their_hash():
    updates = Stream("u", TagSet.of(UPDATE), other_rate=10.0)
    views = Stream("v", TagSet.of(VIEW), other_rate=1000.0)
    made = plan(Join(), Topology([updates, views], [Machine("m", 4)]))
    assert len(made.leaves) == 4
    for leaf in made.leaves:
        assert leaf.tags.stream("u").keys("update") == leaf.tags.stream("v").keys("view")


def test_greedy_pulls_a_hot_key_out_and_spreads_its_views():
    updates = Stream("u", TagSet.of(UPDATE), rates={UPDATE("home"): 1.0})
    views = [Stream(f"v{i}", TagSet.of(VIEW), rates={VIEW("home"): 900.0}, other_rate=10.0) for i in range(2)]
    made = plan(Join(), Topology([updates, *views], [Machine("m", 4)]))
    owners = {i: next(n for n in made.nodes() if VIEW("home") in n.tags.stream(f"v{i}")) for i in range(2)}
    (update,) = (n for n in made.nodes() if UPDATE("home") in n.tags.stream("u"))
    assert owners[0].id != owners[1].id
    assert update.id in {node.id for node in made.ancestors(owners[0].id)}
    assert VIEW("other") not in owners[0].tags.stream("v0")


def test_unknown_kinds_stay_together():
    streams = [Stream("any", TagSet.everything(), other_rate=5.0), *windows(2).streams]
    made = plan(Window(), Topology(streams, [Machine("m", 4)]))
    assert violations(made, Window(), Topology(streams)) == []
    assert sum(bool(node.tags.stream("any")) for node in made.nodes()) == 1


def test_random_plans_take_every_shape():
    topology = windows(6)
    plans = [plan(Window(), topology, name="random", seed=seed) for seed in range(150)]
    value, barrier = TagSet.of(VALUE), TagSet.of(BARRIER)
    assert {len(made.leaves) for made in plans} >= {1, 2, 3, 4}
    assert {made.depth for made in plans} >= {1, 2, 3}
    assert any(len(made.root.tags.streams) > 2 and made.root.children for made in plans), (
        "root owns independent tags"
    )
    inner = [node for made in plans for node in made.nodes() if node.children and node is not made.root]
    assert any(node.tags.tags() == value for node in inner), (
        "an inner node owns tags independent of its subtree"
    )
    assert any(not node.tags for node in inner), "a grouping"
    assert any(node.tags.tags() & barrier for made in plans for node in made.leaves if len(made) == 1)


def test_random_plans_are_equal_for_equal_seeds():
    program, topology = random_instance(random.Random(3))
    made = {as_text(plan(program, topology, name="random", seed=11)) for _ in range(3)}
    assert len(made) == 1


PRINT_PLANS = """
import random
from tests.planner.instances import random_instance
from dgs.planner.optimizers import cheapest
from dgs.planner.optimizers.by_name import plan
from dgs.planner.plan_data import to_data
for seed in range(6):
    program, topology = random_instance(random.Random(seed))
    for name in ("greedy", "random"):
        print(to_data(plan(program, topology, name=name, seed=seed)))
"""


def test_plans_do_not_depend_on_the_hash_seed():
    printed = [
        subprocess.run(
            [sys.executable, "-c", PRINT_PLANS],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    ]
    assert printed[0] == printed[1]
    assert printed[0].count("\n") == 12


@given(
    st.frozensets(st.integers(-50, 50)),
    st.frozensets(st.integers(0, 20)),
    st.integers(1, 12),
    st.data(),
)
def test_keys_of_a_domain_in_hash_classes_are_the_intersection(lacking, extra, modulus, data):
    classes = data.draw(st.lists(st.integers(0, modulus - 1), min_size=1, unique=True))
    all_but_some = KeySet.all() - KeySet.of(lacking)
    few = KeySet.hashed(2, [0]) | KeySet.of(extra)
    for domain in (all_but_some, few):
        assert atoms._in_classes(domain, modulus, classes) == domain & KeySet.hashed(modulus, classes)


def views(machines, keys=()):
    """Return updates and views of unbounded keys, of which some have half of the events."""
    some = {key: 50.0 / len(keys) for key in keys}
    updates = Stream("u", TagSet.of(UPDATE), {UPDATE(key): rate for key, rate in some.items()}, 50.0)
    return Topology([updates, Stream("v", TagSet.of(VIEW), other_rate=100.0)], [Machine("m", machines)])


@pytest.mark.parametrize("keys", [(), ("a", "b"), tuple(f"k{i}" for i in range(200))])
@pytest.mark.parametrize("most", [2, 9, 50, 400])
def test_coarse_atoms_are_few_for_any_number_of_machines(keys, most):
    few, many = (atoms.coarse_atoms(views(machines, keys), Join(), most=most) for machines in (2, 1000))
    assert few == many
    assert most / 4 <= len(few) <= most


def test_there_are_no_coarse_atoms_without_unbounded_keys_or_of_too_many_streams():
    assert atoms.coarse_atoms(windows(9), Window(), most=1000) == []
    assert atoms.coarse_atoms(views(4), Join(), most=1) == []
