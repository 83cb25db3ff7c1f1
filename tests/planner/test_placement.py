"""Placement: workers go near their inputs, within the available CPUs, and evenly over host processes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.optimizers.by_name import plan
from dgs.planner.placement import assign_hosts, placed
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.topology import Machine, Stream, Topology, node_rates, shares, totals
from tests.planner.instances import instances

VALUE, VIEW = kind("value"), kind("view", key=str)


def flat(count):
    leaves = [PlanNode(f"l{i}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE)})) for i in range(count)]
    return Plan(PlanNode("root", ImplTagSet(), children=tuple(leaves)))


def arriving(*locations, rate=10.0):
    return [
        Stream(f"v{i}", TagSet.of(VALUE), other_rate=rate + i, location=place)
        for i, place in enumerate(locations)
    ]


def machines_of(made):
    return [node.node for node in made.nodes()]


def test_leaves_are_placed_where_their_events_arrive_and_parents_with_the_heaviest():
    topology = Topology(arriving("a", "b", "b", "a"), [Machine("a", 2), Machine("b", 2)])
    assert machines_of(placed(flat(4), topology)) == ["a", "a", "b", "b", "a"]


def test_a_full_machine_passes_leaves_on():
    topology = Topology(arriving("a", "a", "a", "a"), [Machine("a", 1), Machine("b", 3)])
    assert Counter(machines_of(placed(flat(4), topology))[1:]) == {"a": 1, "b": 3}


def test_unknown_locations_do_not_matter():
    topology = Topology(arriving("moon", None), [Machine("a"), Machine("b")])
    assert sorted(machines_of(placed(flat(2), topology))[1:]) == ["a", "b"]


def test_one_machine_is_not_named():
    assert machines_of(placed(flat(2), Topology(arriving("a", "a"), [Machine("a")]))) == [None, None, None]


def test_hosts_are_balanced_by_rate():
    hosts = assign_hosts(
        flat(4), 2, {f"l{i}": {f"v{i}": rate} for i, rate in enumerate([9.0, 1.0, 9.0, 1.0])}
    )
    assert hosts["l0"] != hosts["l2"]


def test_neighbours_share_a_host_where_that_costs_nothing():
    assert assign_hosts(flat(6), 2) == {"root": 0, "l0": 0, "l1": 0, "l2": 0, "l3": 1, "l4": 1, "l5": 1}


def placed_on_two(made, rates):
    return assign_hosts(made, 2, rates)


def pages(updates):
    """The plan of a page-view join: two pages, each over two leaves with two of four streams of views, and its rates."""
    subtrees, rates = [], {"root": {}}
    for page in "ab":
        leaves = []
        for half in range(2):
            tags = TagSet.of(VIEW(page))
            leaves.append(PlanNode(f"{page}{half}", ImplTagSet.of({f"v{i}": tags for i in (half, half + 2)})))
            rates[f"{page}{half}"] = {f"v{i}": 1.0 for i in (half, half + 2)}
        rates[page] = {"updates": updates}
        subtrees.append(PlanNode(page, ImplTagSet(), children=tuple(leaves)))
    return Plan(PlanNode("root", ImplTagSet(), children=tuple(subtrees))), rates


def test_leaves_that_share_streams_share_a_host_where_events_are_many():
    hosts = placed_on_two(*pages(updates=1e-5))
    assert hosts["a0"] == hosts["b0"] != hosts["a1"] == hosts["b1"]


def test_leaves_that_synchronise_often_share_a_host():
    hosts = placed_on_two(*pages(updates=0.1))
    assert hosts["a0"] == hosts["a1"] != hosts["b0"] == hosts["b1"]


@pytest.mark.parametrize(("leaves", "heavy"), [(1, 1.0), (3, 1e9)])
def test_one_worker_or_one_that_has_nearly_all_events_is_on_the_first_host(leaves, heavy):
    rates = {f"l{i}": {f"v{i}": heavy if i == leaves // 2 else 1e-9} for i in range(leaves)}
    made = flat(leaves) if leaves > 1 else Plan(PlanNode("l0", ImplTagSet()))
    home = assign_hosts(made, 8, rates)
    assert home["l0"] == 0
    assert {*home.values()} == {*range(len({*home.values()}))}


@pytest.mark.parametrize("busy", ["l0", "l1"])
def test_a_leaf_that_waits_for_events_is_not_on_the_host_of_the_one_with_all_events(busy):
    home = assign_hosts(flat(2), 2, {busy: {"v": 100.0}})
    assert home["l0"] != home["l1"]


def test_more_hosts_than_leaves_leave_some_idle():
    assert set(assign_hosts(flat(2), 5).values()) <= set(range(5))


@settings(max_examples=30, deadline=None)
@given(instances(), st.integers(0, 10**6), st.integers(1, 4))
def test_every_node_has_a_host_and_parents_follow_a_child(instance, seed, count):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)
    hosts = assign_hosts(made, count, node_rates(made, topology.streams))
    assert set(hosts) == {node.id for node in made.nodes()}
    assert set(hosts.values()) <= set(range(count))
    for node in made.nodes():
        if node.children:
            assert hosts[node.id] in {hosts[child.id] for child in node.children}


@settings(max_examples=30, deadline=None)
@given(instances(), st.integers(0, 10**6))
def test_rates_of_nodes_add_up_to_those_of_known_tags(instance, seed):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)
    known = sum(sum(stream.rates.values()) for stream in topology.streams)
    most = known + sum(stream.other_rate for stream in topology.streams)
    assert known - 1e-6 <= sum(totals(node_rates(made, topology.streams)).values()) <= most + 1e-6


def test_hash_classes_share_the_rate_of_unknown_keys():
    quarter = ImplTagSet.of({"s": TagSet.from_kinds({"view": KeySet.hashed(4, [1])})})
    rest = ImplTagSet.of({"s": TagSet.of(VIEW)}) - quarter
    made = Plan(PlanNode("r", ImplTagSet(), children=(PlanNode("q", quarter), PlanNode("o", rest))))
    found = node_rates(made, [Stream("s", TagSet.of(VIEW), other_rate=100.0)])
    assert found["q"]["s"] == pytest.approx(25.0)
    assert found["o"]["s"] == pytest.approx(75.0)


CUTS = st.builds(
    lambda modulus, classes, keys: KeySet.hashed(modulus, {c % modulus for c in classes}) | KeySet.of(keys),
    st.sampled_from([1, 2, 3, 4, 12]),
    st.frozensets(st.integers(0, 11), max_size=6),
    st.frozensets(st.integers(0, 30), max_size=4),
)
"""Sets of keys: hash classes and single keys."""


@given(st.lists(CUTS, max_size=6), st.dictionaries(st.integers(0, 30), st.floats(0.5, 50.0)), st.booleans())
def test_each_tag_counts_for_the_owner_whose_set_it_is_in(cuts, rates, has_others):
    rest, owners = KeySet.all(), {}
    for i, cut in enumerate(cuts):
        owners[i] = TagSet.from_kinds({"view": cut & rest})
        rest = rest - cut
    if has_others:
        owners["rest"] = TagSet.from_kinds({"view": rest}, others=True)
    tags = [VIEW(key) for key in rates] + [VALUE()]
    known = dict(zip(tags, [*rates.values(), 7.0], strict=True))
    expected = {
        owner: pytest.approx(rate)
        for owner, mine in owners.items()
        if (rate := sum(rate for tag, rate in known.items() if tag in mine))
    }
    assert shares(Stream("s", TagSet.everything(), known), owners) == expected


def test_owner_of_a_key_is_not_sought_among_all_owners(monkeypatch):
    sought, contains = Counter(), KeySet.__contains__

    def counting(keys, key):
        sought[key] += 1
        return contains(keys, key)

    owners = {i: TagSet.from_kinds({"view": KeySet.hashed(100, [i])}) for i in range(100)}
    stream = Stream("s", TagSet.of(VIEW), {VIEW(f"k{i}"): 1.0 for i in range(300)})
    monkeypatch.setattr(KeySet, "__contains__", counting)
    found = shares(stream, owners)
    assert sum(found.values()) == pytest.approx(300.0)
    assert sought.total() <= 300
