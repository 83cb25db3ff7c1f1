"""The stages of a request to stop or to move, and which of them end a generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.workers.recovery.coordinator import ControlRequest, Stage, StopRequest

STOP = ControlRequest("stop")
MOVE = ControlRequest("replan", "dgs replan", "plan.yaml")


def asked(request=STOP, *, now=0.0):
    stop = StopRequest(timeout=10.0)
    stop.ask(request, now=now)
    return stop


def test_stop_goes_from_being_asked_to_its_checkpoint():
    stop = asked()
    assert (stop.stage, stop.due(now=0.0)) == (Stage.ASKED, None)
    stop.snapshot_requested()
    assert (stop.stage, stop.due(now=1.0)) == (Stage.REQUESTED, None)
    stop.committed(3)
    assert (stop.stage, stop.due(now=2.0)) == (Stage.COMMITTED, STOP)
    assert stop.end() == 3
    assert (stop.stage, stop.request, stop.due(now=3.0)) == (Stage.NONE, None, None)


def test_snapshot_that_was_under_way_before_the_request_is_good_enough():
    stop = asked()
    stop.committed(3)
    assert stop.due(now=0.0) == STOP


def test_snapshot_that_is_not_saved_is_requested_again():
    stop = asked()
    stop.snapshot_requested()
    stop.not_saved()
    assert (stop.stage, stop.due(now=0.0)) == (Stage.ASKED, None)


@pytest.mark.parametrize("is_requested", [False, True])
def test_stop_ends_without_a_checkpoint_after_its_time(is_requested):
    stop = asked(now=5.0)
    if is_requested:
        stop.snapshot_requested()
    assert stop.due(now=15.0) is None
    assert stop.due(now=15.1) == STOP
    assert (stop.stage, stop.end()) == (Stage.TIMED_OUT, None)


def test_checkpoint_that_comes_too_late_counts():
    stop = asked()
    stop.due(now=11.0)
    stop.committed(3)
    assert stop.end() == 3


def test_move_never_ends_a_generation_without_a_checkpoint():
    stop = asked(MOVE)
    assert stop.due(now=1e9) is None
    stop.committed(3)
    assert stop.due(now=1e9) == MOVE


def test_stop_that_replaces_a_move_has_time_of_its_own():
    stop = asked(MOVE)
    stop.ask(STOP, now=100.0)
    assert stop.due(now=110.0) is None
    assert stop.due(now=110.1) == STOP


def test_checkpoint_for_a_move_is_good_for_the_stop_that_replaces_it():
    stop = asked(MOVE)
    stop.committed(3)
    stop.ask(STOP, now=1.0)
    assert (stop.due(now=1.0), stop.end()) == (STOP, 3)


def test_a_second_request_gives_no_more_time():
    stop = asked()
    stop.ask(STOP, now=9.0)
    assert stop.due(now=10.1) == STOP


def test_lost_generation_takes_its_snapshot_along():
    stop = asked()
    stop.snapshot_requested()
    stop.generation_lost()
    assert stop.due(now=20.0) is None
    stop.ask(STOP, now=20.0)
    assert (stop.stage, stop.due(now=30.0)) == (Stage.ASKED, None)


def test_commits_survive_the_generation():
    stop = asked()
    stop.committed(3)
    stop.generation_lost()
    stop.ask(STOP, now=20.0)
    assert (stop.due(now=20.0), stop.end()) == (STOP, 3)


STEPS = st.sampled_from(["stop", "move", "requested", "not saved", "committed", "lost", "later", "end"])


@given(st.lists(STEPS, max_size=20))
def test_generation_ends_only_for_a_request_that_is_committed_or_out_of_time(steps):
    """The oracle is the law of the class, over the steps since the request in this generation."""
    stop, now = StopRequest(timeout=10.0), 0.0
    pending, since, is_committed = None, 0.0, False
    for step in steps:
        if step in ("stop", "move"):
            wanted = STOP if step == "stop" else MOVE
            stop.ask(wanted, now=now)
            if wanted != pending:
                pending, since = wanted, now
        elif step == "requested":
            stop.snapshot_requested()
        elif step == "not saved":
            stop.not_saved()
        elif step == "committed":
            stop.committed(1)
            is_committed = is_committed or pending is not None
        elif step == "lost":
            stop.generation_lost()
            pending = pending if is_committed else None
        elif step == "later":
            now += 6.0
        else:
            stop.end()
            pending, is_committed = None, False
        is_late = pending == STOP and now > since + 10.0
        assert (stop.due(now=now) is not None) == (pending is not None and (is_committed or is_late))
