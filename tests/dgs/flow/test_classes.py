"""Shape classes: each hash class of keys is closed separately where no step needs the others."""

import pytest

import dgs
from dgs.flow import KeyedOrdered, compiling, count, every, flow, on, sliding, tumbling
from dgs.flow.flow_program import FINAL
from dgs.flow.running import classed_flow
from dgs.model.key_sets import key_class
from dgs.monoids import COUNT, SUM
from dgs.testing import run_plans
from tests.dgs.flow import flows

CLOCK = every(10)


def folded(a, **options):
    return a.key_by(lambda _, v: v % 7).fold(lambda s, v: (s * 3 + v) % 101, 1, **options)


class Steps(KeyedOrdered):
    def on_item(self, state, key, value, emit):
        emit(value - (state or 0))
        return value


class Marked(Steps):
    def on_marker(self, state, key, at, emit):
        emit(at)
        return state


LOCAL = {
    "fold": folded,
    "history": lambda a: folded(a, over="history"),
    "by count": lambda a: folded(a, over=count(3, 2)),
    "template": lambda a: a.key_by(lambda _, v: v % 7).apply(Steps()),
    "aggregate behind": lambda a: folded(a).aggregate(SUM, over=tumbling(30)),
    "other keys at last": lambda a: folded(a).aggregate(COUNT).key_by(lambda _, n: n),
}
MIXED = {
    "block": lambda a: folded(a).block(lambda k, vs, at: [[at, k, *vs]]),
    "every key": lambda a: folded(a).aggregate(SUM, idle="all"),
    "sliding": lambda a: folded(a).aggregate(SUM, over=sliding(30)),
    "markers": lambda a: a.key_by(lambda _, v: v % 7).apply(Marked()),
    "cut short": lambda a: folded(a, over=count(3, 2, partial="emit")),
    "other keys": lambda a: folded(a).key_by(lambda _, n: n % 3).aggregate(SUM),
    "pairs": lambda a: folded(a).pairs(lambda k, n: (n % 3, n)).aggregate(SUM),
}


@pytest.mark.parametrize(
    ("name", "shape"), [*((n, "classes") for n in LOCAL), *((n, "mixed") for n in MIXED)]
)
def test_classes_are_on_their_own_if_every_step_that_keeps_something_is_local(name, shape):
    assert flow(clock=CLOCK)({**LOCAL, **MIXED}[name]).compiled().shape == shape


def test_the_end_of_the_input_is_the_same_for_all_classes():
    build = LOCAL["fold"]
    assert flow(clock=CLOCK, end="drop")(build).compiled().shape == "mixed"
    assert flow()(build).compiled().shape == "classes"
    for end, shape in (("close", "mixed"), ("drop", "classes")):
        assert flow(clock=on("marks"), end=end)(lambda a, marks: folded(a)).compiled().shape == shape


