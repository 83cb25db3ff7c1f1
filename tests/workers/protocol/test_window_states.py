"""`update_windows` may return a 2-D array: its rows are states, arrays like those of `update`."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import dgs
from dgs.codec import encode
from dgs.model.columns import to_list
from dgs.monoids import COUNT, AllOf, MapOf
from dgs.monoids.contract import windows_by_fold
from dgs.monoids.windows import Windows

HIT, DUMP = dgs.kind("hit"), dgs.kind("dump")
CELLS = 4


class Heat(dgs.Program):
    """Counts hits by cell; a dump emits the counts, and starts again. A join would put two lists one behind the other."""

    depends = dgs.Dependence((DUMP, DUMP, dgs.ALWAYS), (DUMP, HIT, dgs.ALWAYS))
    accumulates = (HIT,)

    def init(self):
        return np.zeros(CELLS, dtype=np.int64)

    identity = init

    def update(self, state, event, emit):
        if event.tag.kind == HIT:
            state[event.payload % CELLS] += 1
            return state
        emit(state.tolist())
        return self.init()

    def join(self, left, right):
        left += right
        return left


class InWindows(Heat):
    """The same, with the counts of many windows as the rows of an array."""

    def update_windows(self, batch, cuts):
        window = np.searchsorted(cuts, np.arange(len(batch)), side="right")
        made = np.zeros((len(cuts) + 1, CELLS), dtype=np.int64)
        np.add.at(made, (window, np.array(to_list(batch.payload)) % CELLS), 1)
        return made


class Vector:
    """The monoid of counts by cell."""

    def identity(self):
        return np.zeros(CELLS, dtype=np.int64)

    def lift(self, value):
        return np.bincount([value % CELLS], minlength=CELLS)

    def join(self, left, right):
        left += right
        return left

    def fold(self, column):
        return np.bincount(np.array(to_list(column), dtype=np.int64) % CELLS, minlength=CELLS)

    def windows(self, column, cuts):
        return np.array(windows_by_fold(self, column, cuts))

    def result(self, state):
        return state.tolist()


class OfMonoid(Windows):
    monoid = Vector()
    accumulates = (HIT,)
    closes = (DUMP,)


STRATEGIES = {"hit": int, "dump": [None]}
STREAMS = {
    "hits": [(HIT(), ts, ts // 3) for ts in range(400)],
    "more": [(HIT(), ts, ts // 5) for ts in range(400)],
    "dumps": [(DUMP(), ts, None) for ts in range(0, 400, 7)],
}


def outputs(make, **options):
    return dgs.run(make(), streams=STREAMS, runtime="local", **options).outputs


@pytest.mark.parametrize("make", [InWindows, OfMonoid], ids=lambda one: one.__name__)
def test_runs_of_windows_in_an_array_are_as_the_sequential_program(make):
    expected = outputs(Heat, optimizer="sequential")
    assert outputs(make, verify=True) == expected
    assert outputs(make, optimizer="sequential") == expected


@pytest.mark.parametrize("make", [InWindows, OfMonoid], ids=lambda one: one.__name__)
def test_check_passes_windows_in_an_array(make):
    report = dgs.check(make, strategies=STRATEGIES, max_examples=40)
    assert report, str(report)
    assert "windows" in {one.law for one in report.laws if one.status == "holds"}


@pytest.mark.parametrize(
    "make", [lambda one: AllOf(n=COUNT, by_cell=one), lambda one: MapOf(one, key="k", value="v")]
)
def test_monoids_made_of_one_with_windows_in_an_array_have_its_states(make):
    monoid = make(Vector())
    column = [{"k": n % 2, "v": n} for n in range(6)] if isinstance(monoid, MapOf) else list(range(6))
    expected = [reduce(monoid.join, map(monoid.lift, column[i:j])) for i, j in ((0, 2), (2, 3), (3, 6))]
    assert list(map(encode, monoid.windows(column, np.array([2, 3])))) == list(map(encode, expected))
