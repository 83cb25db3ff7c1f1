"""The sentence on a run without progress: the worker, the stream that it waits for, and since when."""

from __future__ import annotations

import io
import re
import threading
from itertools import pairwise

import pyarrow as pa
import pytest

import dgs
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.event_log import LogWriter
from dgs.workers.protocol.host import make_worker
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Events, Frontiers
from dgs.workers.runtime.stall import Standing, Wait, Watchdog, sentence, waits_of
from tests.programs import BARRIER, VALUE, EventWindow

LEAVES = tuple(PlanNode(f"leaf{i}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE(i))})) for i in (0, 1))
PLAN = Plan(PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=LEAVES))


@pytest.fixture
def lanes():
    return Lanes(PLAN, EventWindow().dependence)


@pytest.fixture
def workers(lanes):
    return {node.id: make_worker(node.id, EventWindow(), lanes) for node in PLAN.nodes()}


def lane_of(lanes, stream):
    return next(lane.id for lane in lanes.all if lane.stream == stream)


def hold_values(workers, lanes, *ts):
    workers["leaf0"].offer(
        Events(lane_of(lanes, "v0"), EventBatch.of("v0", rank=1, tags=[VALUE(0)], ts=ts, payload=list(ts)))
    )


def test_worker_waits_for_the_stream_that_may_still_bring_something_earlier(workers, lanes):
    hold_values(workers, lanes, 7, 8)
    assert waits_of(workers.values(), lanes) == (Wait("leaf0", "b", OrderKey(7, 1, 0)),)
    assert workers["leaf0"].mailbox.held == 2


def test_worker_that_holds_nothing_back_waits_for_nothing(workers, lanes):
    assert waits_of(workers.values(), lanes) == ()
    hold_values(workers, lanes, 7, 8)
    workers["leaf0"].offer(Frontiers(((lane_of(lanes, "b"), OrderKey(7, 1, 1)),)))
    list(workers["leaf0"].work())
    assert waits_of(workers.values(), lanes) == (Wait("leaf0", "b", OrderKey(8, 1, 1)),)
    workers["leaf0"].offer(Frontiers(((lane_of(lanes, "b"), END),)))
    list(workers["leaf0"].work())
    assert waits_of(workers.values(), lanes) == ()


def test_sentence_names_the_stream_that_is_behind_not_the_one_a_parent_holds():
    """A child that has not heard of a barrier waits for its stream, although that is long past: another stream is the cause."""
    waits = (Wait("leaf0", "b", OrderKey(90, 1, 0)), Wait("leaf1", "v1", OrderKey(50, 0, 0)))
    standing = Standing(waits, {"b": OrderKey(95, 0, 0), "v1": BEGIN}, {"b": 30.0, "v1": 2.0}, held=3)
    assert sentence([standing], unit="none") == (
        "worker leaf1 waits for stream 'v1' to pass 50; last heard 2 s ago; 3 events held"
    )


def test_sentence_names_the_stream_that_was_heard_longest_ago():
    first = Standing((Wait("w1", "a", OrderKey(5, 0, 0)),), {"a": BEGIN}, {"a": 3.0}, held=1)
    second = Standing((Wait("w2", "b", OrderKey(9, 0, 0)),), {"b": BEGIN}, {"b": 131.0}, held=1_999)
    assert sentence([first, second], unit="s") == (
        "worker w2 waits for stream 'b' to pass 9 s; last heard 131 s ago; 2,000 events held"
    )


def test_sentence_says_where_streams_are_when_no_worker_waits_for_one():
    standings = [
        Standing((), {"a": OrderKey(5, 0, 0), "b": END}, {"a": 3.0}, held=4),
        Standing((), {"a": OrderKey(2, 0, 0)}, {"a": 3.0}, held=3),
    ]
    assert sentence(standings, unit="none") == (
        "no worker waits for a stream ('a' at 2, 'b' ended); 7 events held"
    )


SOURCES = """
def values():
    yield {"ts": list(range(1, 11)), "payload": list(range(1, 11)), "kind": ["value"] * 10}
"""

PLAN_FILE = """
version: 1
name: quiet
program: {{ref: "tests.programs:EventWindow"}}
time: {{unit: ms}}
streams:
  - id: rules
    tags: [barrier]
    source: {{log: {{path: log}}}}
  - id: values
    tags: {{kind: value, key: 0}}
    source: {{generator: {{ref: "sources.py:values"}}}}
    payload: payload
optimizer: {{name: greedy}}
runtime: {{kind: {kind}, hosts: {hosts}, stall_after: 300ms}}
sinks: [memory]
"""

WAITS = re.compile(
    r"still waiting: worker \w+ waits for stream 'rules' to pass 5 ms; last heard [0-9]+ s ago; 6 events held\n?"
)


class Answering(io.StringIO):
    """The notices of a run. After the first one, the stream that the run waits for goes on and ends."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def write(self, text):
        if WAITS.fullmatch(text) and self.log is not None:
            self.log.append(1, pa.table({"ts": [500]}), None)
            self.log.close()
            self.log = None
        return super().write(text)


@pytest.mark.parametrize(("kind", "hosts"), [("local", 1), pytest.param("ray", 2, marks=pytest.mark.ray)])
def test_run_says_what_it_waits_for(request, monkeypatch, tmp_path, kind, hosts):
    if kind == "ray":
        request.getfixturevalue("ray_cluster")
    (tmp_path / "sources.py").write_text(SOURCES)
    (tmp_path / "plan.yaml").write_text(PLAN_FILE.format(kind=kind, hosts=hosts))
    log = LogWriter(tmp_path / "log", "rules", "test", ts="ts")
    log.append(0, pa.table({"ts": [5]}), None)
    said = Answering(log)
    monkeypatch.setattr("sys.stderr", said)
    in_vain = threading.Timer(60, log.close)
    in_vain.start()
    run = dgs.run(tmp_path / "plan.yaml")
    in_vain.cancel()
    assert said.log is None
    assert run.outputs == [10, 45]
    assert [f"still waiting: {sentence}" for sentence in run.report["waited"]] == [
        line for line in said.getvalue().splitlines() if line.startswith("still waiting: ")
    ]


def test_run_that_stands_still_reports_less_and_less_often():
    watchdog = Watchdog(after=10.0, now=0.0, notify=lambda _: None)
    said = [second for second in range(1, 1600) if watchdog.is_due(1, now=float(second))]
    assert [later - earlier for earlier, later in pairwise([1, *said])] == [
        10,
        20,
        40,
        80,
        160,
        300,
        300,
        300,
        300,
    ]
    assert not watchdog.is_due(2, now=1600.0)
    assert watchdog.is_due(2, now=1610.0)


def test_run_with_a_long_limit_for_standing_still_reports_no_more_often():
    watchdog = Watchdog(after=1000.0, now=0.0, notify=lambda _: None)
    said = [second for second in range(1, 4000) if watchdog.is_due(1, now=float(second))]
    assert said == [1001, 2001, 3001]
