"""Wishes for a run, as several processes leave them at once: none is lost, each kind in its turn."""

import itertools
import signal

import pytest

from dgs.errors import OutputUnwritableError
from dgs.workers.runtime.control import Control, Wish, forget_wishes, leave_wish


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path, clock=itertools.count().__next__)


def test_wish_to_stop_is_not_lost_behind_one_to_move(control, tmp_path):
    leave_wish(tmp_path, Wish("stop"))
    leave_wish(tmp_path, Wish("replan", "dgs replan", "a"))
    assert control.wish() == Wish("stop")
    control.take()
    leave_wish(tmp_path, Wish("replan", "dgs replan", "b"))
    assert control.wish() == Wish("replan", "dgs replan", "a")
    leave_wish(tmp_path, Wish("stop"))
    assert control.wish() == Wish("stop")


def test_wishes_to_move_are_granted_one_after_the_other(control, tmp_path):
    wishes = [Wish("replan", "dgs replan", plan) for plan in "abc"]
    for wish in wishes:
        leave_wish(tmp_path, wish)
    for wish in wishes:
        assert control.wish() == control.wish() == wish
        control.take()
    assert control.wish() is None


def test_what_nobody_left_as_a_wish_is_no_wish(control, tmp_path):
    (tmp_path / "wish-1.stop").write_text("[")
    (tmp_path / "wish-2.stop").write_text('{"act": 1}')
    (tmp_path / "wish-3.replan").mkdir()
    assert control.wish() is None


@pytest.mark.parametrize(
    ("before", "wish"), [(signal.SIG_IGN, None), (signal.SIG_DFL, Wish("stop", "SIGINT"))]
)
def test_signal_is_a_wish_to_stop_unless_it_was_ignored(control, before, wish):
    known = signal.signal(signal.SIGINT, before)
    try:
        with control.listening(patience=60):
            signal.raise_signal(signal.SIGINT)
            assert control.wish() == wish
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, known)


def test_wishes_are_forgotten(control, tmp_path):
    leave_wish(tmp_path, Wish("stop"))
    forget_wishes(tmp_path)
    assert control.wish() is None
    assert not list(tmp_path.iterdir())


def test_wish_that_cannot_be_left_says_where(tmp_path):
    (tmp_path / "control").write_text("a file")
    with pytest.raises(OutputUnwritableError, match="control"):
        leave_wish(tmp_path / "control", Wish("stop"))