@pytest.mark.parametrize("name", LOCAL)
def test_classes_have_the_outputs_of_the_definition_under_plans_of_few_workers_and_many_classes(name):
    rows = [(n // 4, n * 7919 % 103) for n in range(160)]
    case = flows.Case(flow(clock=CLOCK)(LOCAL[name]), {"a": rows}, [20, 30, FINAL], 24)
    assert flows.counted(output.value for output in case.run().outputs) == case.means()
    run_plans(case.made.program, case.streams(), 2, seed=3)


def test_a_class_whose_items_come_to_an_inner_worker_is_closed_there():
    made, rows = flow(clock=CLOCK)(LOCAL["history"]), [(n // 40, n % 5003) for n in range(1000)]
    expected = flows.counted(made.denote({"a": rows}))
    for seed in range(1, 4):
        run = dgs.run(made, streams={"a": rows}, optimizer={"name": "random", "seed": seed})
        assert flows.counted(run.outputs) == expected


def test_markers_of_a_stream_come_once_a_class():
    made = flow(clock=on("marks"), end="drop")(lambda marks, a: folded(a))
    inputs = {
        "marks": [(ts, None) for ts in (9, 20, 20, 41)],
        "a": [(n // 2, n * 31 % 17) for n in range(100)],
    }
    run = dgs.run(made, streams=inputs, verify=True)
    assert run.verified
    assert flows.counted(run.outputs) == flows.counted(made.denote(inputs))


@pytest.mark.parametrize("name", ["every key", "sliding", "markers", "cut short", "other keys"])
def test_a_compiler_that_ignores_what_is_local_is_found(monkeypatch, name):
    monkeypatch.setattr(compiling, "has_local_classes", lambda *_: True)
    made = flow(clock=CLOCK)(lambda a: MIXED[name](a).each(lambda key, value, at: [at, key, value]))
    assert made.compiled().shape == "classes"
    rows = [(ts, ts * ts % 23) for ts in (0, 1, 2, 3, 14, 15, 37, 38, 39, 55)]
    case = flows.Case(made, {"a": rows}, [FINAL], 5)
    assert flows.counted(output.value for output in case.run().outputs) != case.means()


def test_a_state_of_another_shape_is_refused(monkeypatch):
    from dgs.model.identity import identity_of

    made = flow(clock=CLOCK)(LOCAL["fold"])
    classes = identity_of(made.program(), ["ticks", "a"])
    monkeypatch.setattr(compiling, "has_local_classes", lambda *_: False)
    found = identity_of(made.program(), ["ticks", "a"]).difference(classes)
    assert any(line.startswith("shape") for line in found)


def test_no_two_classes_give_outputs_of_one_id(monkeypatch):
    case = flows.Case(flow(clock=CLOCK)(LOCAL["fold"]), {"a": [(n, n) for n in range(40)]}, [FINAL], 5)

    def ids():
        return [(*output.key[:3], output.index) for output in case.run().outputs]

    assert len(set(ids())) == len(ids())
    monkeypatch.setattr(classed_flow, "_of_class", lambda made, cls: made)
    assert len(set(ids())) < len(ids())


def test_a_program_that_skips_is_of_the_class_of_the_program():
    """Simulated faults are in a subclass, and `on_error: skip` must not drop them."""
    program = flow(clock=every(10))(
        lambda n: n.key_by(lambda _, v: v % 3).fold(lambda s, v: s + v, 0)
    ).program()
    fused = object.__new__(type("Fused", (type(program),), {}))
    vars(fused).update(vars(program))
    assert type(fused.when_skipping()) is type(fused)


@flow(clock=every(10))
def homes(a: int, b: int, c: int):
    """Fold the values of each home, whose name is constant, beside a stream with a key for each value."""
    large = a.key_by("A").filter(lambda _, v: v > 1).merge(b.key_by("B").map(lambda _, v: v))
    folded = large.merge(c.key_by(lambda _, v: str(v))).fold(lambda seen, v: [*seen, v], [])
    return folded.pairs(lambda key, seen: (len(seen), (key, seen))).block(
        lambda _, found, at: [[at, *sorted(found)]]
    )


def test_a_stream_of_constant_keys_has_the_classes_of_these_only():
    made = homes.compiled(classes=8)
    assert made.tags_of("a") == [{"kind": "item", "key": key_class("A") % 8}]
    assert made.tags_of("b") == [{"kind": "item", "key": key_class("B") % 8}]
    assert made.tags_of("c") == ["item"]
    keyless = flow()(lambda a: a.fold(lambda total, v: total + v, 0)).compiled(classes=8)
    assert keyless.tags_of("a") == [{"kind": "item", "key": key_class(()) % 8}]


def test_constant_keys_mean_the_same_under_random_plans():
    """The first values of `a` are left out, so an event only advances time."""
    inputs = {"a": [(1, 0), (12, 1), (13, 5)], "b": [(2, 7), (25, 3)], "c": [(3, 4), (14, 4)]}
    right = sorted(homes.denote(inputs))
    for seed in range(4):
        run = dgs.run(homes, streams=inputs, optimizer={"name": "random", "seed": seed}, verify=True)
        assert sorted(run.outputs) == right
