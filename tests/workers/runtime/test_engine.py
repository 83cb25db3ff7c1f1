"""The engine of one host: which source it reads when live sources have no events, and how long its driver may sleep."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import dgs
from dgs.errors import DgsError, StalledError
from dgs.job.schema import RuntimeConfig, SinkConfig, StreamConfig
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import END, MIN_TS, OrderKey, after_event
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.host import Host
from dgs.workers.runtime import host_sources
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.local import PROGRESS_EVERY, run_local
from dgs.workers.sources import EventSource, Reading
from dgs.workers.sources.contract import Counted
from tests.programs import BARRIER, VALUE, EventWindow

RANKS = {"b": 0, "v": 1}


class Scripted:
    """A source that follows a script: how long it has nothing, then its rows. `wait` never elapses by itself."""

    drops = 0
    counted = Counted()

    def __init__(self, stream: str, *script: float | Reading) -> None:
        self.stream = stream
        self.script = list(script)

    @property
    def wait(self) -> float:
        return self.script[0] if self.script and isinstance(self.script[0], float) else 0.0

    def read(self) -> Reading:
        reading = self.script.pop(0)
        assert isinstance(reading, Reading), "read although it said that it has nothing"
        return reading

    description: ClassVar[dict[str, Any]] = {}

    def elapse(self) -> None:
        assert isinstance(self.script.pop(0), float)

    def close(self) -> None:
        pass


def values(*ts: int) -> Reading:
    batch = EventBatch.of("v", rank=1, tags=[VALUE(0)], ts=ts, payload=list(ts))
    return Reading((batch,), after_event(batch.key(len(batch) - 1)))


def barrier(ts: int) -> Reading:
    batch = EventBatch.of("b", rank=0, tags=[BARRIER()], ts=[ts])
    return Reading((batch,), after_event(batch.key(0)))


ENDED = Reading((), END)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    leaf = PlanNode("leaf", ImplTagSet.of(v=TagSet.of(VALUE(0))))
    plan = Plan(PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=(leaf,)))
    streams = tuple(StreamConfig(id=name, source={"memory": name}, tags={"kind": "x"}) for name in RANKS)
    return Job(EventWindow(), plan, streams, tmp_path, tmp_path, RuntimeConfig(), collect=True)


def opened(monkeypatch: pytest.MonkeyPatch, *sources: Scripted) -> None:
    found: dict[str, EventSource] = {source.stream: source for source in sources}
    monkeypatch.setattr(host_sources, "open_source", lambda config, _, **__: found[config.id])


def test_stream_without_a_row_has_reached_no_time(monkeypatch, job):
    nothing = Reading((), OrderKey(MIN_TS, 1, 0))
    opened(monkeypatch, Scripted("b", barrier(10), ENDED), Scripted("v", nothing, 0.25))
    engine = Engine(Deployment(job, hosts=1), 0)
    while engine.step():
        pass
    streams = engine.figures().streams
    engine.close(complete=False)
    assert (streams["b"].frontier, streams["v"].frontier) == (10, None)


def test_engine_reads_other_sources_while_a_live_source_has_nothing(monkeypatch, job):
    quiet = Scripted("b", 0.25, barrier(10), ENDED)
    opened(monkeypatch, quiet, Scripted("v", values(1, 2), values(20), ENDED))
    engine = Engine(Deployment(job, hosts=1), 0)
    while engine.step():
        pass
    assert engine.events == 3
    assert engine.idle_seconds == 0.25
    quiet.elapse()
    while engine.final is None and engine.step():
        pass
    assert [value for _, batch in engine.take_outputs() for value in batch.values] == [3]
    assert engine.final is not None


def test_engine_says_the_shortest_wait_of_its_live_sources(monkeypatch, job):
    opened(monkeypatch, Scripted("b", 0.25, ENDED), Scripted("v", 0.01, values(1), 0.5, ENDED))
    engine = Engine(Deployment(job, hosts=1), 0)
    engine.step()  # the workers of this host start
    assert not engine.step()
    assert engine.idle_seconds == 0.01


def test_engine_has_no_wait_when_nothing_live_is_left(monkeypatch, job):
    opened(monkeypatch, Scripted("b", ENDED), Scripted("v", ENDED))
    engine = Engine(Deployment(job, hosts=1), 0)
    while engine.step():
        pass
    assert engine.final is not None
    assert engine.idle_seconds is None


def test_engine_that_is_full_waits_for_the_lowest_source_though_others_have_more(monkeypatch, job):
    tight = RuntimeConfig(buffer_bytes="1B")
    opened(monkeypatch, Scripted("b", 0.25, ENDED), Scripted("v", values(1, 2), values(20), ENDED))
    engine = Engine(Deployment(Job(**{**vars(job), "runtime": tight}), hosts=1), 0)
    while engine.step():
        pass
    assert engine.events == 2
    assert engine.idle_seconds == 0.25


def test_local_run_sleeps_while_live_sources_have_nothing(monkeypatch, job):
    quiet = Scripted("b", 0.01, barrier(10), 60.0, ENDED)
    opened(monkeypatch, quiet, Scripted("v", values(1, 2), ENDED))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        quiet.elapse()

    of_this_run = SimpleNamespace(**{**vars(time), "sleep": sleep})  # other threads sleep as usual
    monkeypatch.setattr("dgs.workers.runtime.local.time", of_this_run)
    assert [value for batch in run_local(job).outputs for value in batch.values] == [3]
    assert slept == [0.01, PROGRESS_EVERY]


def test_local_run_is_stuck_only_if_no_source_can_bring_anything(monkeypatch, job):
    opened(monkeypatch, Scripted("b", ENDED), Scripted("v", values(1), ENDED))
    monkeypatch.setattr(Host, "pump", lambda self, **_: iter(()))
    with pytest.raises(StalledError, match="no worker waits for a stream"):
        run_local(job)


def test_run_whose_events_take_longer_than_a_step_is_not_stuck(monkeypatch):
    clock = count(step=10)  # by each look at the clock a step has taken too long
    monkeypatch.setattr("dgs.workers.runtime.deployment.time", SimpleNamespace(monotonic=lambda: next(clock)))
    streams = {"v": [(VALUE(0), ts, 1) for ts in range(50)], "b": [(BARRIER(), 99, None)]}
    run = dgs.run(EventWindow(), streams=streams, runtime="local")
    assert run.outputs == [50]


class Unstartable(EventWindow):
    def init(self):
        raise ValueError("no state to begin with")


@pytest.mark.parametrize("problem", ["init", "source", "sink"])
def test_engine_that_cannot_be_made_leaves_nothing_open(monkeypatch, job, tmp_path, problem):
    opened(monkeypatch, Scripted("b", ENDED), *([] if problem == "source" else [Scripted("v", ENDED)]))
    if problem == "sink":
        (tmp_path / "no_directory").touch()
    sinks = [{"jsonl": {"path": "a"}}, {"sqlite": {"path": "b.db"}}, {"csv": {"path": "no_directory/c"}}]
    told = [SinkConfig.model_validate(sink) for sink in sinks[: 3 if problem == "sink" else 2]]
    program = Unstartable() if problem == "init" else job.program
    with pytest.raises((DgsError, KeyError)):
        Engine(Deployment(replace(job, program=program, sinks=tuple(told)), hosts=1), 0)
    assert [name for name in open_files() if str(tmp_path) in name] == []


def open_files():
    return [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
