"""The laws of the programs in tests/programs.py: C1 on both sides, C2 and C3 on reachable states, and `update_batch`."""

import copy
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model import columns
from dgs.model.tag_sets import TagSet
from dgs.semantics import sequential
from tests.strategies import SUBJECTS, chance, random_sides, random_workload

each_program = pytest.mark.parametrize("subject", SUBJECTS)
brief = settings(max_examples=20, deadline=None)
randoms = st.randoms(use_true_random=False)


def stepped(update, state, event):
    """Return the state after an event and its outputs, leaving the given state alone."""
    outputs = []
    after = update(copy.deepcopy(state), event, outputs.append)
    return after, outputs


class Scene:
    """A program, a reachable state of some type, its predicate, and possible next events."""

    def __init__(self, rnd, subject):
        workload = random_workload(rnd, subject)
        self.rnd, self.program = rnd, workload.program
        events = [event for _, event in sequential.merge(workload.batches)]
        cut = rnd.randint(0, len(events))
        self.events = events[cut:]
        self.of, self.tags = self.program.states()[0], TagSet.everything()
        self.state = self.program.init()
        for event in events[:cut]:
            self.state, _ = stepped(self.of.update, self.state, event)
        for _ in range(3):
            self.descend()

    def pairs(self):
        return [pair for pair in self.program.fork_joins() if pair.parent == self.of.name]

    def sides(self, pair):
        return random_sides(self.rnd, self.program, pair, self.tags, [event.tag for event in self.events])

    def fork(self, pair, left, right):
        return pair.fork(copy.deepcopy(self.state), left, right)

    def types(self, pair):
        types = {one.name: one for one in self.program.states()}
        return types[pair.left], types[pair.right]

    def descend(self):
        """Fork and descend into one side after some of its events, or stop here."""
        pairs = self.pairs()
        if not pairs or not chance(self.rnd, 0.5):
            return
        pair = self.rnd.choice(pairs)
        tags = self.sides(pair)
        side = self.rnd.randrange(2)
        self.state = self.fork(pair, *tags)[side]
        self.of, self.tags = self.types(pair)[side], tags[side]
        self.events = [event for event in self.events if event.tag in self.tags]


@each_program
@brief
@given(rnd=randoms)
def test_c1_an_update_before_a_join_equals_the_update_after_it(subject, rnd):
    scene = Scene(rnd, subject)
    for pair in scene.pairs():
        tags = scene.sides(pair)
        sides, types = list(scene.fork(pair, *tags)), scene.types(pair)
        for event in scene.events:
            for side in range(2):
                if event.tag not in tags[side]:
                    continue
                updated = copy.deepcopy(sides)
                updated[side], outputs = stepped(types[side].update, sides[side], event)
                joined = pair.join(*copy.deepcopy(sides))
                after, expected = stepped(scene.of.update, joined, event)
                assert outputs == expected
                assert pair.join(*copy.deepcopy(updated)) == after
                sides = updated
                break


@each_program
@brief
@given(rnd=randoms)
def test_c2_joining_a_fork_gives_the_state(subject, rnd):
    scene = Scene(rnd, subject)
    for pair in scene.pairs():
        assert pair.join(*scene.fork(pair, *scene.sides(pair))) == scene.state


@each_program
@brief
@given(rnd=randoms)
def test_c3_independent_events_commute(subject, rnd):
    scene = Scene(rnd, subject)
    events = scene.events[:6]
    for i, one in enumerate(events):
        for other in events[i + 1 :]:
            if not scene.program.dependence(one.tag, other.tag):
                first, of_one = stepped(scene.of.update, scene.state, one)
                both, of_other = stepped(scene.of.update, first, other)
                second, other_first = stepped(scene.of.update, scene.state, other)
                swapped, one_last = stepped(scene.of.update, second, one)
                assert (both, of_one, of_other) == (swapped, one_last, other_first)


@pytest.mark.parametrize("subject", ["counters", "event_window", "last_value_join"])
@brief
@given(rnd=randoms)
def test_update_batch_equals_the_fold(subject, rnd):
    workload = random_workload(rnd, subject, most_events=20)
    state_type = workload.program.states()[0]
    for stream in workload.batches:
        one, other = workload.program.init(), workload.program.init()
        for batch in stream:
            expected, emitted = [], []
            for row, event in enumerate(batch.events()):
                one = state_type.update(
                    one, event, lambda value, row=row, into=expected: into.append((row, value))
                )

            def emit_batch(values, rows=None, batch=batch, emitted=emitted):
                rows = np.arange(len(batch)) if rows is None else rows
                assert (np.diff(rows) >= 0).all()
                emitted.extend(zip(rows.tolist(), columns.to_list(values), strict=True))

            other = state_type.update_batch(other, batch, emit_batch)
            assert (other, emitted) == (one, expected)


@each_program
def test_every_program_gives_different_outputs_when_dependent_events_are_swapped(subject):
    """Otherwise the program would not test ordering."""
    shown = 0
    for seed in range(30):
        scene = Scene(random.Random(seed), subject)
        for one, other in zip(scene.events, scene.events[1:], strict=False):
            first, of_one = stepped(scene.of.update, scene.state, one)
            _, of_other = stepped(scene.of.update, first, other)
            second, other_first = stepped(scene.of.update, scene.state, other)
            _, one_last = stepped(scene.of.update, second, one)
            shown += (of_one, of_other) != (one_last, other_first)
    assert shown


@each_program
@brief
@given(rnd=randoms)
def test_random_workload_is_well_formed(subject, rnd):
    workload = random_workload(rnd, subject)
    for rank, (stream, tags, feed) in enumerate(
        zip(workload.stream_ids, workload.tags, workload.feeds, strict=True)
    ):
        frontier, last = (-(2**63), 0), -1
        for item in feed:
            if not hasattr(item, "seq"):
                assert item.stream == stream
                frontier = max(frontier, (item.ts + 1, 0))
                continue
            assert (item.stream, item.rank) == (stream, rank)
            for row, event in enumerate(item.events()):
                assert event.tag in tags
                assert frontier <= (event.ts, int(item.seq[row]))
                assert item.seq[row] > last
                last = int(item.seq[row])
                frontier = (event.ts, last + 1)


def test_random_workload_is_the_same_for_the_same_seed():
    one, other = (repr([random_workload(random.Random(seed)) for seed in range(20)]) for _ in range(2))
    assert one == other


def test_random_workload_has_ties_shared_tags_and_empty_streams():
    made = [random_workload(random.Random(seed)) for seed in range(100)]
    times = [[e.ts for s in w.batches for b in s for e in b.events()] for w in made]
    assert sum(len(set(ts)) < len(ts) / 2 for ts in times) > 20
    assert sum(any(not stream for stream in w.batches) for w in made) > 20
    assert sum(any(not a.isdisjoint(b) for a in w.tags for b in w.tags if a is not b) for w in made) > 20
    assert sum(any(not hasattr(item, "seq") for feed in w.feeds for item in feed) for w in made) > 20
