"""Figures of hosts as figures of a run."""

from dataclasses import replace

import pytest

from dgs.workers.observing.blame import blame
from dgs.workers.observing.figures import (
    HostFigures,
    PairFigures,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)
from dgs.workers.runtime.observed import first_output, gathered, seconds_of_work

ROOT = HostFigures(
    host=0,
    events_in=3,
    outputs=2,
    began=10.0,
    ended=15.0,
    first_output=12.0,
    starved_reads=1,
    cpu_seconds=1.5,
    workers={"w0": WorkerFigures(0, events=3, synchronisations=2)},
    streams={"s": StreamFigures(rows=10, events=4, frontier=7, newest=9, dropped=1)},
    sinks={"jsonl": SinkFigures(2, 20, 0.5)},
    pairs={1: PairFigures(4, 400)},
    sent={("w1", "down"): 300, ("", "news"): 100},
)
OTHER = replace(
    ROOT,
    host=1,
    began=11.0,
    ended=None,
    first_output=None,
    workers={"w1": WorkerFigures(1, events=5)},
    streams={
        "s": StreamFigures(rows=12, events=8, frontier=5, newest=12, dropped=1),
        "t": StreamFigures(dropped=4, has_ended=True),
    },
    pairs={0: PairFigures(1, 10)},
    sent={("w1", "up"): 10},
)


def figures(*hosts, **known):
    return gathered(hosts, RunFigures(**known))


def test_workers_and_pairs_are_those_of_all_hosts():
    run = figures(ROOT, OTHER)
    assert run.workers == {**ROOT.workers, **OTHER.workers}
    assert run.pairs == {"0>1": PairFigures(4, 400), "1>0": PairFigures(1, 10)}
    assert run.sent == {"w1:down": 300, ":news": 100, "w1:up": 10}
    assert run.starved_reads == 2
    assert [host.cpu_seconds for host in run.hosts.values()] == [1.5, 1.5]


def test_sinks_of_all_hosts_add_up():
    assert figures(ROOT, OTHER).sinks == {"jsonl": SinkFigures(4, 40, 1.0)}


def test_sink_that_waits_longest_says_so_and_is_blamed():
    """The progress line blamed a stream for its silence while nothing was read, since a sink was locked out."""
    locked = SinkFigures(waits="sink 'sqlite' waits for out.db", since=5.0)
    hosts = [
        replace(host, sinks={"sqlite": sink})
        for host, sink in ((ROOT, SinkFigures(2)), (OTHER, replace(locked, since=7.0)), (OTHER, locked))
    ]
    run = figures(*hosts, t=30.0)
    assert run.sinks == {"sqlite": replace(locked, outputs=2)}
    assert (blame(run, after=25.0).sentence, blame(run, after=26.0).stream) == (locked.waits, "s")


def test_a_stream_in_splits_is_as_far_as_its_last_reader_and_its_drops_count_once():
    stream = figures(ROOT, OTHER).streams["s"]
    assert (stream.rows, stream.events, stream.frontier, stream.newest, stream.dropped) == (12, 12, 5, 12, 1)
    assert not stream.has_ended


def test_a_reader_that_has_ended_holds_nothing_back():
    def frontier(*readers):
        hosts = (HostFigures(host=i, streams={"s": one}) for i, one in enumerate(readers))
        return figures(*hosts).streams["s"].frontier

    ended, going, mute = StreamFigures(frontier=5, has_ended=True), StreamFigures(frontier=9), StreamFigures()
    assert (frontier(ended, going), frontier(going, ended)) == (9, 9)
    assert frontier(ended, replace(ended, frontier=7)) == 7
    assert (frontier(going, mute), frontier(ended, mute)) == (None, None)


def test_the_lag_of_a_stream_is_to_the_newest_event_of_all_and_the_clock():
    run = figures(
        HostFigures(
            streams={
                "early": StreamFigures(frontier=1_700_000_090, newest=1_700_000_100),
                "late": StreamFigures(frontier=1_700_000_000, newest=1_700_000_000),
                "over": StreamFigures(frontier=1_600_000_000, has_ended=True),
                "mute": StreamFigures(),
            }
        ),
        t=1_700_000_200.0,
        unit="s",
    )
    lags = {name: (stream.behind, stream.lag_seconds) for name, stream in run.streams.items()}
    assert lags == {"early": (10, 110.0), "late": (100, 200.0), "over": (0, None), "mute": (None, None)}


def test_times_that_are_no_dates_have_no_lag_to_the_clock():
    run = figures(
        HostFigures(streams={"s": StreamFigures(frontier=5, newest=9)}), t=1_700_000_000.0, unit="s"
    )
    assert (run.streams["s"].lag_seconds, run.streams["s"].behind) == (None, 4)


def test_a_worker_whose_stream_has_passed_the_key_waits_for_its_parent():
    wait = Wait("stream", "s", 6, 3.0)
    leaf = replace(OTHER, workers={"w1": WorkerFigures(1, waits_for=wait)}, streams={})
    passed = gathered([ROOT, leaf], RunFigures(), {"w0": None, "w1": "w0"})
    assert passed.workers["w1"].waits_for == Wait("parent", "w0", 6, 3.0)
    still = replace(wait, key=8)
    leaf = replace(leaf, workers={"w1": WorkerFigures(1, waits_for=still)})
    assert gathered([ROOT, leaf], RunFigures(), {"w0": None, "w1": "w0"}).workers["w1"].waits_for == still


def test_work_is_from_the_first_read_to_the_last_output():
    assert seconds_of_work([ROOT, OTHER], 99.0) == pytest.approx(5.0)
    assert seconds_of_work([OTHER], 99.0) == 99.0


def test_first_output_is_the_first_of_all_hosts():
    assert (first_output([ROOT, OTHER]), first_output([OTHER])) == (12.0, None)
