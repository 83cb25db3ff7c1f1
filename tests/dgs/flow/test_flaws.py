"""The flaws of the paper on data-trace types, D1 to D7 of the design, each with the behaviour here. Those of PiCo: tests/dgs/pico."""

import math
import random
from collections import Counter

import pytest

import dgs
from dgs.flow import FlowError, KeyedOrdered, KeyedUnordered, every, flow
from dgs.flow.building import Edge
from dgs.flow.flow_program import FINAL
from dgs.monoids import COUNT, SUM, SUM_EXACT, AllOf, FieldOf
from dgs.testing import run_plans
from tests.dgs.flow import flows
from tests.dgs.flow.published import named

(Interpolate,) = named("smart_home/flows.py", "Interpolate")
FLOATS = [(ts, {"key": "k", "value": value}) for ts, value in enumerate([1e16, 1.0, -1e16, 0.1, 3.0, 1e-9])]


class MaxOfMeans(KeyedUnordered):
    """The published `maxOfAvgPerID`: the greatest mean of a block so far."""

    monoid = AllOf(total=SUM, count=COUNT)

    def initial_state(self):
        return -math.inf

    def update_state(self, state, found):
        return max(state, found["total"] / found["count"])

    def on_marker(self, state, key, at, emit):
        emit(key, [at, key, state])


class MaxOfSeenMeans(MaxOfMeans):
    """The same, but a block without items changes nothing."""

    def update_state(self, state, found):
        return super().update_state(state, found) if found["count"] else state


def keyed(rows):
    return rows.key_by("key").map(lambda _, row: row["value"])


def test_d1_a_state_that_an_empty_block_spoils_is_found_before_a_run():
    @flow(clock=every(10))
    def greatest(rows, *, template):
        return keyed(rows).apply(template)

    with pytest.raises(FlowError) as caught:
        greatest.bind(template=MaxOfMeans()).types()
    assert caught.value.codes == ["F20"]
    rows = [(1, {"key": "a", "value": 4}), (25, {"key": "b", "value": 2})]
    found = greatest.bind(template=MaxOfSeenMeans()).denote({"rows": rows})
    assert found == [[10, "a", 4.0], [20, "a", 4.0], [30, "a", 4.0], [30, "b", 2.0]]


def test_d2_a_sort_does_not_show_in_which_order_ties_of_a_bag_came():
    @flow(clock=every(10))
    def first_of_each(rows):
        bags = rows.pairs(lambda _, row: (row[0], row[1:]))
        return bags.sort(by=0).fold(lambda seen, row: seen or row, ())

    rows = [("k", 5, "x"), ("k", 3, "z"), ("k", 3, "y"), ("l", 3, "q"), ("l", 3, "p")]
    found = set()
    for seed in range(20):
        inputs = {"rows": [(1, row) for row in random.Random(seed).sample(rows, len(rows))]}
        outputs = [output.value for output in flows.run(first_of_each.compiled(), inputs, [FINAL]).outputs]
        assert outputs == first_of_each.denote(inputs)
        found.add(tuple(outputs))
    assert found == {((3, "y"), (3, "p"))}


@flow(clock=every(10))
def interpolated(readings, *, hold=False, keeps=False, accept_parts=False):
    """Return how many plugs have a load at each instant: [end of the block, instant, plugs]."""
    points = readings.key_by("plug").each(lambda _, row, at: (at, row["load"])).sort(by=0)
    filled = points.apply(Interpolate(hold=hold), keeps=keeps).pairs(lambda _, point: (point[0], 1))
    return filled.aggregate(COUNT, accept_parts=accept_parts).each(lambda t, plugs, at: [at, t, plugs])


def test_d3_points_older_than_their_block_are_refused_unless_parts_are_accepted():
    with pytest.raises(FlowError) as caught:
        interpolated.bind().types()  # a flow keeps the result of its first check
    assert caught.value.codes == ["F09"]
    readings = [
        (ts, {"plug": plug, "load": 5}) for ts, plug in [(7, "p"), (8, "q"), (9, "q"), (12, "p"), (12, "q")]
    ]
    parts = interpolated.bind(accept_parts=True).denote({"readings": readings})
    assert [row for row in parts if row[1] in {8, 9}] == [[10, 8, 1], [10, 9, 1], [20, 8, 1], [20, 9, 1]]
    held = interpolated.bind(hold=True, keeps=True).denote({"readings": readings})
    assert [row for row in held if row[1] in {8, 9}] == [[10, 8, 2], [10, 9, 2]]
    assert max(Counter(instant for _, instant, _ in held).values()) == 1


