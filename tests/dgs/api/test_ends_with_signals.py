"""Signals at the end of a run: its directory always notes how it ended."""

import signal

import pytest

import dgs
from dgs.api import running
from dgs.job.run_directory import RunDirectory


def interrupting(function, times):
    """Return a function that is interrupted by Ctrl-C `times` times."""

    def interrupted(*given, **named):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return function(*given, **named)

    return interrupted


class Sums(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + 1 / event.payload


def ended(place, *, last=1):
    events = [("value", ts, 1) for ts in range(9)] + [("value", 9, last)]
    with pytest.raises(KeyboardInterrupt):
        dgs.run(Sums, streams={"a": events}, runtime="local", run_dir=place)
    directory = RunDirectory(place)
    return directory.about()["status"], directory.results()["status"]


@pytest.mark.parametrize(("times", "status"), [(1, "done"), (2, "interrupted")])
def test_a_run_that_is_interrupted_at_its_end_is_not_noted_as_running(tmp_path, monkeypatch, times, status):
    monkeypatch.setattr(running, "report_of", interrupting(running.report_of, times))
    assert ended(tmp_path / "there") == (status, status)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_the_note_of_the_end_is_written_whole(tmp_path, monkeypatch, times):
    monkeypatch.setattr(RunDirectory, "write_results", interrupting(RunDirectory.write_results, times))
    assert ended(tmp_path / "there") == ("done", "done")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_failure_is_noted_although_signals_come(tmp_path, monkeypatch, times):
    monkeypatch.setattr(running, "failure", interrupting(running.failure, times))
    assert ended(tmp_path / "there", last=0) == ("failed", "failed")
