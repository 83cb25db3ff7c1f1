"""The costs of a job: measured in another process, kept for the next run, and typical if the program cannot be tried."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
from dataclasses import replace

import pytest

import dgs
from dgs.api import costing, overrides
from dgs.api.costing import known_costs
from dgs.api.preparing import Launch, costs_on, from_program, prepare
from dgs.job.schema import StreamConfig
from dgs.planner.prediction.costs import TYPICAL
from dgs.planner.topology import Topology
from dgs.workers.ray_runtime import machine_costs
from dgs.workers.sources.contract import SourceContext
from dgs.workers.trial import trial_process
from dgs.workers.trial.stopwatch import PACE
from dgs.workers.trial.trial import Trial

BARRIER, VALUE = dgs.kind("barrier"), dgs.kind("value")


class Window(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))
    work = 1

    def init(self):
        return 0

    def update(self, state, event, emit):
        sum(range(self.work))
        return state + event.payload

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """An empty cache of costs, a machine without load, and a long limit for trials."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(trial_process, "LONGEST", 60.0)


def streams(values=200):
    found = {name: [("value", ts, ts) for ts in range(values)] for name in "ab"}
    return {"barriers": [("barrier", values // 2, 0)], **found}


def prepared(program, **options):
    given = overrides(runtime={"kind": "ray", "hosts": 2}, plan=None, settings=None, **options)
    return prepare(from_program(program, streams(), given))


@pytest.fixture
def trials(monkeypatch):
    """The questions to trials; all are answered with typical costs."""
    asked = []

    def tried(question):
        asked.append(question)
        return Trial()

    monkeypatch.setattr(trial_process, "tried", tried)
    monkeypatch.setattr(machine_costs, "machine_costs", lambda: replace(TYPICAL, synchronisation=1e-3))
    monkeypatch.setattr(costing, "pace", lambda: PACE)
    return asked


def test_a_program_that_is_no_name_in_a_module_is_measured_as_ray_sends_it():
    class Local(Window):
        def update(self, state, event, emit):
            sum(range(1000))
            return state + event.payload

    known = prepared(Local(), optimizer=None).costs
    assert (known.origin, known.problem) == ("measured in a trial", None)
    assert known.costs.event("value") > 2e-6


def test_a_trial_is_repeated_once_for_the_same_program_and_events(trials):
    first, *_, last = (prepared(Window(), optimizer="cost").costs for _ in range(4))
    assert len(trials) == costing.TRIALS == 2
    assert (first.costs, last.origin) == (last.costs, "kept from an earlier trial")
    assert first.costs.synchronisation == 1e-3


@pytest.mark.parametrize(
    ("compiled", "given", "then"),
    [(1.0, "auto", "off"), (1e-9, "auto", "auto"), (1.0, "off", "off"), (None, "auto", "auto")],
)
def test_hosts_do_not_load_the_compiler_if_the_trial_has_found_that_it_does_not_pay(
    monkeypatch, trials, compiled, given, then
):
    kinds = {} if compiled is None else {"value": compiled}
    costs = replace(TYPICAL, kinds={"value": 1e-6}, compiled_kinds=kinds)
    monkeypatch.setattr(trial_process, "tried", lambda _: Trial(costs))
    section = overrides(
        runtime={"kind": "ray", "hosts": 2, "compile": given}, optimizer="cost", plan=None, settings=None
    )
    job = Launch(prepare(from_program(Window(), streams(), section))).job
    assert job.runtime.compile == then


def test_another_program_has_another_trial(trials):
    other = Window()
    other.work = 9
    for program in (Window(), other):
        prepared(program, optimizer="cost")
    assert len(trials) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: {"update": -1},
        lambda kept: {**kept, "trials": "many"},
        lambda kept: {**kept, "trials": math.inf},
        lambda kept: {**kept, "trials": [1]},
        lambda kept: {**kept, "costs": {**kept.get("costs", {}), "kinds": {"value": "dear"}}},
        lambda kept: [kept],
        lambda kept: {**kept, "paces": ["fast", 0, math.nan], "trials": -1},
    ],
)
def test_a_damaged_file_of_costs_is_measured_again(trials, tmp_path, damage):
    prepared(Window(), optimizer="cost")
    files = list(tmp_path.rglob("costs/*.json"))
    assert len(files) == 3  # of the program, of the machine, and its paces
    for kept in files:
        assert kept.stat().st_mode & 0o077 == 0
        kept.write_text(json.dumps(damage(json.loads(kept.read_text()))))
    assert prepared(Window(), optimizer="cost").costs.origin == "measured in a trial"


def test_a_trial_that_fails_is_repeated_and_said(monkeypatch):
    monkeypatch.setattr(trial_process, "tried", lambda _: Trial(problem="it took more than 5 s"))
    for _ in range(2):
        known = prepared(Window(), optimizer="cost").costs
        assert known.costs == TYPICAL
        assert known.warning.endswith("since they could not be measured: it took more than 5 s")


@pytest.mark.parametrize("slowness", [0.5, 1.0, 1.5])
def test_costs_are_for_the_usual_pace_of_the_machine_whatever_that_of_their_trial(
    monkeypatch, trials, slowness
):
    paces = [slowness * PACE] * 4 + [2 * slowness * PACE] * 4
    for measured in paces:
        answer = Trial(replace(TYPICAL, update=1e-6 * measured / PACE), pace=measured)
        monkeypatch.setattr(trial_process, "tried", lambda _, answer=answer: answer)
        monkeypatch.setattr(costing, "pace", lambda measured=measured: measured)
        known = prepared(Window(), optimizer="cost").costs.costs
    usual = sum(paces) / len(paces) / PACE
    assert known.update == pytest.approx(1e-6 * usual, rel=0.02)
    assert known.hop == TYPICAL.hop


def test_a_program_that_cannot_be_sent_has_typical_costs():
    program = Window()
    program.lock = threading.Lock()
    assert "cannot pickle" in prepared(program, optimizer="cost").costs.problem


def test_outputs_from_a_process_to_itself_are_not_sent(monkeypatch):
    asked = []
    monkeypatch.setattr(costing, "_question", lambda *given: asked.append(given[-1]))
    for kind in ("local", "ray"):
        given = overrides(runtime=kind, optimizer=None, plan=None, settings=None)
        request = from_program(Window(), streams(), given)
        costs_on(Topology((), hosts=2), request, request.program)
    assert asked == [[], ["memory"]]


def test_without_events_costs_are_typical():
    empty = StreamConfig(id="a", tags=["value"], source={"memory": "a"})
    known = known_costs(SourceContext(Window(), memory={"a": []}), [empty], None)
    assert (known.costs, known.problem) == (TYPICAL, "its streams have no events yet")


@pytest.mark.parametrize("optimizer", ["greedy", "sequential", {"name": "cost", "max_leaves": 1}])
def test_a_job_with_one_plan_has_no_trial(trials, optimizer):
    assert prepared(Window(), optimizer=optimizer).costs is None
    assert not trials


@pytest.fixture
def loads(monkeypatch):
    """The answers of trials, and the load of the machine during each."""
    answers = []

    def tried(question):
        cost, load = answers.pop(0)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
        return Trial(replace(TYPICAL, update=cost))

    monkeypatch.setattr(trial_process, "tried", tried)
    monkeypatch.setattr(machine_costs, "machine_costs", lambda: TYPICAL)
    monkeypatch.setattr(costing, "pace", lambda: PACE)
    return answers


def updates(count):
    return [prepared(Window(), optimizer="cost").costs.costs.update for _ in range(count)]


def test_costs_from_a_busy_machine_are_measured_again_and_the_least_counts(loads):
    loads += [(4e-6, 99.0), (5e-6, 99.0), (2e-6, 0.0), (1e-6, 0.0)]
    assert updates(4) == [4e-6, 4e-6, 2e-6, 2e-6]
    assert loads == [(1e-6, 0.0)]


def test_the_least_of_two_trials_is_kept(loads):
    loads += [(4e-6, 0.0), (3e-6, 0.0), (2e-6, 0.0)]
    assert updates(3) == [4e-6, 3e-6, 3e-6]
    assert loads == [(2e-6, 0.0)]


def test_a_machine_that_is_always_busy_is_believed_in_the_end(loads):
    loads += [(4e-6, 99.0)] * (costing.MOST_TRIALS + 1)
    updates(costing.MOST_TRIALS + 2)
    assert len(loads) == 1


def test_old_costs_and_the_oldest_of_many_are_dropped(loads, tmp_path, monkeypatch):
    loads += [(4e-6, 0.0), (3e-6, 0.0)]
    updates(1)
    directory = next(tmp_path.glob("dgs-*/costs"))
    monkeypatch.setattr(costing, "MOST_KEPT", 3)
    for number in range(5):
        other = directory / f"{number}.json"
        other.write_text("{}")
        os.utime(other, (10**9, 10**9))
    for path in directory.glob("*.json"):
        os.utime(path, (10**9, 10**9))
    assert updates(1) == [3e-6]
    assert len(list(directory.glob("*.json"))) == 3  # of the program, of the machine, and its paces
