"""Theorems as properties of random flows: a compiled flow has the outputs of its definition, under any ticks and any plan.

The slow tests try 2,000 flows, or `CASES`, half of them with faults. A failure names its seed.
"""

import random
from contextlib import contextmanager

from dgs.flow.flow_program import FINAL
from dgs.testing import run_plans, simulate
from tests.dgs.flow import flows
from tests.selection import seeds


def values(run):
    return flows.counted(output.value for output in run.outputs)


def ids(run):
    return sorted((*output.key[:3], str(output.tag), output.index) for output in run.outputs)


def check(seed):
    case = flows.case(seed)
    assert values(case.run()) == case.means(), f"seed {seed}"


@seeds(300)
def test_corollary_4_4_deployment(seeds):
    """The compiled program has the outputs of the flow's definition."""
    for seed in seeds:
        check(seed)


def test_a_tick_before_an_item_of_an_open_block_does_not_pass_the_block():
    from dgs.flow import every, flow, sliding
    from dgs.monoids import SUM

    @flow(clock=every(10))
    def windows(a: int, b: int):
        return a.aggregate(SUM, over=sliding(30, 20)).merge(b)

    inputs = {"a": [(189, 7)], "b": [(150, 1), (184, 2), (196, 3)]}
    case = flows.Case(windows, inputs, [160, 187, FINAL], 2)
    assert values(case.run()) == case.means()


@seeds(60)
def test_ticks_do_not_matter(seeds):
    for seed in seeds:
        case, r = flows.case(seed), random.Random(seed)
        many = sorted({*case.ticks, *(t for t in range(-20, 250) if r.random() < 0.3), FINAL})
        one, other = case.run([FINAL]), case.run(many)
        assert values(one) == values(other), f"seed {seed}"
        if "marks" not in case.inputs:
            assert ids(one) == ids(other), f"seed {seed}"


@contextmanager
def named(seed):
    """Add the seed of the flow to an error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"seed {seed} of the random flows")
        raise


@seeds(20, share=30)
def test_corollary_4_4_under_random_plans(seeds):
    for seed in seeds:
        case = flows.case(seed)
        if any(case.inputs.values()):
            streams = {name: rows for name, rows in case.streams().items() if rows}
            with named(seed):
                run_plans(case.made.program, streams, 2 if len(seeds) < 100 else 4, seed=seed)


@seeds(15, share=2)
def test_random_flows_survive_faults(seeds):
    for seed in seeds:
        case = flows.case(seed)
        if any(case.inputs.values()):
            streams = {name: rows for name, rows in case.streams().items() if rows}
            with named(seed):
                simulate(case.made.program, streams, seeds=[seed], faults="crash,disk,network,user")


def test_flows_are_of_every_shape():
    shapes = {flows.case(seed).made.shape for seed in range(40)}
    assert shapes == {"free", "sum", "classes", "mixed"}


def test_identity_of_the_program_has_clock_classes_and_nodes():
    from dgs.flow import Table, every, flow, sliding
    from dgs.model.identity import identity_of
    from dgs.monoids import COUNT

    def counts(size, table):
        def build(ads):
            edge = ads.lookup(table, key="ad", into="campaign").key_by("campaign")
            return edge.aggregate(COUNT, over=sliding(size))

        return flow(clock=every(10))(build)

    def identity(made, **options):
        return identity_of(made.program(**options), ["ticks", "ads"])

    one = identity(counts(20, Table({1: 2})))
    assert one.difference(identity(counts(20, Table({1: 2})))) == []
    assert [line.split(":")[0] for line in one.difference(identity(counts(30, Table({1: 2}))))] == ["node 3"]
    (changed,) = one.difference(identity(counts(20, Table({1: 3, 2: 4}, name="ads.json"))))
    assert changed.startswith("F26 table of step 1 'lookup': table with 1 rows (")
    assert ") there, ads.json with 2 rows (" in changed
    assert one.difference(identity(counts(20, Table({1: 2})), classes=5)) == ["classes: 64 there, 5 here"]
