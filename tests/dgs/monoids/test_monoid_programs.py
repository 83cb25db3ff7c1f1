"""Programs made of monoids, and keyed programs: vectorised updates are folds, every wire diagram gives the sequential result."""

import copy
import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs
from dgs import codec
from dgs.errors import ProgramError
from dgs.keyed import KeyedState
from dgs.model import columns
from dgs.monoids import COUNT, DISTINCT, MEAN, SUM, AllOf, FieldOf, KeyedWindows, Latest, MapOf, Top, Windows
from dgs.monoids.contract import windows_by_fold
from dgs.semantics import wire_diagrams
from dgs.testing import run_plans
from tests.selection import rest_is_slow
from tests.strategies import random_diagram

VALUE, OTHER, CLOSE = dgs.kind("value", key=range(3)), dgs.kind("other", key=range(3)), dgs.kind("close")
SHUT = dgs.kind("shut", key=range(3))


class Sums(Windows):
    monoid = SUM
    accumulates = (VALUE, OTHER)
    closes = (CLOSE,)


class Summaries(Windows):
    monoid = AllOf(
        by_key=MapOf(FieldOf(MEAN, "payload"), key="key", value=None),
        last=MapOf(Latest(), key="key", value=None),
        seen=FieldOf(DISTINCT, "payload"),
        best=Top(2, by="payload"),
    )
    accumulates = (VALUE, OTHER)
    closes = (CLOSE,)
    of_events = True


class Running(Windows):
    """Windows that are never reset; `value` computes values from single events."""

    monoid = SUM
    accumulates = (VALUE,)
    closes = (CLOSE, SHUT)

    def value(self, event):
        return event.payload * (event.tag.key + 1)

    def close(self, state, event, emit):
        emit(state)
        if event.tag.kind == SHUT:
            emit(("twice", state))
        return state


class SumsByKey(KeyedWindows):
    monoid = SUM
    accumulates = (VALUE, OTHER)
    closes = (SHUT,)


class TopsByKey(KeyedWindows):
    monoid = Top(2)
    accumulates = (VALUE,)
    closes = (SHUT,)


class LatestValue(KeyedState):
    changes = (SHUT,)
    reads = (VALUE, OTHER)

    def update(self, state, event, emit):
        emit((event.payload, state.get(event.tag.key)))
        if event.tag.kind == SHUT:
            state[event.tag.key] = event.payload
        return state


@dataclass(frozen=True)
class Subject:
    program: dgs.Program
    tags: tuple

    def __str__(self):
        return self.program.name


def tags(*kinds):
    return tuple(
        tag for kind in kinds for tag in ([kind()] if kind.domain is None else map(kind, kind.domain))
    )


WINDOWED = [
    Subject(Sums(), tags(VALUE, OTHER, CLOSE)),
    Subject(Summaries(), tags(VALUE, OTHER, CLOSE)),
    Subject(Running(), tags(VALUE, CLOSE, SHUT)),
    Subject(SumsByKey(), tags(VALUE, OTHER, SHUT)),
    Subject(TopsByKey(), tags(VALUE, SHUT)),
]
every_windowed = pytest.mark.parametrize("subject", WINDOWED, ids=str)
every_program = pytest.mark.parametrize(
    "subject", [*WINDOWED, Subject(LatestValue(), tags(VALUE, OTHER, SHUT))], ids=str
)
brief = settings(max_examples=20, deadline=None)


def batch_of(draw, found, sizes=(0, 8)):
    count = draw(st.integers(*sizes))
    payload = draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count))
    codes = draw(st.lists(st.integers(0, len(found) - 1), min_size=count, max_size=count))
    ts = sorted(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    column = np.array(payload, dtype=np.int64) if draw(st.booleans()) else payload
    only = len(set(codes)) == 1 and draw(st.booleans())
    listed, which = ([found[codes[0]]], None) if only else (found, codes)
    return dgs.EventBatch.of("s", rank=0, tags=listed, codes=which, ts=ts, payload=column)


def folded(program, state, batch):
    """Return the outputs, each with the row of its event, and the state: by `update`."""
    outputs = []
    for row, event in enumerate(batch.events()):
        state = program.update(state, event, lambda value, row=row: outputs.append((row, value)))
    return outputs, state


@every_windowed
@brief
@given(data=st.data())
def test_update_batch_is_the_fold_of_update_however_it_is_split(subject, data):
    program, batch = subject.program, batch_of(data.draw, subject.tags)
    expected, after = folded(program, program.init(), batch)
    outputs, state = [], program.init()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True):

        def emit(values, rows=None, start=start):
            outputs.extend(zip((rows + start).tolist(), values, strict=True))

        state = program.update_batch(state, batch.cut(start, stop), emit)
    assert outputs == expected
    assert codec.encode(state) == codec.encode(after)


@every_windowed
@brief
@given(data=st.data())
def test_update_windows_are_folds_from_the_identity(subject, data):
    program = subject.program
    mine = [tag for tag in subject.tags if tag.kind in program.accumulates]
    batch = batch_of(data.draw, mine)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=4)))
    windows = program.update_windows(batch, np.array(cuts, dtype=np.int64))
    parts = zip([0, *cuts], [*cuts, len(batch)], strict=True)
    expected = [folded(program, program.identity(), batch.cut(start, stop))[1] for start, stop in parts]
    assert [codec.encode(state) for state in columns.to_list(windows)] == [
        codec.encode(state) for state in expected
    ]


