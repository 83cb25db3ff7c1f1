"""The programs of the experiments obey C1 (both sides), C2 and C3, and every wire diagram gives the sequential outputs.

States are reachable: they occur on some wire of a diagram that starts at `init`. Outputs are compared event by event.
"""

import copy
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@dataclass(frozen=True)
class Subject:
    name: str
    program: dgs.Program
    tags: tuple[dgs.Tag, ...]
    payloads: st.SearchStrategy


def load(folder, file="program.py"):
    path = EXPERIMENTS / folder / file
    spec = importlib.util.spec_from_file_location(f"{folder}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def subjects():
    window, join = load("event_window"), load("page_view_join")
    fraud, flights = load("fraud_detection"), load("flights")
    few = st.integers(0, 5).map(lambda n: n * 500)  # so that transactions often equal the model modulo 1000
    records = st.fixed_dictionaries({"n": st.integers(0, 9)})
    bank = (fraud.TRANSACTION(), fraud.RULE())
    return [
        Subject("event_window", window.EventWindow(), (window.VALUE(), window.BARRIER()), st.integers(-9, 9)),
        Subject("page_view_join", join.PageViewJoin(), keyed(join, join.PAGES), st.integers(0, 9)),
        Subject("fraud", fraud.FraudDetection(), bank, few),
        Subject("fraud_cyclic", fraud.CyclicFraudDetection(), bank, few),
        Subject("flights", flights.FlightsJoin(), keyed(flights, flights.AIRPORTS), records),
    ]


def keyed(module, keys):
    return tuple(make(key) for key in keys for make in (module.VIEW, module.UPDATE))


every_program = pytest.mark.parametrize("subject", subjects(), ids=lambda s: s.name)
brief = settings(max_examples=30, deadline=None)


def processed(subject, state, event):
    """Return the outputs of one event and the state after it, leaving the given state as it was."""
    outputs = []
    after = subject.program.update(copy.deepcopy(state), event, outputs.append)
    return outputs, after


def forked(subject, state, left, right):
    (rule,) = subject.program.fork_joins()
    return rule.fork(copy.deepcopy(state), dgs.TagSet.of(*left), dgs.TagSet.of(*right))


def joined(subject, left, right):
    (rule,) = subject.program.fork_joins()
    return rule.join(copy.deepcopy(left), copy.deepcopy(right))


def an_event(draw, subject, tags):
    return dgs.Event(draw(st.sampled_from(tags)), "stream", 0, draw(subject.payloads))


def independent_sides(draw, subject, tags):
    """Draw two lists of tags, every tag of one independent of every tag of the other; they may share tags."""
    depends = subject.program.dependence
    left, right = [], []
    for tag in draw(st.permutations(tags)):
        for mine, yours in draw(st.permutations([(left, right), (right, left)])):
            if draw(st.booleans()) and not any(depends(tag, other) for other in yours):
                mine.append(tag)
    return left, right


@st.composite
def wires(draw, subject):
    """Draw a reachable state and the tags its wire may carry: by updates, forks of which one side is followed, and joins."""
    state, tags = subject.program.init(), list(subject.tags)
    for step in draw(st.lists(st.sampled_from(["update", "update", "fork", "diamond"]), max_size=8)):
        if step == "update" and tags:
            _, state = processed(subject, state, an_event(draw, subject, tags))
        elif step == "fork":
            sides = independent_sides(draw, subject, tags)
            side = draw(st.sampled_from([0, 1]))
            state, tags = forked(subject, state, *sides)[side], sides[side]
        elif step == "diamond":
            parts = branches(draw, subject, state, independent_sides(draw, subject, tags))
            state = joined(subject, *parts)
    return state, tags


def branches(draw, subject, state, sides):
    """Fork a state and let both sides process some events of theirs."""
    parts = []
    for part, tags in zip(forked(subject, state, *sides), sides, strict=True):
        current = part
        for _ in range(draw(st.integers(0, 2)) if tags else 0):
            _, current = processed(subject, current, an_event(draw, subject, tags))
        parts.append(current)
    return parts


@every_program
@brief
@given(data=st.data())
def test_fork_then_join_is_the_same_state(subject, data):
    state, tags = data.draw(wires(subject))
    sides = independent_sides(data.draw, subject, tags)
    assert joined(subject, *forked(subject, state, *sides)) == state


@every_program
@brief
@given(data=st.data(), side=st.sampled_from([0, 1]))
def test_update_commutes_with_join_on_both_sides(subject, data, side):
    state, tags = data.draw(wires(subject))
    sides = independent_sides(data.draw, subject, tags)
    if not sides[side]:
        return
    parts = branches(data.draw, subject, state, sides)
    event = an_event(data.draw, subject, sides[side])
    outputs, parts_after = [], list(parts)
    outputs, parts_after[side] = processed(subject, parts[side], event)
    assert (outputs, joined(subject, *parts_after)) == processed(subject, joined(subject, *parts), event)


@every_program
@brief
@given(data=st.data())
def test_independent_events_commute(subject, data):
    state, tags = data.draw(wires(subject))
    pairs = [(a, b) for a in tags for b in tags if not subject.program.dependence(a, b)]
    if not pairs:
        return
    first, second = (
        dgs.Event(tag, "stream", 0, data.draw(subject.payloads)) for tag in data.draw(st.sampled_from(pairs))
    )
    first_before, between = processed(subject, state, first)
    second_after, one_way = processed(subject, between, second)
    second_before, between = processed(subject, state, second)
    first_after, other_way = processed(subject, between, first)
    assert (first_before, second_after, one_way) == (first_after, second_before, other_way)


def diagram(draw, subject, state, tags, events):
    """Execute numbered events along a random wire diagram: the outputs of each, by number, and the last state."""
    outputs = {}
    while events:
        left, right = independent_sides(draw, subject, tags) if draw(st.booleans()) else ([], [])
        group = leading(events, {*left, *right})
        if not group:
            (number, event), *events = events
            outputs[number], state = processed(subject, state, event)
            continue
        events = events[len(group) :]
        goes_left = [
            event.tag in left and (event.tag not in right or draw(st.booleans())) for _, event in group
        ]
        parts = []
        for part, side, here in zip(
            forked(subject, state, left, right), (left, right), (True, False), strict=True
        ):
            mine = [item for item, is_left in zip(group, goes_left, strict=True) if is_left is here]
            some, after = diagram(draw, subject, part, side, mine)
            outputs |= some
            parts.append(after)
        state = joined(subject, *parts)
    return outputs, state


def leading(events, tags):
    """Return the longest prefix of events whose tags are all among those given."""
    stop = next((i for i, (_, event) in enumerate(events) if event.tag not in tags), len(events))
    return events[:stop]


@every_program
@brief
@given(data=st.data())
def test_every_wire_diagram_gives_the_sequential_outputs(subject, data):
    events = [
        an_event(data.draw, subject, subject.tags) for _ in range(data.draw(st.integers(0, 10), label="size"))
    ]
    expected, state = {}, subject.program.init()
    for number, event in enumerate(events):
        expected[number], state = processed(subject, state, event)
    outputs, last = diagram(
        data.draw, subject, subject.program.init(), list(subject.tags), list(enumerate(events))
    )
    assert (outputs, last) == (expected, state)


@given(value=st.integers(-9, 9), total=st.integers(-99, 99))
def test_values_of_the_event_window_accumulate(value, total):
    window = load("event_window")
    subject = Subject("event_window", window.EventWindow(), (), st.nothing())
    event = dgs.Event(window.VALUE(), "stream", 0, value)
    outputs, alone = processed(subject, subject.program.identity(), event)
    assert (outputs, joined(subject, total, alone)) == processed(subject, total, event)
