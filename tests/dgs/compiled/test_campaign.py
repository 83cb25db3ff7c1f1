"""Many random runs of each application and test program: no output, state or error differs when they are compiled."""

import pytest

import dgs
from dgs.monoids import COUNT, SUM, Windows
from dgs.semantics.sequential import without_batches
from experiments.evaluation.real_programs import Latest, Running
from experiments.event_window.program import EventWindow
from experiments.flights.program import FlightsJoin
from experiments.fraud_detection.program import CyclicFraudDetection, FraudDetection
from experiments.page_view_join.program import PageViewJoin
from tests import programs
from tests.dgs.compiled.random_runs import Runs, tags_of
from tests.selection import MANY

FEW = 40


class Range(dgs.Program):
    """Keeps the minimum, maximum and sum of floats, and raises for large ones."""

    def init(self):
        return None, None, 0.0

    def update(self, state, event, emit):
        least, most, total = state
        number = event.payload
        if event.tag.kind == "barrier":
            emit({"least": least, "most": most, "total": total})
            return None, None, -0.0
        if number > 10**9:
            raise ValueError(f"{number} is too large")
        least = number if least is None else min(number, least)
        return least, number if most is None else max(most, number), total + number / (number + 2.0)


def windows(monoid):
    """Return a program of windows of a monoid."""
    of = type("W", (Windows,), {"monoid": monoid, "accumulates": ("value",), "closes": ("barrier",)})
    return of()


WINDOW, FRAUD = tags_of("value", "barrier"), tags_of("transaction", "rule")
PROGRAMS = {
    "event window": (EventWindow(), WINDOW, {}),
    "range of floats": (Range(), WINDOW, {"floats": True}),
    "windows of sums": (windows(SUM), WINDOW, {}),
    "windows of counts": (windows(COUNT), WINDOW, {"objects": True}),
    "fraud": (FraudDetection(), FRAUD, {}),
    "cyclic fraud": (CyclicFraudDetection(), FRAUD, {}),
    "page view": (PageViewJoin(), tags_of("update", "view", keys=(0, 1)), {}),
    "flights": (FlightsJoin(), tags_of("update", "view", keys=("EWR", "JFK", "LGA")), {"objects": True}),
    "latest": (Latest(), tags_of("write", "read", keys=("p", "q")), {}),
    "running": (Running(), tags_of("write", keys=("p", "q", "r")), {}),
    "a window of the tests": (programs.EventWindow(), WINDOW, {}),
    "a join of the tests": (programs.LastValueJoin(), tags_of("update", "view", keys=(1, 2)), {}),
}


def campaign(name, runs):
    """Return the random runs of a program that differ, and the compiled update."""
    program, tags, options = PROGRAMS[name]
    done = Runs(without_batches(program), tags, **options)
    return done.differing(range(runs)), done


@pytest.mark.usefixtures("machine")
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_runs_are_those_of_the_interpreter(name):
    wrong, done = campaign(name, MANY)
    assert not wrong
    assert done.compiled > done.interpreted
