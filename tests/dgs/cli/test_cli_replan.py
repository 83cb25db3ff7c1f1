"""Runs that look for a better plan at their counted rates: they print the command, or move by themselves."""

from __future__ import annotations

import json
import re
import shlex

import pytest

import dgs as library
from dgs.job.document import read
from tests.dgs.recovering import PLAN, THERE, committed, expected, hasten, meanwhile, write_project

COUNT = 2000
"""Values of each stream: more than 20 s of the slow project, unless the run moves earlier and is then hastened."""

BETTER = THERE / "control/better-plan.yaml"


def has_moved() -> bool:
    return BETTER.with_suffix(".answer").exists()


def begin(project, section):
    write_project(project, plan=PLAN + f"replan: {section}\n", count=COUNT)


def test_run_moves_to_a_better_plan_by_itself(project, dgs):
    begin(project, "{mode: auto, after: 300ms}")
    with meanwhile(THERE, lambda: hasten(project), once=has_moved) as told:
        done = dgs("run plan.yaml --run-dir there --json --verify")
    report = json.loads(done.out)
    assert (told, done.code, report["verified"], report["workers"]) == ([None], 0, True, 1)
    assert committed(project / "out") == expected(COUNT)
    (move,) = report["moves"]
    assert (move["workers"], move["predicted"] > 1.3, move["before"] > 0) == (1, True, True)
    said = r"at the rates of the last 0.3 s a plan with one worker is predicted to be [0-9.e+]+ times as fast as that with 3 workers"
    assert re.search(said + r" \(.* instead of .*\): the run moves to it\n", done.err)
    assert "children" not in read(THERE / "plan.yaml").data["plan"]


def test_run_prints_the_command_that_moves_it(project, dgs):
    begin(project, "{after: 300ms}")

    def move():
        library.replan(THERE, plan=BETTER)
        hasten(project)

    with meanwhile(THERE, move, once=BETTER.exists) as told:
        done = dgs("run plan.yaml --run-dir there --json --verify")
    report = json.loads(done.out)
    assert (told, done.code, report["verified"], report["workers"]) == ([None], 0, True, 1)
    assert report["moves"] == []
    (command,) = re.findall(r"times as fast .*: (dgs replan .*)\n", done.err)
    assert shlex.split(command) == ["dgs", "replan", "there", "--plan", str(BETTER)]


@pytest.mark.parametrize("section", ["off", "{mode: advise, after: 300ms, gain: 1000000000}"])
def test_run_that_is_not_to_look_or_has_no_better_plan_says_nothing(project, dgs, section):
    write_project(project, plan=PLAN + f"replan: {section}\n", count=150)  # the run takes more than a second
    done = dgs("run plan.yaml --run-dir there")
    assert (done.code, "times as fast" in done.err, BETTER.exists()) == (0, False, False)


@pytest.mark.ray
@pytest.mark.slow
def test_run_on_ray_finds_the_hosts_that_its_plan_does_not_use(project, dgs):
    begin(project, "{mode: auto, after: 300ms}")
    with meanwhile(THERE, lambda: hasten(project), once=has_moved):
        done = dgs(
            "run plan.yaml --run-dir there --json --verify --runtime ray --hosts 2 --optimizer sequential"
        )
    report = json.loads(done.out)
    assert (done.code, report["verified"], report["hosts"], len(report["moves"])) == (0, True, 2, 1)
    assert report["workers"] == report["moves"][0]["workers"] > 1


@pytest.mark.parametrize(
    ("section", "problem"),
    [("sometimes", "advise"), ("{gain: 0.9}", "greater than 1"), ("{after: 1ms}", "at least 100ms")],
)
def test_section_that_makes_no_sense_is_refused(project, dgs, section, problem):
    begin(project, section)
    done = dgs("run plan.yaml")
    assert (done.code, problem in done.err) == (3, True), done.err
