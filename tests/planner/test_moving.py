"""Moves to other plans, in virtual time: none while rates stay the same, one when another key becomes hot, never two in a minute."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from dgs.planner.moving import LARGEST_SHARE, LOOKS, REST_SECONDS, Moving
from dgs.planner.optimizers.by_name import plan
from dgs.planner.prediction.choice import cautious
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Predictor
from dgs.planner.topology import Machine, Stream, Topology

AFTER, GAIN = 30.0, 1.3
EVERY = AFTER / LOOKS
MINUTES = 60.0
KEYS = tuple(range(5))
ADD, ALL = kind("add", key=int), kind("all")
COSTS = Costs(update=1e-4)

Rates = Mapping[Tag, float]


class PerKey(Program):
    """Adds are independent unless they have the same key; `all` needs the states of all keys."""

    depends = Dependence((ADD, ADD, SAME_KEY), (ALL, ADD, ALWAYS), (ALL, ALL, ALWAYS))

    def fork(self, state, left, right):
        return state, state

    def join(self, left, right):
        return left


def at(rates: Rates) -> Topology:
    """Return two hosts and a stream with these rates."""
    tags = TagSet.of(*(ADD(key) for key in KEYS), ALL())
    return Topology([Stream("s", tags, rates)], [Machine("here", 2)], hosts=2)


def best_at(rates: Rates):
    return plan(PerKey(), at(rates), name="cost", costs=COSTS)


class Run:
    """A run in virtual time that follows the advice to move. `moves`: the times of its moves."""

    def __init__(self, rates: Rates) -> None:
        self.plan = best_at(rates)
        self.moving = Moving(after=AFTER, gain=GAIN)
        self.moves: list[float] = []

    def goes_on(self, until: float, rates_at: Callable[[float], Rates]) -> None:
        now = 0.0
        while now < until:
            counts = {("s", tag): rate * EVERY for tag, rate in rates_at(now).items()}
            seen = self.moving.counted(now, counts)
            if seen is not None:
                self.compare(now, {tag: rate for (_, tag), rate in seen.items()})
            now += EVERY

    def compare(self, now: float, rates: Rates) -> None:
        predictor, best = Predictor(PerKey(), at(rates), COSTS), best_at(rates)
        if self.moving.compared(
            now, cautious(predictor.predict(best)) / cautious(predictor.predict(self.plan))
        ):
            self.moves.append(now)
            self.plan = best
            self.moving.begin()


@st.composite
def some_rates(draw) -> Rates:
    rates = {ADD(key): float(draw(st.integers(0, 1000))) for key in KEYS}
    return {**rates, ADD(0): 500.0, ALL(): draw(st.sampled_from([0.0, 0.01, 1.0, 50.0]))}


@settings(max_examples=2, deadline=None)
@given(some_rates(), st.sampled_from([0.0, 0.2]), st.integers(0, 9))
def test_rates_that_stay_move_nothing_in_ten_minutes(rates, noise, seed):
    rnd = random.Random(seed)
    run = Run(rates)
    noisy = lambda _: {tag: rate * rnd.uniform(1 - noise, 1 + noise) for tag, rate in rates.items()}  # noqa: E731
    run.goes_on(10 * MINUTES, noisy)
    assert run.moves == []


@settings(max_examples=2, deadline=None)
@given(
    st.permutations(KEYS), st.floats(3 * MINUTES, 7 * MINUTES), st.sampled_from([0.0, 0.2]), st.integers(0, 9)
)
def test_hot_key_that_moves_half_way_leads_to_one_move(keys, half, noise, seed):
    rnd = random.Random(seed)
    old, new = ({ADD(key): 500.0 if key == hot else 100.0 for key in KEYS} for hot in keys[:2])
    run = Run(old)
    run.goes_on(
        10 * MINUTES,
        lambda now: {
            tag: rate * rnd.uniform(1 - noise, 1 + noise)
            for tag, rate in (old if now < half else new).items()
        },
    )
    assert len(run.moves) == 1
    assert half + AFTER <= run.moves[0] <= half + 3 * AFTER
    predictor = Predictor(PerKey(), at(new), COSTS)
    best = predictor.predict(best_at(new)).throughput
    assert predictor.predict(run.plan).throughput > best / GAIN


GAINS = st.lists(st.floats(0.5, 5.0), min_size=60, max_size=120)


@given(GAINS, st.floats(0.5, 60.0), st.lists(st.booleans(), min_size=120, max_size=120))
def test_moves_are_a_minute_apart_and_each_was_worth_it_for_long_enough(gains, after, restarts):
    moving, moves, worth_since = Moving(after=after, gain=GAIN), [], None
    for number, (gain, is_restarted) in enumerate(zip(gains, restarts, strict=False)):
        now = number * after / LOOKS
        if is_restarted and gain < 1:
            moving.begin()
            worth_since = None
        worth_since = None if gain < GAIN else now if worth_since is None else worth_since
        if moving.counted(now, {("s", None): 1.0}) is None:
            continue
        if moving.compared(now, gain):
            assert worth_since is not None
            assert now - worth_since >= after * (1 - 1e-9)
            moves.append(now)
            moving.begin()
            worth_since = None
    assert all(later - earlier >= REST_SECONDS for earlier, later in pairwise(moves))


def test_a_plan_that_stays_better_is_reported_once():
    moving = Moving(after=6.0, gain=GAIN)
    gains = {float(now): 1.0 if 100 <= now < 110 else 2.0 for now in range(300)}
    said = [
        now
        for now, gain in gains.items()
        if moving.counted(now, {("s", None): 1.0}) and moving.compared(now, gain)
    ]
    assert said == [12.0, 116.0]


def test_plans_are_compared_for_a_small_share_of_the_time():
    moving, compared = Moving(after=6.0, gain=GAIN), 0
    for now in map(float, range(1000)):
        if moving.counted(now, {("s", None): 1.0}) is not None:
            compared += 1
            moving.compared(now, 1.0, took=1.0)
    assert compared == pytest.approx(1000 * LARGEST_SHARE, abs=2)


def test_a_gain_is_confirmed_soon_though_comparisons_take_long():
    moving, moves = Moving(after=6.0, gain=GAIN), []
    for now in map(float, range(400)):
        if moving.counted(now, {("s", None): 1.0}) is not None:
            moves += [now] if moving.compared(now, 2.0, took=2.0) else []
    assert moves == [12.0]


def test_a_run_without_events_has_no_rates_to_compare_plans_at():
    moving = Moving(after=6.0, gain=GAIN)
    assert [moving.counted(float(now), {}) for now in range(20)] == [None] * 20
