"""Wrong checkers and wrong steps: each breaks a property that the right code has.

Mutants of the compiler are in `test_mutants`, mutants of pipelines in `tests/dgs/pico/test_pico_laws.py`, classes
for nodes that are not local in `test_classes`, columns in `test_columns`, and wrong joins and splits in `test_theorems`. The others are here.
"""

import random
from copy import deepcopy
from dataclasses import replace

import pytest

from dgs.errors import DgsError
from dgs.flow import FlowError, KeyedUnordered, closing, every, flow, sliding
from dgs.flow.batches.item_bags import Bags
from dgs.flow.demands import Demands
from dgs.flow.flow_checks import _Checker
from dgs.flow.flow_program import FINAL, TICK, FlowProgram
from dgs.flow.panes import Panes
from dgs.model.events import Event
from dgs.model.tag_sets import TagSet
from dgs.monoids import MAX, SUM
from tests.dgs.flow import flows
from tests.dgs.flow.test_ends_and_snapshots import INPUTS, deviations
from tests.dgs.flow.test_flaws import interpolated
from tests.dgs.flow.test_theorems import canonical, keyed, made


def appended(edge):
    return edge.fold(lambda seen, value: [*seen, value], [])


def distinguishes(build):
    """Return whether a flow tells two bags apart that are equal. Raises FlowError if the checker refuses it."""
    one = made(build)
    return canonical(one, {"a": [(0, 1), (0, 2)]}) != canonical(one, {"a": [(0, 2), (0, 1)]})


def refuses_unordered():
    with pytest.raises(FlowError):
        distinguishes(lambda a: appended(keyed(a, "U")))


def refuses_a_second_key():
    with pytest.raises(FlowError):
        distinguishes(lambda a: appended(keyed(a, "U").key_by(lambda _, v: 0)))


def refuses_old_points():
    with pytest.raises(FlowError):
        interpolated.types()


def equal_to_meaning(one, inputs, ticks=(FINAL,)):
    found = [output.value for output in flows.run(one.compiled(), inputs, list(ticks)).outputs]
    assert flows.counted(found) == flows.counted(one.denote(inputs))


@flow(clock=every(10))
def firsts(a: int):
    """The first of the ties of a bag."""
    return keyed(a, "U").sort(by=lambda _, v: v // 5).fold(lambda seen, v: [*seen, v], [])


def sorts_bags():
    for seed in range(20):
        values = random.Random(seed).sample(range(50), 12)
        equal_to_meaning(firsts, {"a": [(1, v) for v in values]})


class Seen(KeyedUnordered):
    """Keeps all totals of a key in one list, and changes it in place."""

    monoid = SUM

    def initial_state(self):
        return []

    def update_state(self, state, found):
        state.append(found)
        return state

    def on_marker(self, state, key, at, emit):
        emit(key, [at, key, *state])


@flow(clock=every(10))
def totals(a: int):
    return keyed(a, "U").apply(Seen())


def keeps_starts_apart():
    equal_to_meaning(totals, {"a": [(1, 11), (1, 22), (15, 33), (25, 11)]})


def reads_the_last_marker():
    equal_to_meaning(deviations, INPUTS, [10, 20, 30, 40, FINAL])


@flow(clock=every(10))
def greatest(a: int):
    return keyed(a, "U").aggregate(MAX, over=sliding(30))


def slides():
    equal_to_meaning(greatest, {"a": [(ts, 19 - ts // 10) for ts in range(0, 100, 5)]})


@flow(clock=every(10))
def windows(a: int):
    return a.key_by(lambda _, v: v % 5).fold(lambda s, v: s + v, 0).pairs(lambda k, v: (0, v)).aggregate(
        SUM, over=sliding(30), idle="all"
    )  # fmt: skip


def has_one_tail():
    """Law C1 of a fork that gives ticks to the right."""
    program = windows.program(classes=5)

    def after_a_tick(is_forked):
        state = program.init()
        for tag, value in program.items("a", 3, 7):
            state = program.update(state, Event(tag, "a", 3, value), [].append)
        tick = Event(TICK(), "ticks", 10, None)
        if not is_forked:
            return program.update(state, tick, [].append)
        left, right = program.fork(state, TagSet.of(*map(program.item, range(5))), TagSet.of(TICK()))
        left, right = program.join(left, program.identity()), program.update(right, tick, [].append)
        return program.join(left, right)

    assert after_a_tick(True)["tail"]["next"] == after_a_tick(False)["tail"]["next"]


def always_ordered(self, node, step, fact, key_by=_Checker._key_by):
    found = key_by(self, node, step, fact)
    return replace(found, type=replace(found.type, order="O"), unordered_since=None)


def as_they_came(self, parts, key):
    bag = parts[key]
    if isinstance(bag, list):
        return [(value, at) for value, at in bag]
    return [(value, at) for value, at, number in bag.values() for _ in range(number)]


def of_this_block(self, parts, store, *block, close=closing.SnapshotCloser.close):
    """Close the block first, so that `on_item` reads the aggregate that includes its own item."""
    totals = {key: [part, {}] for key, (part, _) in parts[0].items()}
    yield from close(self, [totals], store, *block)
    yield from close(self, parts, store, *block)


def eagerly(self, queue, block, slide=Panes.slide):
    return slide(self, queue, block + 1)


def on_both_sides(self, state, left, right, fork=FlowProgram.fork):
    one, other = fork(self, state, left, right)
    one["tail"], other["tail"] = deepcopy(one["tail"] or other["tail"]), one["tail"] or other["tail"]
    return one, other


MUTANTS = {
    "O fits where U is, and U where O is": (Demands, "needs_order", lambda *_: None, refuses_unordered),
    "key_by keeps O": (_Checker, "_key_by", always_ordered, refuses_a_second_key),
    "the order of D3 lasts": (Demands, "check_parts", lambda *_: None, refuses_old_points),
    "sort without ties": (Bags, "items", as_they_came, sorts_bags),
    "a shared start state": (closing, "deepcopy", lambda state: state, keeps_starts_apart),
    "on_item reads the running aggregate": (closing.SnapshotCloser, "close", of_this_block, reads_the_last_marker),
    "eager drop": (Panes, "slide", eagerly, slides),
    "tail on both sides": (FlowProgram, "fork", on_both_sides, has_one_tail),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_breaks_a_property_of_the_right_code(monkeypatch, name):
    holder, attribute, wrong, holds = MUTANTS[name]
    holds()
    monkeypatch.setattr(holder, attribute, wrong)
    with pytest.raises((AssertionError, DgsError, pytest.fail.Exception)):
        holds()
