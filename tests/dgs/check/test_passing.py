"""Times of random events are as far apart as the constants in the program's code."""

import datetime as dt
import re

import dgs
from dgs.check.drawing.time_steps import passes
from tests.gallery.wrong import Window
from tests.gallery.wrong_streams import ForgetsOthers

HOUR = dt.timedelta(hours=1)


class Timed(dgs.Program):
    span = 60

    def __init__(self, gap=0):
        self.gap = gap

    def init(self):
        return 0

    def update(self, state, event, emit):
        return event.ts


class CountsWindows(Timed):
    """Loops over all windows that have passed."""

    def update(self, state, event, emit):
        while state < event.ts:
            state += 1
        return state


def jumps(program):
    return {one for one in passes(program, [(dgs.Tag("n"), None)]) if one > 1}


def test_time_jumps_by_constants_of_the_program_and_its_class():
    assert jumps(Timed(900)) == {60, 61, 900, 901}


def test_timedelta_is_a_jump_in_every_unit():
    assert {3600, 3_600_000, 3_600_000_000_000} <= jumps(Timed(HOUR))


def test_time_stands_still_sometimes_and_a_tick_is_simplest():
    made = passes(Timed(), [])
    assert (made[0], 0 in made) == (1, True)


def test_time_does_not_jump_where_updates_would_take_forever():
    assert jumps(CountsWindows(10**14)) == {60, 61}


def test_programs_that_ignore_time_get_ticks():
    assert passes(Window(), []) == (1,)


def test_report_shows_timestamps_if_the_program_reads_them():
    (found,) = dgs.check(ForgetsOthers, max_examples=40).broken
    assert found.law == "C3"
    assert re.search(r"put\('\w'\) at 6\d{4} with payload ", str(found))
