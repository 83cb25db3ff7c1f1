"""Requests that several processes post to a run at once: none is lost, and each kind gets its turn."""

import itertools
import signal

import pytest

from dgs.errors import OutputUnwritableError
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime.control import Control, forget_requests, post


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path, clock=itertools.count().__next__)


def test_request_to_stop_is_not_lost_after_one_to_move(control, tmp_path):
    post(tmp_path, ControlRequest("stop"))
    post(tmp_path, ControlRequest("replan", "dgs replan", "a"))
    assert control.pending() == ControlRequest("stop")
    control.take()
    post(tmp_path, ControlRequest("replan", "dgs replan", "b"))
    assert control.pending() == ControlRequest("replan", "dgs replan", "a")
    post(tmp_path, ControlRequest("stop"))
    assert control.pending() == ControlRequest("stop")


def test_requests_to_move_are_met_one_after_the_other(control, tmp_path):
    requests = [ControlRequest("replan", "dgs replan", plan) for plan in "abc"]
    for request in requests:
        post(tmp_path, request)
    for request in requests:
        assert control.pending() == control.pending() == request
        control.take()
    assert control.pending() is None


def test_file_that_was_not_posted_is_no_request(control, tmp_path):
    (tmp_path / "request-1.stop").write_text("[")
    (tmp_path / "request-2.stop").write_text('{"act": 1}')
    (tmp_path / "request-3.replan").mkdir()
    assert control.pending() is None


@pytest.mark.parametrize(
    ("before", "pending"), [(signal.SIG_IGN, None), (signal.SIG_DFL, ControlRequest("stop", "SIGINT"))]
)
def test_signal_is_a_request_to_stop_unless_it_was_ignored(control, before, pending):
    known = signal.signal(signal.SIGINT, before)
    try:
        with control.listening(patience=60):
            signal.raise_signal(signal.SIGINT)
            assert control.pending() == pending
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, known)


def interrupted(control, *signals):
    with control.listening(patience=60.0):
        for number in signals:
            signal.raise_signal(number)
        raise KeyboardInterrupt  # as Ray converts our handler's exception


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_plain_interrupt_has_the_exit_code_of_the_signal_that_came(control, number, code):
    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted(control, number)
    assert raised.value.exit_code == code


def test_an_interrupt_without_a_signal_is_passed_on_as_it_is(control):
    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted(control)
    assert not hasattr(raised.value, "exit_code")


def test_requests_are_forgotten(control, tmp_path):
    post(tmp_path, ControlRequest("stop"))
    forget_requests(tmp_path)
    assert control.pending() is None
    assert not list(tmp_path.iterdir())


def test_request_that_cannot_be_posted_says_where(tmp_path):
    (tmp_path / "control").write_text("a file")
    with pytest.raises(OutputUnwritableError, match="control"):
        post(tmp_path / "control", ControlRequest("stop"))


def test_no_request_can_come_without_a_directory_and_signals(tmp_path):
    alone = Control(None)
    assert not alone.can_be_asked
    assert Control(tmp_path).can_be_asked
    with alone.listening(patience=1.0):
        assert alone.can_be_asked
