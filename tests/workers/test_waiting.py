"""What a run that stands still says: which worker, for which stream, since when."""

from __future__ import annotations

import re

import pytest

import dgs
from dgs.events import EventBatch
from dgs.impl_tags import ImplTagSet
from dgs.order import BEGIN, END, OrderKey
from dgs.tagset import TagSet
from planner.plan import Plan, PlanNode
from tests.programs import BARRIER, VALUE, EventWindow
from workers.build import make_worker
from workers.lanes import Lanes
from workers.messages import Events, Progress
from workers.waiting import Standing, Wait, sentence, waits_of

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
    workers["leaf0"].offer(Progress(((lane_of(lanes, "b"), OrderKey(7, 1, 1)),)))
    list(workers["leaf0"].work())
    assert waits_of(workers.values(), lanes) == (Wait("leaf0", "b", OrderKey(8, 1, 1)),)
    workers["leaf0"].offer(Progress(((lane_of(lanes, "b"), END),)))
    list(workers["leaf0"].work())
    assert waits_of(workers.values(), lanes) == ()


def test_sentence_names_the_stream_that_is_behind_not_the_one_a_parent_holds():
    """A child that was not told of a barrier waits for its stream, though that has long passed: another is the cause."""
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


RULES = """
def rules():
    yield ("barrier", 5, None)
    yield ("barrier", 500, None)

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
    source: {{generator: {{ref: "sources.py:rules", pace: {pace}}}}}
  - id: values
    tags: {{kind: value, key: 0}}
    source: {{generator: {{ref: "sources.py:values"}}}}
    payload: payload
runtime: {{kind: {kind}, hosts: {hosts}, stall_after: 300ms}}
sinks: [memory]
"""


PACES = [("local", 1, "1/s"), pytest.param("ray", 2, "1200/h", marks=pytest.mark.ray)]
"""Hosts begin one after the other: the values must all be there long before the first rule."""


@pytest.mark.parametrize(("kind", "hosts", "pace"), PACES)
def test_run_says_what_it_waits_for_once_per_interval(request, tmp_path, kind, hosts, pace):
    if kind == "ray":
        request.getfixturevalue("ray_cluster")
    (tmp_path / "sources.py").write_text(RULES)
    (tmp_path / "plan.yaml").write_text(PLAN_FILE.format(kind=kind, hosts=hosts, pace=pace))
    run = dgs.run(tmp_path / "plan.yaml")
    assert run.outputs == [10, 45]
    said = run.report["waited"]
    waits = re.compile(
        r"worker \w+ waits for stream 'rules' to pass 5 ms; last heard [0-9]+ s ago; 6 events held"
    )
    assert any(waits.fullmatch(sentence) for sentence in said)