def test_d4_dealing_out_is_a_matter_of_a_stream_and_no_step():
    @flow(clock=every(10))
    def totals(rows):
        return keyed(rows).aggregate(SUM).each(lambda key, total, at: [at, key, total])

    rows = [(ts, {"key": "abc"[ts % 3], "value": ts}) for ts in range(45)]
    for split in (1, 2, 5):
        settings = {"streams.rows.split": split, "optimizer.name": "random", "optimizer.seed": split}
        assert sorted(dgs.run(totals, streams={"rows": rows}, settings=settings).outputs) == totals.denote(
            {"rows": rows}
        )
    assert not {"split", "shuffle", "round_robin", "rebalance"}.intersection(dir(Edge))


class Markers(KeyedOrdered):
    """Emits the number of markers that a key has seen."""

    def initial_state(self):
        return 0

    def on_item(self, state, key, value, emit):
        emit([key, state])
        return state

    def on_marker(self, state, key, at, emit):
        return state + 1


def test_d5_a_late_key_of_an_ordered_step_starts_from_its_first_state():
    @flow(clock=every(10))
    def seen(rows):
        return keyed(rows).apply(Markers())

    rows = [(ts, {"key": key, "value": 0}) for ts, key in [(1, "a"), (35, "a"), (36, "b"), (41, "b")]]
    expected = [["a", 0], ["a", 3], ["b", 0], ["b", 1]]
    assert seen.denote({"rows": rows}) == expected
    assert sorted(dgs.run(seen, streams={"rows": rows}).outputs) == expected


@flow()
def float_sums(rows, *, monoid):
    return rows.key_by("key").aggregate(FieldOf(monoid, "value"))


def test_d6_joins_of_floats_have_the_same_bits_in_every_order_with_exact_sums():
    def joined(monoid, order):
        states = [monoid.lift(row["value"]) for _, row in order]
        total = monoid.identity()
        for state in states:
            total = monoid.join(total, state)
        return monoid.result(total)

    orders = [random.Random(seed).sample(FLOATS, len(FLOATS)) for seed in range(20)]
    assert len({joined(SUM, order) for order in orders}) > 1
    assert {joined(SUM_EXACT, order) for order in orders} == {math.fsum(row["value"] for _, row in FLOATS)}


def test_d6_a_flow_of_exact_sums_does_not_depend_on_the_plan():
    def tried(monoid):
        made = float_sums.bind(monoid=monoid).compiled()
        run_plans(made.program, made.streams({"rows": FLOATS}), 20)  # compares outputs exactly

    tried(SUM_EXACT)
    with pytest.raises(AssertionError):
        tried(SUM)


def test_d7_ids_of_outputs_depend_on_block_and_key_only():
    @flow(clock=every(10))
    def counts(rows):
        return rows.key_by("key").aggregate(COUNT, idle="all").each(lambda key, n, at: [at, key, n])

    rows = [(ts, {"key": "abc"[ts % 3], "value": ts}) for ts in (3, 4, 5, 14, 38)]
    runs = [
        flows.run(counts.compiled(), {"rows": rows}, ticks)
        for ticks in ([FINAL], [10, 20, 30, FINAL], [20, FINAL], [5, 15, 35, FINAL])
    ]
    found = [[(*one.key[:3], str(one.tag), one.index, str(one.value)) for one in run.outputs] for run in runs]
    assert all(sorted(one) == sorted(found[0]) for one in found)
    assert len({one[:-1] for one in found[0]}) == len(found[0]) == 12
    later = [*rows[:-1], (37, {"key": "d", "value": 0}), *rows[-1:]]
    more = flows.run(counts.compiled(), {"rows": later}, [FINAL]).outputs
    assert {one for one in found[0] if one[0] <= 30} <= {
        (*one.key[:3], str(one.tag), one.index, str(one.value)) for one in more
    }
