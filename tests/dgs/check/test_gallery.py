"""The gallery: wrong programs are found and named in few events, and right programs pass."""

from __future__ import annotations

import statistics
import time

import pytest

import dgs
from tests.gallery.right_named import RIGHT
from tests.gallery.wrong_named import WRONG
from tests.selection import every_other

SEEDS = 8
MOST_EVENTS = 3
TYPICAL_EVENTS = 2
NEED_THREE = {"capped_points", "float_sum", "lists_a_dict", "lists_a_set", "mean_of_means"}
"""Programs whose mistake no two events show. (Two events with a hundred points do, but shrinking seldom finds them.)"""
SECONDS = 10
"""The longest CPU time of this process: other load does not count."""
IN_A_HURRY = 50
"""Examples in the quick tests."""

every_wrong = pytest.mark.parametrize("name", every_other(sorted(WRONG)))
every_third_wrong = pytest.mark.parametrize("name", sorted(WRONG)[::3])
every_right = pytest.mark.parametrize("name", every_other(sorted(RIGHT)))
every_third_right = pytest.mark.parametrize("name", sorted(RIGHT)[::3])


def found_in(name, seed, **options):
    """Return the first law that a wrong program breaks, and the number of events of its counterexample."""
    broken = dgs.check(WRONG[name].make(), seed=seed, **options).broken
    if not broken:
        return None, 0
    return broken[0].law, 0 if broken[0].scenario is None else broken[0].scenario.event_count


def test_gallery_is_large_enough():
    assert len(WRONG) >= 20
    assert len(RIGHT) >= 10


@every_third_wrong
def test_wrong_program_is_found_out(name):
    law, events = found_in(name, seed=1, max_examples=IN_A_HURRY)
    assert law in WRONG[name].laws
    assert events <= MOST_EVENTS


@pytest.mark.slow
@every_wrong
def test_wrong_program_is_found_out_from_nearly_every_seed(name):
    found, seconds = [], []
    for seed in range(SEEDS):
        started = time.process_time()
        found.append(found_in(name, seed))
        seconds.append(time.process_time() - started)
    assert max(seconds) <= SECONDS
    assert sum(law in WRONG[name].laws for law, _ in found) >= SEEDS - 1
    assert max(events for _, events in found) <= MOST_EVENTS
    assert statistics.median(events for _, events in found) <= (
        MOST_EVENTS if name in NEED_THREE else TYPICAL_EVENTS
    )


@pytest.mark.slow
def test_counterexamples_have_two_events_in_the_median():
    assert statistics.median(found_in(name, seed=1)[1] for name in WRONG) <= 2


@every_third_right
def test_right_program_raises_no_alarm(name):
    report = dgs.check(RIGHT[name].make(), max_examples=IN_A_HURRY, **RIGHT[name].options)
    assert report, str(report)


@pytest.mark.slow
@every_right
def test_right_program_raises_no_alarm_from_any_seed(name):
    for seed in range(SEEDS):
        report = dgs.check(RIGHT[name].make(), seed=seed, **RIGHT[name].options)
        assert report, str(report)
