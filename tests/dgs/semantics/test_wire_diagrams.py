"""Theorem 2.4: every wire diagram gives the outputs (as a multiset) and the state of the sequential program."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import InvalidDiagramError
from dgs.model.events import Event
from dgs.model.tag_sets import TagSet
from dgs.semantics import sequential, wire_diagrams
from tests.programs import BARRIER, INC, READ, VALUE, Counters, EventWindow, History, SmartHome
from tests.strategies import SUBJECTS, diagrams, workloads


@pytest.mark.parametrize("subject", SUBJECTS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_execute_any_diagram_gives_the_sequential_outputs_and_state(subject, data):
    workload = data.draw(workloads(subject))
    events = [event for _, event in sequential.merge(workload.batches)]
    expected = sequential.run(workload.program, workload.batches)
    diagram = data.draw(diagrams(workload.program, events))
    state, outputs = wire_diagrams.execute(workload.program, diagram)
    assert Counter(map(repr, outputs)) == Counter(repr(output.value) for output in expected.outputs)
    assert state == expected.state


def test_execute_shows_that_a_program_is_not_consistent():
    class Forgetful(History):
        def join(self, left, right):
            return left  # keeps only one side

    one, other = (Event(INC(k), "s", 0, k + 1) for k in (0, 1))
    fork = wire_diagrams.Parallel(
        "fork", wire_diagrams.Update(one), TagSet.of(INC), wire_diagrams.Update(other), TagSet.of(INC)
    )
    both = {(INC(0), 1), (INC(1), 2)}
    assert wire_diagrams.execute(History(Counters.depends), fork)[0] == both
    assert wire_diagrams.execute(Forgetful(Counters.depends), fork)[0] != both


def update(tag, payload=1):
    return wire_diagrams.Update(Event(tag, "s", 0, payload))


def parallel(left, left_tags, right, right_tags, fork="fork"):
    return wire_diagrams.Parallel(fork, left, left_tags, right, right_tags)


nothing = wire_diagrams.Sequence()


@pytest.mark.parametrize(
    ("program", "diagram", "problem"),
    [
        (
            Counters(),
            parallel(update(READ(1)), TagSet.of(INC), nothing, TagSet()),
            "read(1) does not satisfy",
        ),
        (
            Counters(),
            parallel(nothing, TagSet.of(INC(1)), nothing, TagSet.of(READ(1))),
            "depend on each other",
        ),
        (Counters(), parallel(nothing, TagSet(), nothing, TagSet(), fork="knife"), "no fork 'knife'"),
        (
            Counters(),
            parallel(
                parallel(nothing, TagSet.of(INC), nothing, TagSet()), TagSet.of(INC(1)), nothing, TagSet()
            ),
            "does not imply {inc(1)}",
        ),
        (
            SmartHome(),
            parallel(nothing, TagSet.of(VALUE), nothing, TagSet(), fork="split_home"),
            "which 'sum' handles",
        ),
        (
            SmartHome(),
            parallel(nothing, TagSet(), nothing, TagSet(), fork="split_sum"),
            "fork 'split_sum' is of 'sum', its wire of 'home'",
        ),
    ],
)
def test_execute_refuses_a_diagram_that_breaks_a_side_condition(program, diagram, problem):
    with pytest.raises(InvalidDiagramError) as caught:
        wire_diagrams.execute(program, diagram)
    assert problem in str(caught.value)


def test_execute_gives_the_outputs_of_the_left_side_first():
    sides = parallel(update(VALUE(1), 5), TagSet.of(VALUE), update(VALUE(2), 6), TagSet.of(VALUE))
    state, outputs = wire_diagrams.execute(
        EventWindow(), wire_diagrams.Sequence((sides, update(BARRIER()), update(VALUE(1), 3)))
    )
    assert (state, outputs) == (3, [11])
