"""Replanning of a run: its counts, notices, files and requests, with a simulated clock and comparisons that end at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dgs.errors import UsageError
from dgs.job.document import read_plan_section
from dgs.job.schema import ReplanConfig, RuntimeConfig, StreamConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.runtime.control import Control
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Comparison, Job
from dgs.workers.runtime.replanning import BETTER_PLAN, Replanning
from tests.programs import BARRIER, VALUE, EventWindow

LEAF = PlanNode("leaf", ImplTagSet.of(v=TagSet.of(VALUE(0))))
TWO = Plan(PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=(LEAF,)))
ONE = Plan(PlanNode("w0", ImplTagSet.of(b=TagSet.of(BARRIER), v=TagSet.of(VALUE(0)))))
COUNT = {("v", VALUE(0)): 60.0, ("b", BARRIER()): 0.5, ("b", None): 0.5}


class Run:
    """A run in virtual time. `gain`: of the best plan. `seen`: the comparisons."""

    def __init__(self, folder: Path, mode: str = "auto") -> None:
        streams = tuple(StreamConfig(id=s, source={"memory": s}, tags={"kind": "x"}) for s in "bv")
        self.job = Job(
            EventWindow(), TWO, streams, folder, folder, RuntimeConfig(), control_dir=folder / "control"
        )
        self.job = replace(self.job, replan=ReplanConfig(mode=mode, after="6s"))
        self.now, self.gain, self.said, self.seen = 0.0, 2.0, [], []
        caller = Caller(notify=self.said.append, compared=self.compared)
        self.replanning = Replanning(
            self.job, caller, clock=lambda: self.now, start=lambda compare: compare()
        )
        self.replanning.begin(Deployment(self.job, hosts=1))

    def compared(self, home, rates):
        self.seen.append((dict(home), dict(rates)))
        if isinstance(self.gain, Exception):
            raise self.gain
        return Comparison(ONE, 1000.0, 1000.0 * self.gain)

    def goes_on(self, seconds: int, each: float = 1.0) -> None:
        for _ in range(seconds):
            self.replanning.look(lambda: [{tag: each * n for tag, n in COUNT.items()}, {}])
            self.now += 1.0


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_plans_are_compared_at_the_rates_of_all_hosts(run):
    run.goes_on(8)
    assert run.seen[0] == ({"root": 0, "leaf": 0}, COUNT)


def test_automatic_run_asks_itself_to_move_once(run):
    run.goes_on(40)
    request = Control(run.job.control_dir).pending()
    assert (request.action, request.by, request.plan) == (
        "replan",
        "`replan: auto`",
        str(run.job.control_dir / BETTER_PLAN),
    )
    assert len(list(run.job.control_dir.glob("request-*"))) == 0
    assert "children" not in read_plan_section(request.plan)
    (line,) = run.said
    assert line == (
        "at the rates of the last 6 s a plan with one worker is predicted to be 2 times as fast as that with 2 workers "
        "(2 k events/s instead of 1 k events/s): the run moves to it"
    )


def test_move_is_measured_before_and_after_and_places_workers_by_the_rates_of_now(run):
    run.goes_on(20)
    moved = run.replanning.moved(replace(run.job, plan=ONE), str(run.job.control_dir / BETTER_PLAN))
    assert moved.rates == {"v": {VALUE(0): 60.0}, "b": {BARRIER(): 0.5}}
    run.replanning.begin(Deployment(moved, hosts=1))
    run.goes_on(20, each=3.0)
    (move,) = run.replanning.moves
    assert (move.workers, move.predicted, move.before, move.after) == (1, 2.0, 61.0, 183.0)
    assert run.said[1:] == ["since the run has moved it processes 183 events/s, and 61 events/s before"]


def test_workers_are_placed_by_the_rates_that_led_to_the_move(run):
    run.goes_on(20)
    assert run.said
    run.goes_on(20, each=0.01)
    moved = run.replanning.moved(replace(run.job, plan=ONE), str(run.job.control_dir / BETTER_PLAN))
    assert moved.rates == {"v": {VALUE(0): 60.0}, "b": {BARRIER(): 0.5}}
    run.replanning.begin(Deployment(moved, hosts=1))
    run.goes_on(20, each=3.0)
    assert run.replanning.moved(run.job, "plan-1.yaml").rates == {
        "v": {VALUE(0): 180.0},
        "b": {BARRIER(): 1.5},
    }


def test_move_to_a_plan_that_others_gave_is_not_counted(run):
    run.goes_on(20)
    run.replanning.moved(run.job, "plan-1.yaml")
    assert run.replanning.moves == []


def test_advice_is_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(tmp_path, mode="advise")
    run.goes_on(40)
    (line,) = run.said
    assert line.endswith(f": dgs replan . --plan control/{BETTER_PLAN}")
    assert Control(run.job.control_dir).pending() is None


def test_gain_that_is_too_small_is_not_said(run):
    run.gain = 1.29
    run.goes_on(100)
    assert run.said == []
    assert not (run.job.control_dir / BETTER_PLAN).exists()


def test_comparison_that_fails_is_reported_once_and_does_not_end_the_run(run):
    run.gain = UsageError(message="too many")
    run.goes_on(100)
    assert run.said == ["plans cannot be compared any more: UsageError: too many"]
    assert len(run.seen) == 1


def test_another_generation_starts_counting_again(run):
    run.goes_on(6)
    run.replanning.begin(Deployment(run.job, hosts=1))
    run.goes_on(6)
    assert run.seen == []


def test_run_without_a_directory_does_not_look(tmp_path):
    run = Run(tmp_path)
    job = replace(run.job, control_dir=None)
    replanning = Replanning(job, Caller(compared=run.compared), clock=lambda: run.now)
    replanning.begin(Deployment(job, hosts=1))
    replanning.look(lambda: pytest.fail("it asks the hosts"))
