"""Campaigns over seeds: a wrong program is found, reported with the command that replays it, and shrunk."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dgs
from dgs import testing
from dgs.cli.app import app
from dgs.workers.simulated import campaign
from dgs.workers.simulated.campaign import SimulationFailed

HIT, ASK = dgs.kind("hit", key=int), dgs.kind("ask", key=int)


class Hits(dgs.Program):
    """Counts the hits of each key, and outputs the count on request."""

    depends = dgs.Dependence((HIT, HIT, dgs.SAME_KEY), (HIT, ASK, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        key = event.tag.key
        if event.tag.kind == ASK:
            emit((key, state.get(key, 0)))
            return state
        return {**state, key: state.get(key, 0) + 1}

    def fork(self, state, left, right):
        mine = {key: count for key, count in state.items() if HIT(key) in left or ASK(key) in left}
        return mine, {key: count for key, count in state.items() if key not in mine}

    def join(self, left, right):
        return dict(sorted({**left, **right}.items()))


class Forgetful(Hits):
    """Has a wrong join."""

    def join(self, left, right):
        return left


STREAMS = {
    "hits": [(HIT(n % 3), n, None) for n in range(12)],
    "asks": [(ASK(n % 3), n, None) for n in range(2, 12, 3)],
}


@pytest.fixture(autouse=True)
def _time_to_make_it_small(monkeypatch):
    """Allow enough time for shrinking, however slow the machine is."""
    monkeypatch.setitem(campaign.shrunk.__kwdefaults__, "seconds", math.inf)


@pytest.mark.slow
def test_a_consistent_program_passes_and_is_counted():
    done = testing.simulate(Hits, STREAMS, seeds=40)
    assert done.runs == 40
    assert done.commits > 40
    assert sum(done.ends.values()) > 10
    assert "40 runs gave the sequential outputs" in str(done)


@pytest.mark.slow
def test_a_wrong_join_is_found_with_its_seed_the_way_to_replay_it_and_a_smaller_input():
    with pytest.raises(SimulationFailed) as failed:
        testing.simulate(Forgetful, STREAMS, seeds=60)
    error = failed.value
    assert isinstance(error, AssertionError)
    assert f"seeds=[{error.seed}]" in error.replay
    assert error.replay in str(error)
    assert re.search(r"step [0-9]+ +host [0-9]  w0 closes epoch", error.smallest)
    assert error.smallest.count("@") < len(STREAMS["hits"]) + len(STREAMS["asks"])
    with pytest.raises(SimulationFailed):
        testing.simulate(Forgetful, STREAMS, seeds=[error.seed])


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = Path(__file__).read_text(encoding="utf-8")
    program = source[source.index("HIT, ASK") : source.index("STREAMS =")]
    (tmp_path / "program.py").write_text(f"import dgs\n\n{program}", encoding="utf-8")
    rows = [f"{n},{'ask' if n % 4 == 3 else 'hit'},{n % 3}" for n in range(24)]
    (tmp_path / "events.csv").write_text("\n".join(["ts,kind,key", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nname: hits\nprogram: {ref: 'program.py:Hits'}\nstreams:\n  - id: events\n"
        "    source: {csv: {path: events.csv, ts: ts}}\n    tags: {kind: {column: kind}, key: {column: key}}\n",
        encoding="utf-8",
    )
    return tmp_path / "plan.yaml"


@pytest.mark.slow
def test_simulate_prints_the_story_of_a_failing_seed_in_the_form_of_a_run(plan, monkeypatch):
    """The run fails at its last event, the simulation because of the wrong join."""
    right = Path("program.py").read_text(encoding="utf-8")
    raises = right.replace("key = event.tag.key", "key = event.tag.key\n        assert event.ts < 23")
    Path("program.py").write_text(raises, encoding="utf-8")
    assert CliRunner().invoke(app, ["run", "plan.yaml", "--run-dir", "there"]).exit_code == 1
    of_run = CliRunner().invoke(app, ["explain", "--story", "there"]).stdout.splitlines()[1:]
    joins_badly = right.replace("dict(sorted({**left, **right}.items()))", "left")
    Path("program.py").write_text(joins_badly, encoding="utf-8")
    monkeypatch.setitem(campaign.shrunk.__kwdefaults__, "seconds", 0)
    done = CliRunner().invoke(app, ["simulate", "plan.yaml", "--seeds", "60"])
    assert (done.exit_code, "replay it with: dgs simulate plan.yaml --seed" in done.stdout) == (1, True)
    simulated = done.stdout[done.stdout.index("what happened last") :].splitlines()[1:]
    sentence = "((driver|host [0-9]+)  [a-z].+|generation [0-9]+:)"
    assert [line for line in of_run if not re.fullmatch(rf"[0-9:.]{{12}}  {sentence}", line)] == []
    assert [line for line in simulated if not re.fullmatch(rf"  (step [0-9]+ +)?{sentence}", line)] == []
    assert min(len(of_run), len(simulated)) > 1


@pytest.mark.slow
def test_simulate_of_a_plan_file_says_what_happened(plan):
    done = CliRunner().invoke(app, ["simulate", "plan.yaml", "--seeds", "15", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["failed"], told["runs"]) == (None, 15)
    assert CliRunner().invoke(app, ["simulate", "plan.yaml", "--seed", "3", "--this-plan"]).exit_code == 0


def test_simulate_exits_with_1_and_the_command_for_a_program_that_is_wrong(plan):
    plan.write_text(plan.read_text().replace(":Hits", ":Forgetful"))
    given = ["simulate", "plan.yaml", "--seeds", "60", "--faults", "crash", "--max-events", "20"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 1
    assert "--faults crash --max-events 20" in done.stdout
    assert "replay it with: dgs simulate plan.yaml --seed" in done.stdout


def test_simulate_refuses_faults_that_it_does_not_know(plan):
    assert CliRunner().invoke(app, ["simulate", "plan.yaml", "--faults", "fire"]).exit_code == 2
