"""Measuring: runs are interleaved and compared, and wrong or failed ones do not count."""

from types import SimpleNamespace

import pytest

from dgs.bench.measuring import Contestant, Expected, Measured, measured, medians
from dgs.errors import UsageError

RIGHT = Expected.of([[1, 2]], events=10)


def contestant(engine, *, seconds=(1.0,), outputs=([1, 2],), log=None, check=None, count=None):
    times = iter(seconds)

    def run():
        if log is not None:
            log.append(engine)
        return Measured(10, next(times), outputs, count)

    return Contestant("app", engine, "scalar", expected=RIGHT, run=run, check=check)


def test_repetitions_are_interleaved():
    log = []
    group = [contestant(name, seconds=(1, 1), log=log) for name in "AB"]
    samples = list(measured(group, repetitions=2))
    assert log == ["A", "B", "A", "B"]
    assert [(sample.engine, sample.repetition) for sample in samples] == [
        ("A", 0),
        ("B", 0),
        ("A", 1),
        ("B", 1),
    ]


def test_medians_are_of_the_times_and_not_of_the_best():
    (row,) = medians(measured([contestant("A", seconds=(5.0, 1.0, 2.0))], repetitions=3))
    assert (row["seconds"], row["eps"], row["samples"]) == (2.0, 5.0, 3)


def test_wrong_outputs_are_a_problem():
    (row,) = medians(measured([contestant("A", outputs=([1, 3],))], repetitions=1))
    assert "other outputs" in row["problem"]


def test_explanation_may_find_outputs_close_enough():
    close = Expected(RIGHT.fingerprint, explain=lambda _: [])
    far = Expected(RIGHT.fingerprint, explain=lambda _: ["missing: 2"])
    done = Measured(10, 1.0, [[1, 2.1]])
    assert (close.problem(done), far.problem(done)) == (None, "missing: 2")


def test_outputs_that_are_not_collected_are_counted():
    problems = [
        sample.problem
        for count in (2, 3)
        for sample in measured([contestant("A", outputs=None, count=count)], repetitions=1)
    ]
    assert problems == [None, "3 outputs instead of 2"]


def test_failed_check_ends_a_contestant():
    log = []
    wrong = contestant("A", log=log, check=lambda: Measured(10, 1.0, [[7]]))
    (sample,) = measured([wrong], repetitions=3)
    assert (sample.events, log) == (10, [])
    assert sample.problem is not None


def test_failure_is_reported_and_not_repeated():
    def fail():
        raise UsageError(message="no such thing")

    failing = Contestant("app", "A", "scalar", expected=RIGHT, run=fail)
    samples = list(measured([failing, contestant("B", seconds=(1, 1))], repetitions=2))
    assert [sample.engine for sample in samples] == ["A", "B", "B"]
    assert "no such thing" in samples[0].problem
    assert samples[0].eps == 0


@pytest.mark.parametrize(("patience", "runs"), [(0.0, 1), (60.0, 2)])
def test_patience_ends_slow_contestants(patience, runs):
    group = [contestant("A", seconds=(1, 1))]
    assert len(list(measured(group, repetitions=2, patience=patience))) == runs


@pytest.fixture
def taking(monkeypatch):
    """Make contestants that take given seconds of a clock that only they advance."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr("dgs.bench.measuring.time", clock)

    def taking(engine, seconds):
        def run():
            now[0] += seconds
            return Measured(10, seconds, [[1, 2]])

        return Contestant("app", engine, "scalar", expected=RIGHT, run=run)

    return taking


def test_nothing_starts_after_the_limit(taking):
    group = [taking("A", 6.0), taking("B", 6.0), taking("C", 1.0)]
    assert [sample.engine for sample in measured(group, repetitions=2, limit=10.0)] == ["A", "B"]


def test_limited_time_goes_to_the_quick_contestants(taking):
    group = [taking("slow", 6.0), taking("quick", 1.0)]
    assert [sample.engine for sample in measured(group, repetitions=3, seconds=10.0)] == [
        "slow",
        "quick",
        "quick",
        "quick",
    ]
