"""A user's `join` and `result` may change their arguments: outputs, other steps and the data of the caller do not change."""

from copy import deepcopy

import pytest

import dgs
from dgs.flow import KeyedUnordered, every, flow, merge, sliding
from dgs.monoids import AllOf, FieldOf


class InPlace:
    """Joins into the longer list, and returns the list itself."""

    def identity(self):
        return []

    def lift(self, value):
        return value

    def join(self, left, right):
        longer, other = (left, right) if len(left) >= len(right) else (right, left)
        longer.extend(other)
        longer.sort()
        return longer

    def result(self, state):
        return state


class Popping(InPlace):
    """Removes the greatest value from its state."""

    def result(self, state):
        return state.pop() if state else None


class Lists(KeyedUnordered):
    monoid = InPlace()

    def initial_state(self):
        return ()

    def update_state(self, state, found):
        return (*state, *found)

    def on_marker(self, state, key, at, emit):
        emit(key, state)


ROWS = [(ts, [ts * 7 % 13]) for ts in range(0, 60, 3)]
FIELDS = [(ts, {"x": value}) for ts, value in ROWS]


def both(made, rows):
    """Return the outputs of a flow by its definition and by its run. Checks that the rows do not change."""
    given = deepcopy(rows)
    run = dgs.run(made, streams={"a": given})
    assert given == rows
    return sorted(map(str, made.denote({"a": rows}))), sorted(map(str, run.outputs))


@pytest.mark.parametrize("idle", ["skip", "all"])
@pytest.mark.parametrize("over", ["history", sliding(30), sliding(30, 20), None], ids=str)
@pytest.mark.parametrize("monoid", [InPlace(), Popping()], ids=["in place", "popping"])
def test_a_state_that_was_put_out_does_not_change(monoid, over, idle):
    @flow(clock=every(10))
    def lists(a):
        return a.key_by(lambda _, v: v[0] % 2).aggregate(monoid, over=over, idle=idle)

    means, gives = both(lists, ROWS)
    assert gives == means


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (ROWS, lambda keyed: keyed.aggregate(InPlace())),
        (ROWS, lambda keyed: keyed.apply(Lists())),
        (FIELDS, lambda keyed: keyed.aggregate(AllOf(all=FieldOf(InPlace(), "x")))),
    ],
    ids=["aggregate", "template", "inside another"],
)
def test_a_join_does_not_change_the_input_of_another_step(rows, step):
    @flow(clock=every(10))
    def twice(a):
        keyed = a.key_by(lambda _, v: 0)
        return merge(step(keyed).map(lambda _, v: v), keyed.map(lambda _, v: v))

    means, gives = both(twice, rows)
    assert gives == means
