"""Equal keys of different types, such as 1, 1.0 and True, are one key. Its form in the outputs does not depend on plan and order."""

import random

import numpy as np
import pandas as pd
import pytest

import dgs
from dgs.errors import UserCodeError
from dgs.flow import FlowError, KeyedOrdered, every, flow
from dgs.flow.batches import columnar
from dgs.flow.definition import Flow
from dgs.flow.flow_checks import checked
from dgs.flow.flow_program import FINAL
from dgs.flow.panes import count, sliding, tumbling
from dgs.monoids import COUNT, SUM
from dgs.testing import run_plans, simulate
from tests.dgs.flow import flows
from tests.selection import seeds

KEYS = [
    lambda key, v: [v % 2, float(v % 2), bool(v % 2), -0.0 if not v % 2 else 1.0][v // 2 % 4],
    lambda key, v: (v % 2, [v % 3, float(v % 3), v % 3 == 1][v // 3 % 3]),
    lambda key, v: v / 2,
    lambda key, v: v % 4 < 2,
]


def keeping(r, edge, clock):
    """Add a step with a state."""
    windows = [None, "history", sliding(30), tumbling(20), sliding(20, 30, allow_gaps=True)]
    over = r.choice(windows if clock is not None else windows[:2])
    steps = [
        lambda: edge.aggregate(r.choice([COUNT, SUM]), over=over, idle=r.choice(["all", "skip"])),
        lambda: edge.aggregate(SUM, over=over, idle=r.choice(["all", "skip"])),
        lambda: edge.sort(by=lambda k, v: v % 3, ties=r.choice([None, "value"])),
        lambda: edge.block(lambda k, vs, at: [sum(vs), len(repr(k))], accept_parts=True),
        lambda: edge.join(edge.key_by(r.choice(KEYS)), lambda k, a, b: a * 3 + b),
        lambda: edge.apply(flows.Counting(3)),
        lambda: edge.apply(flows.Totals(3)),
        lambda: folded(edge, r.choice([None, "history"])),
        lambda: edge.apply(flows.unordered(flows.Counting, clock, 5)(5)),
        lambda: edge.sort(by=lambda k, v: v % 3).apply(flows.Marking(3)),
        lambda: edge.sort(by=lambda k, v: v % 3).fold(lambda s, v: s * 3 + v, 1, over=count(2, 1)),
    ]
    return r.choice(steps)()


def folded(edge, over):
    """Fold items in their order, after a sort where they have none."""
    is_ordered = checked(edge.builder.finished(edge)).types[edge.node].order == "O"
    edge = edge if is_ordered else edge.sort(by=lambda k, v: v % 3)
    return edge.fold(lambda s, v: (s * 3 + v) % 1009, 1, over=over)


def case(seed):
    """Return a flow whose keys have many forms, with inputs."""
    r = random.Random(seed)
    clock = r.choice([every(10), every(10), None])

    def build(a, b):
        columns = None if r.random() < 0.5 else lambda key, v: v / 2
        ways = [
            lambda: a.key_by(r.choice(KEYS)),
            lambda: a.key_by(KEYS[2], columns=columns),
            lambda: a.pairs(lambda k, v: (float(v % 3), v)).merge(b.pairs(lambda k, v: (v % 3, v))),
            lambda: a.key_by(r.choice(KEYS)).merge(b.key_by(r.choice(KEYS))),
        ]
        edge = keeping(r, r.choice(ways)(), clock)
        if r.random() < 0.5:
            edge = keeping(r, edge.key_by(r.choice(KEYS)), clock)
        return edge.each(lambda key, v, at: [key, v, at])

    for _ in range(50):
        made = Flow("random", {"a": int, "b": int}, build, clock=clock)
        try:
            made.types()
        except FlowError:  # for example windows of windows
            continue
        break
    inputs = {
        name: sorted(((r.randint(0, 60), r.randint(0, 9)) for _ in range(20)), key=lambda e: e[0])
        for name in "ab"
    }
    return flows.Case(made, inputs, [*range(5, 90, r.choice([7, 90])), FINAL], r.randint(1, 4))


def values(run):
    return flows.counted(output.value for output in run.outputs)


def check(seeds):
    for seed in seeds:
        one = case(seed)
        assert values(one.run()) == one.means(), f"seed {seed}"
        if one.made.shape == "sum":
            found = flows.run_in_columns(one.made, one.inputs, one.ticks, random.Random(seed))
            assert flows.counted_codes(found) == one.means(), f"seed {seed}"


@seeds(150)
def test_the_form_of_a_key_does_not_depend_on_order_or_columns(monkeypatch, seeds):
    monkeypatch.setattr(columnar, "FEWEST", 0)
    check(seeds)


def test_the_form_of_a_key_does_not_depend_on_the_plan():
    for seed in range(25):
        one = case(seed)
        run_plans(one.made.program, one.streams(), 2, seed=seed)


def test_the_form_of_a_key_survives_a_resume():
    for seed in range(8):
        one = case(seed)
        simulate(one.made.program, one.streams(), seeds=[seed], faults="crash,disk,network")


@flow(clock=every(10))
def totals(rows):
    return rows.key_by("k").aggregate(COUNT).each(lambda key, n, at: [key, n])


@pytest.mark.parametrize("keys", [[1, 1.0, True], [True, 1, 1.0], [1.0, True, 1]])
def test_a_float_is_shown_before_a_bool_and_a_bool_before_an_integer(keys):
    rows = [(ts, {"k": key}) for ts, key in enumerate(keys)]
    for shown in (dgs.run(totals, streams={"rows": rows}).outputs, totals.denote({"rows": rows})):
        assert [(type(key), n) for key, n in shown] == [(float, 3)]
    found = totals.denote({"rows": [(ts, {"k": key}) for ts, key in enumerate(keys) if key is not keys[0]]})
    assert type(found[0][0]) is (float if any(type(key) is float for key in keys[1:]) else bool)


@pytest.mark.parametrize(
    "key",
    [
        float("nan"),
        ("a", float("nan")),
        np.float32("nan"),
        np.datetime64("NaT"),
        pd.NaT,
        pd.NA,
        [1],
        {"a": 1},
    ],
)
def test_values_that_cannot_be_keys_are_named(key):
    for made in (totals, flow()(lambda rows: rows.key_by("k").fold(lambda s, row: s + 1, 0))):
        with pytest.raises(UserCodeError, match=r"R02 .* cannot be a key") as caught:
            dgs.run(made, streams={"rows": [(1, {"k": 1}), (2, {"k": key})]})
        assert caught.value.row == 1
        with pytest.raises(UserCodeError, match=r"R02 .* cannot be a key"):
            made.denote({"rows": [(1, {"k": 1}), (2, {"k": key})]})


class Shown(KeyedOrdered):
    """Shows the form of its key at each item and each marker."""

    def on_item(self, state, key, value, emit):
        emit(repr(key))

    def on_marker(self, state, key, at, emit):
        emit([repr(key), at])


@pytest.mark.parametrize(
    "keys", [(True, 1, 1), (1, True, 1.0), (1.0, 1, 1), ((0, "a"), (False, "a"), (0.0, "a"))]
)
def test_markers_get_the_form_that_came_first_also_after_blocks_without_items(keys):
    made = flow(clock=every(10))(lambda a: a.key_by(lambda _, at: keys[at]).apply(Shown()))
    rows = {"a": [(0, 0), (34, 1), (68, 2)]}
    assert flows.counted(dgs.run(made, streams=rows).outputs) == flows.counted(made.denote(rows))
