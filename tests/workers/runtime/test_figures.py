"""Figures of hosts as figures of a run."""

from dataclasses import replace

import pytest

from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.positions import Positions
from dgs.workers.runtime.figures_of_hosts import HostFigures, WorkerFigures, run_figures

ROOT = HostFigures(
    events_in=3,
    outputs=2,
    drops={"s": 1},
    began=10.0,
    ended=15.0,
    first_output=12.0,
    starved_reads=1,
    per_worker={"w0": WorkerFigures(0, events=3, synchronisations=2)},
)
OTHER = replace(
    ROOT,
    drops={"s": 1, "t": 4},
    began=11.0,
    ended=None,
    first_output=None,
    per_worker={"w1": WorkerFigures(1, events=5, synchronisations=0)},
)
LAST = Checkpoint(4, None, Positions(), events=8)


def figures(*hosts, last=LAST):
    return run_figures(hosts, last, seconds=9.0, started=9.5)


def test_counts_of_hosts_add_up():
    run = figures(ROOT, OTHER)
    assert (run.outputs, run.starved_reads, run.hosts, run.workers) == (4, 2, 2, 2)
    assert run.per_worker == {**ROOT.per_worker, **OTHER.per_worker}


def test_events_are_those_in_the_last_checkpoint():
    assert (figures(ROOT).events_in, figures(ROOT, last=None).events_in) == (8, 0)


def test_drops_of_a_split_stream_count_once():
    assert figures(ROOT, OTHER).drops == {"s": 1, "t": 4}


def test_time_ends_with_the_last_output_where_nothing_is_saved_at_the_end():
    assert figures(ROOT, OTHER).seconds == pytest.approx(5.0)


@pytest.mark.parametrize("last", [None, replace(LAST, state=b"state")])
def test_time_ends_with_the_commit_of_the_end(last):
    assert figures(ROOT, OTHER, last=last).seconds == 9.0


def test_first_output_is_the_first_of_all_hosts():
    assert figures(ROOT, OTHER).first_output_seconds == pytest.approx(2.5)
    assert figures(OTHER).first_output_seconds is None
