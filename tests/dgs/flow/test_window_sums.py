"""Windows of sums: by block while all values are integers, by queues after another value, with the same results."""

import random
from collections import Counter

import pytest

from dgs import codec
from dgs.flow import every, flow, sliding
from dgs.flow.batches import window_sums
from dgs.flow.flow_program import FINAL
from dgs.monoids import COUNT, SUM
from dgs.semantics import sequential
from tests.dgs.flow import flows


class Doubled(type(SUM)):
    def result(self, state):
        return [2 * state]


MONOIDS = {"sum": SUM, "count": COUNT, "doubled": Doubled()}


def windowed(monoid, size, slide, idle):
    over = sliding(size, slide, allow_gaps=True)
    return flow(clock=every(10))(
        lambda a: (
            a.key_by(lambda _, v: v[0])
            .map(lambda _, v: v[1])
            .aggregate(monoid, over=over, idle=idle)
            .each(lambda key, total, at: [at, key, total])
        )
    )


def case(seed, share_of_floats):
    """Return a flow of windows over sparse keys. Floats are halves, whose sums are exact."""
    r = random.Random(seed)
    size, slide = r.randint(1, 6), r.randint(1, 4)
    made = windowed(r.choice([*MONOIDS.values()]), 10 * size, 10 * slide, r.choice(["all", "skip"]))
    values = [r.randint(-2, 9) + (0.5 if r.random() < share_of_floats else 0) for _ in range(40)]
    times = sorted(r.choice([r.randint(-90, 50), r.randint(50, 300)]) for _ in values)
    keys = ["totals", "panes", "last", (1, "x"), 7]
    rows = [(at, [r.choice(keys), value]) for at, value in zip(times, values, strict=True)]
    return flows.Case(made, {"a": rows}, [*range(-80, 400, r.choice([10, 30, 100])), FINAL], 2)


def sums_or_queues(state):
    stores = [store for store in state["tail"]["stores"].values() if store]
    return {"sums" if window_sums.holds(store) else "queues" for store in stores}


@pytest.mark.parametrize("share_of_floats", [0, 0.1], ids=["integers", "some floats"])
@pytest.mark.parametrize("seed", range(60))
def test_windows_equal_the_definition_of_their_flow(seed, share_of_floats):
    one = case(seed, share_of_floats)
    program, streams = one.made.program, flows.batches(one.made, one.inputs, one.ticks)
    assert flows.counted(output.value for output in one.run().outputs) == one.means()
    careful = sequential.run(program.when_skipping(), streams, on_error="skip")
    plain = sequential.run(program, streams)
    assert Counter(map(codec.encode, (o.value for o in careful.outputs))) == Counter(
        map(codec.encode, (o.value for o in plain.outputs))
    )
    if not share_of_floats:
        assert careful.state == plain.state
        assert sums_or_queues(plain.state) <= {"sums"}


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        ([(0, ["a", 1]), (10, ["b", 2])], {"sums"}),
        ([(0, ["a", 1]), (10, ["b", 0.5])], {"queues"}),
        ([(0, ["a", 0.5]), (70, ["b", 1]), (80, ["b", 1])], {"sums"}),
    ],
    ids=["integers", "a float", "integers after all else is gone"],
)
def test_a_store_is_of_sums_while_all_is_integers(values, forms):
    made = windowed(SUM, 20, 10, "skip")
    one = flows.Case(made, {"a": values}, range(10, 100, 10), 2)
    assert sums_or_queues(one.run().state) == forms


def test_a_saved_store_of_queues_can_be_used():
    """States saved by versions without a store for sums have queues."""
    rows = [(10 * n, ["ab"[n % 2], n]) for n in range(12)]
    one = flows.Case(windowed(SUM, 40, 10, "all"), {"a": rows}, [*range(10, 120, 10), FINAL], 2)
    program = one.made.program
    streams = flows.batches(one.made, one.inputs, one.ticks)
    closer = next(iter(program.closers.values()))
    close = closer.close

    def queued(parts, store, block, end):
        if store and window_sums.holds(store) and block == 4:
            window_sums.to_queues(store)
        return close(parts, store, block, end)

    closer.close = queued
    run = sequential.run(program, streams)
    assert flows.counted(output.value for output in run.outputs) == one.means()
    assert sums_or_queues(run.state) == {"queues"}