@every_program
@brief
@given(data=st.data())
def test_every_wire_diagram_gives_the_sequential_outputs_and_state(subject, data):
    program = subject.program
    events = batch_of(data.draw, subject.tags, sizes=(0, 10)).events()
    outputs, state = [], program.init()
    for event in copy.deepcopy(events):
        state = program.update(state, event, outputs.append)
    diagram = random_diagram(data.draw(st.randoms(use_true_random=False)), program, events)
    other, found = wire_diagrams.execute(program, diagram)
    assert sorted(map(codec.encode, found)) == sorted(map(codec.encode, outputs))
    assert codec.encode(other) == codec.encode(state)


@every_program
def test_random_plans_give_the_sequential_outputs(subject):
    rnd = random.Random(str(subject))
    streams = {}
    for stream in range(3):
        mine = rnd.sample(subject.tags, 4)
        rows = sorted(rnd.randint(0, 30) for _ in range(25))
        streams[f"s{stream}"] = [(rnd.choice(mine), ts, rnd.randint(-5, 5)) for ts in rows]
    run_plans(subject.program, streams, 3)


def test_derived_dependence_is_between_closing_kinds_and_all_others():
    relation = Sums().dependence
    assert relation(CLOSE(), CLOSE())
    assert relation(CLOSE(), VALUE(0))
    assert not relation(VALUE(0), VALUE(0))
    assert not relation(VALUE(0), OTHER(0))
    by_key = SumsByKey().dependence
    assert by_key(SHUT(1), OTHER(1))
    assert by_key(SHUT(1), SHUT(1))
    assert not by_key(SHUT(1), SHUT(2))
    assert not by_key(SHUT(1), VALUE(2))


def test_subclass_keeps_a_dependence_that_is_its_own():
    class Tighter(Sums):
        depends = dgs.Dependence.everything()

    class Child(Tighter):
        """Declares nothing."""

    assert Child().dependence(VALUE(0), VALUE(0))


def test_events_without_payload_are_counted():
    class Counts(Windows):
        monoid = COUNT
        accumulates = (VALUE,)
        closes = (CLOSE,)

    batch = dgs.EventBatch.of("s", rank=0, tags=[VALUE(0)], ts=[1, 2, 3])
    assert Counts().update_batch(0, batch, None) == 3


@pytest.mark.parametrize("missing", ["monoid", "accumulates"])
def test_missing_part_is_named(missing):
    parts = {"monoid": SUM, "accumulates": (VALUE,), "closes": (CLOSE,)}
    del parts[missing]
    with pytest.raises(ProgramError, match=missing):
        type("Lacking", (Windows,), parts)()


def test_kind_cannot_both_accumulate_and_close():
    with pytest.raises(ProgramError, match="'value' cannot both accumulate and close"):
        type("Both", (Windows,), {"accumulates": (VALUE,), "closes": (VALUE,)})


@pytest.mark.parametrize("program", [Sums(), SumsByKey()], ids=lambda program: type(program).__name__)
def test_event_of_an_unknown_kind_is_refused_alone_and_in_a_batch(program):
    stray = dgs.EventBatch.of(
        "s", rank=0, tags=[VALUE(1), dgs.Tag("stray", 1)], codes=[0, 1], ts=[1, 2], payload=[3, 4]
    )
    with pytest.raises(ProgramError, match="'stray' is not one of its kinds: value, other"):
        program.update(program.init(), stray.events()[1], print)
    with pytest.raises(ProgramError, match="stray"):
        program.update_batch(program.init(), stray, print)


def test_close_may_keep_a_part_of_the_window():
    class Carry(KeyedWindows):
        monoid = SUM
        accumulates = (VALUE,)
        closes = (SHUT,)

        def close(self, state, event, emit):
            emit(state)
            return state // 2

    items = {
        "shut": [(SHUT(1), 5, None), (SHUT(1), 6, None), (SHUT(1), 7, None)],
        "values": [(VALUE(1), 1, 3)],
    }
    run = dgs.run(Carry(), streams=items, runtime="local")
    assert (run.outputs, run.state) == ([3, 1, 0], {})


@pytest.mark.parametrize("subject", rest_is_slow([WINDOWED[0], WINDOWED[3]]), ids=str)
def test_derived_programs_pass_the_check(subject):
    kinds = {tag.kind for tag in subject.tags}
    assert dgs.check(
        subject.program, strategies={kind: st.integers(-9, 9) for kind in kinds}, max_examples=25
    )


class OfVectors:
    """Adds vectors."""

    def identity(self):
        return np.zeros(2)

    def lift(self, value):
        return np.array(value, dtype=float)

    def join(self, left, right):
        return left + right

    def fold(self, column):
        return sum(map(self.lift, columns.to_list(column)), self.identity())

    def windows(self, column, cuts):
        return windows_by_fold(self, column, cuts)

    def result(self, state):
        return state.tolist()


class VectorsByKey(KeyedWindows):
    monoid = OfVectors()
    accumulates = (VALUE,)
    closes = (SHUT,)


def test_windows_by_key_of_arrays_are_forgotten_when_they_close():
    values = [(VALUE(0), 1, [1, 2]), (VALUE(0), 2, [3, 4]), (VALUE(1), 3, [5, 6])]
    run = dgs.run(VectorsByKey(), streams={"values": values, "closings": [(SHUT(0), 5, None)]}, verify=True)
    assert run.outputs == [{"key": 0, "result": [4.0, 6.0]}]
    assert list(run.state) == [1]
