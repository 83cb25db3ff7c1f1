"""The end of the input, and steps that read the state of the last marker, in flows with a clock."""

from __future__ import annotations

from typing import Any

import pytest

from dgs.flow import FlowError, KeyedOrdered, KeyedUnordered, count, every, flow, on
from dgs.flow.flow_program import FINAL
from dgs.monoids import SUM
from tests.dgs.flow import flows

INPUTS = {"a": [(1, 3), (2, 5), (14, 7), (33, 2), (34, 9)]}


def outputs(made: Any, inputs: Any, ticks: list[int]) -> list[Any]:
    return [output.value for output in flows.run(made.compiled(), inputs, ticks).outputs]


@flow(clock=every(10))
def pairs(a: int):
    windows = a.key_by(lambda _, v: v % 2).fold(lambda seen, v: [*seen, v], [], over=count(3, partial="emit"))
    return windows.pairs(lambda key, seen: (0, sum(seen))).aggregate(SUM).each(lambda _, n, at: [at, n])


class Last(KeyedOrdered):
    def on_item(self, state, key, value, emit):
        return value

    def on_end(self, state, key, emit):
        emit([key, state])


@flow(clock=every(10))
def lasts(a: int):
    return a.key_by(lambda _, v: v % 2).apply(Last())


@pytest.mark.parametrize("made", [pairs, lasts])
@pytest.mark.parametrize("ticks", [[FINAL], [10, 20, 30, 40, FINAL], [15, 90, FINAL]])
def test_the_end_of_the_input_is_in_the_last_block(made: Any, ticks: list[int]) -> None:
    assert outputs(made, INPUTS, ticks) == made.denote(INPUTS) != []


class Deviations(KeyedUnordered):
    """Emits for every item its distance from the total of all earlier blocks."""

    monoid = SUM

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        return state + found

    def on_item(self, state, key, value, emit):
        emit(key, value - state)


@flow(clock=every(10, start=0))
def deviations(a: int):
    return a.key_by(lambda _, v: v % 2).apply(Deviations()).each(lambda key, value, at: [at, key, value])


def test_on_item_reads_the_state_of_the_last_marker() -> None:
    ticks = [10, 20, 30, 40, FINAL]
    assert sorted(outputs(deviations, INPUTS, ticks)) == sorted(deviations.denote(INPUTS))
    assert [14, 1, 7 - 8] in deviations.denote(INPUTS)


@pytest.mark.parametrize("step", ["on_end", "partial"])
def test_the_end_is_refused_where_markers_do_not_say_it(step: str) -> None:
    @flow(clock=on("marks"))
    def refused(a: int, marks: int):
        keyed = a.key_by(lambda _, v: v % 2)
        if step == "on_end":
            return keyed.apply(Last())
        return keyed.fold(lambda n, v: n + v, 0, over=count(2, partial="emit"))

    with pytest.raises(
        FlowError, match=r"F00 step 2.*the last marker of a stream does not say that it is the last"
    ):
        refused.compiled()
