"""Programs under random plans: a wrong one is reported with a small plan, a small input and its wrong outputs."""

import math

import pytest

import dgs
from dgs.monoids import SUM, Windows
from dgs.testing import run_plans
from dgs.workers.simulated import random_plans
from dgs.workers.simulated.random_plans import PlanFailed
from tests import programs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(Windows):
    monoid = SUM
    accumulates = (VALUE,)
    closes = (BARRIER,)


class KeepsLarger(programs.EventWindow):
    """Has a wrong join."""

    def join(self, left, right):
        return max(left, right)


class Raises(Sums):
    def join(self, left, right):
        if left and right:
            raise ValueError("no")
        return left + right


STREAMS = {
    "barriers": [(BARRIER(), ts, None) for ts in (10, 20, 30)],
    "values": [(VALUE(), ts, ts) for ts in range(1, 30)],
    "more": [(VALUE(), ts, 100) for ts in range(1, 30, 4)],
}


@pytest.fixture(autouse=True)
def _time_to_make_it_small(monkeypatch):
    """Allow enough time for shrinking, however slow the machine is."""
    monkeypatch.setattr(random_plans, "LONGEST_SHRINKING", math.inf)


def failure(program, streams=STREAMS, **options):
    with pytest.raises(PlanFailed) as failed:
        run_plans(program, streams, **options)
    return failed.value


def test_consistent_program_passes_under_plans_of_many_sizes():
    done = run_plans(Sums, STREAMS, 25)
    assert done.runs == 25
    assert done.plans > 5
    assert done.fewest < done.most
    assert str(done).startswith("25 runs under random plans gave the sequential outputs: ")


def test_program_without_fork_is_reported_with_one_worker():
    class Alone(dgs.Program):
        def init(self):
            return 0

        def update(self, state, event, emit):
            return state

    assert "one worker only" in str(run_plans(Alone, {"s": [("a", 1, None)]}, 3))


def test_failure_has_a_small_input_a_small_plan_and_the_difference():
    error = failure(KeepsLarger)
    events = [
        event for batches in error.case.streams.values() for batch in batches for event in batch.events()
    ]
    assert len(events) == 3
    assert sorted(event.tag.kind for event in events) == ["barrier", "value", "value"]
    assert len(error.plan) == 3
    shown = str(error).splitlines()
    assert "├── " in shown[2]
    assert "barriers: barrier@" in str(error)
    assert ", sequentially " in str(error)
    assert shown[-1] == f"replay it with: dgs.testing.run_plans(..., 1, seed={error.seed})"


def test_failure_is_seen_again_from_its_seed():
    first = failure(KeepsLarger)
    assert str(failure(KeepsLarger, n=1, seed=first.seed)) == str(first)


def test_user_code_that_raises_under_a_plan_only_is_a_failure():
    error = failure(Raises)
    assert "ValueError: no" in str(error)


def test_user_code_that_always_raises_is_the_users_error():
    class Broken(Sums):
        def update(self, state, event, emit):
            raise ZeroDivisionError

    with pytest.raises(dgs.DgsError, match="ZeroDivisionError"):
        run_plans(Broken, STREAMS)


def test_floats_may_differ_by_the_tolerance():
    values = [(VALUE(), ts, 0.1 * ts) for ts in range(1, 30)]
    run_plans(Sums, {**STREAMS, "values": values}, 10, tolerance=1e-9)


def test_failure_with_keys_of_any_text_is_reported_with_a_small_plan():
    put, take, ask = (dgs.kind(name, key=str) for name in ("put", "take", "ask"))

    class CopiesOutliveRemovals(dgs.Program):
        depends = dgs.Dependence(
            (put, take, dgs.SAME_KEY), (ask, put, dgs.SAME_KEY), (ask, take, dgs.SAME_KEY)
        )

        def init(self):
            return set()

        def update(self, state, event, emit):
            if event.tag.kind == ask:
                emit(event.tag.key in state)
                return state
            return state | {event.tag.key} if event.tag.kind == put else state - {event.tag.key}

        def fork(self, state, left, right):
            return set(state), set(state)

        def join(self, left, right):
            return left | right

    streams = {
        "changes": [(put("a"), 1, None), (take("a"), 3, None), (put("b"), 4, None)],
        "asks": [(ask("a"), 2, None), (ask("a"), 6, None), (ask("b"), 7, None)],
    }
    assert "hash%" not in str(failure(CopiesOutliveRemovals, streams, n=30))


def test_stream_without_events_is_no_reason_to_fail():
    assert run_plans(Sums, {"values": []}, 2).runs == 2
