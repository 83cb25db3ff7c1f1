"""`dgs.check`: options, reports, files of counterexamples, the command line."""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest
from hypothesis import strategies as st
from typer.testing import CliRunner

import dgs
from dgs.check import replay, save
from dgs.check.drawing.sample_payloads import payload_hint
from dgs.check.drawing.sample_tags import sample_tags
from dgs.cli.app import app
from dgs.codec import forms, registered
from dgs.errors import MissingPackageError, ProgramImportError, UsageError
from tests import programs
from tests.dgs.projects import sums_plan, sums_program, write_files
from tests.gallery.wrong import WRONG, Counters, ForkDuplicates, MissingPair, Window

FEW = 40
POSITIVE = st.integers(1, 20)
SUBJECTS = [
    (programs.Counters, {"inc": POSITIVE, "read": POSITIVE}),
    (programs.SumCounters, {"inc": POSITIVE, "read": POSITIVE}),
    (programs.EventWindow, {}),
    (programs.WindowsAtOnce, {}),
    (programs.EchoWindow, {}),
    (programs.LastValueJoin, {}),
    (programs.SmartHome, {}),
    (programs.Neighbours, {}),
    (programs.ChainHistory, {}),
]

OPTIONS = 'OPTIONS = {"strategies": {VALUE: [{"amount": 1}], BARRIER: [None]}}\n'
RIGHT, WRONG_FORK = (
    sums_program(on_value='return state + event.payload["amount"]', right=right) + "\n\n" + OPTIONS
    for right in ("0", "state")
)
PLAN = sums_plan(payload="[amount]", left="values.csv", right="values.csv")


@pytest.fixture
def project(project):
    """A wrong program (its fork duplicates the sum) with a plan file and input, in the working directory."""
    data = {"barriers.csv": "ts\n10\n", "values.csv": "ts,amount\n1,3\n2,4\n"}
    write_files(project, {"program.py": WRONG_FORK, "plan.yaml": PLAN, **data})
    return project


def command(line):
    return CliRunner().invoke(app, shlex.split(line))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "strategies"), SUBJECTS)
def test_check_passes_the_programs_that_tests_run(make, strategies):
    report = dgs.check(make, strategies=strategies)
    assert report, str(report)


def test_check_passes_a_right_program():
    report = dgs.check(programs.SmartHome, max_examples=FEW)
    assert report, str(report)
    assert {one.law for one in report.laws if one.status == "holds"} >= {
        "C1",
        "C2",
        "C3",
        "codec",
        "ownership",
    }


def test_check_of_the_same_seed_finds_the_same():
    first, second = (dgs.check(ForkDuplicates, seed=5, max_examples=FEW) for _ in range(2))
    assert first.broken[0].scenario == second.broken[0].scenario


def test_report_names_the_law_the_story_both_sides_and_a_hint():
    text = str(dgs.check(ForkDuplicates, max_examples=FEW))
    for part in (
        "C2",
        "join(fork(s, left, right))",
        "inc(0) with payload",
        "difference:",
        "hint: fork gives both sides",
    ):
        assert part in text


def test_report_of_c3_names_the_pair_to_declare():
    (broken,) = dgs.check(MissingPair, max_examples=FEW).broken
    assert {tag.split("(")[0] for tag in broken.finding.dependent} == {"inc", "read"}
    assert "dgs.SAME_KEY" in broken.finding.hint


def test_laws_that_build_on_a_broken_one_are_not_checked():
    report = dgs.check(MissingPair, max_examples=FEW)
    assert {one.law for one in report.laws if one.status == "skipped"} >= {"C1", "C2"}


def test_states_equal_decides_what_is_equal():
    report = dgs.check(ForkDuplicates, max_examples=FEW, states_equal=lambda a, b: a.keys() == b.keys())
    assert "C2" not in {one.law for one in report.broken}


def test_tolerance_forgives_rounding():
    wrong = WRONG["float_sum"].make
    samples = {"value": [0.1, 0.2, 0.3], "barrier": [0.0]}
    assert not dgs.check(wrong(), strategies=samples, max_examples=100)
    assert dgs.check(wrong(), strategies=samples, tolerance=1e-9, max_examples=FEW)


def test_strategies_may_be_types_samples_or_hypothesis_strategies():
    for wanted in (int, [1, 2], POSITIVE):
        assert dgs.check(Counters, strategies={"inc": wanted}, max_examples=5)


def test_keys_are_those_given():
    seen = set()

    class Spy(Counters):
        def update(self, state, event, emit):
            seen.add(event.tag.key)
            return super().update(state, event, emit)

    dgs.check(Spy, keys={"inc": [70], "read": [70]}, max_examples=10)
    assert seen == {70}


def test_payload_hint_is_that_of_the_event():
    assert payload_hint(Window()) is int


def test_sample_tags_know_kinds_that_only_update_mentions():
    assert {tag.kind for tag in sample_tags(MissingPair(), {})} == {"inc", "read"}


def test_check_asks_for_payloads_that_it_cannot_guess():
    class Picky(Window):
        def update(self, state, event, emit):
            return state + event.payload.amount

    with pytest.raises(UsageError, match="strategies="):
        dgs.check(Picky)


def test_check_without_hypothesis_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingPackageError, match="hypothesis"):
        dgs.check(Counters)


def test_counterexample_can_be_replayed_and_disappears_when_fixed(tmp_path):
    path = tmp_path / "found.json"
    save(dgs.check(ForkDuplicates, max_examples=FEW), "tests.gallery.wrong:ForkDuplicates", path)
    assert [one.law for one in replay(path, ForkDuplicates).broken] == ["C2"]
    assert replay(path, Counters)


def test_replay_reports_events_that_are_now_dependent(tmp_path):
    class Mended(MissingPair):
        depends = dgs.Dependence(*MissingPair.depends.rules, ("inc", "read", dgs.ALWAYS))

    path = tmp_path / "found.json"
    save(dgs.check(MissingPair, max_examples=FEW), "tests.gallery.wrong:MissingPair", path)
    again = replay(path, Mended)
    assert again
    assert "dependent now" in str(again)


def test_replay_reports_a_fork_of_tags_that_are_now_dependent(tmp_path):
    class Mended(Counters):
        depends = dgs.Dependence.everything()
        kinds = tuple(Counters.depends.kinds.values())

    path = tmp_path / "found.json"
    save(dgs.check(ForkDuplicates, max_examples=FEW), "tests.gallery.wrong:ForkDuplicates", path)
    assert replay(path, Mended).laws[0].status == "no need"


def test_kind_that_the_program_does_not_have_is_noted():
    report = dgs.check(Window, strategies={"valeu": [1]}, max_examples=1)
    assert "no kind valeu: it has barrier, value" in str(report)


def test_cli_check_whose_counterexample_cannot_be_saved_still_fails(project):
    text = sums_program(on_value="return state + event.payload.amount", right="state")
    options = 'class Row:\n    amount = 1\n\nOPTIONS = {"strategies": {VALUE: [Row()], BARRIER: [None]}}\n'
    (project / "program.py").write_text(f"{text}\n\n{options}")
    done = command(
        "check program.py:Sums --with program.py:OPTIONS --max-examples 30 --save-counterexample found.json"
    )
    assert done.exit_code == 1
    assert "not saved" in done.stderr


def test_replay_refuses_other_files(tmp_path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(UsageError, match="no counterexamples"):
        replay(tmp_path / "other.json", Counters)


def test_cli_check_finds_saves_and_replays(project):
    done = command(
        "check program.py:Sums --with program.py:OPTIONS --max-examples 30 --save-counterexample found.json"
    )
    assert done.exit_code == 1
    assert "C2" in done.stdout
    assert command("check --replay found.json").exit_code == 1
    (project / "program.py").write_text(RIGHT)
    assert command("check --replay found.json").exit_code == 0


def test_cli_check_of_a_plan_file_uses_its_input(project):
    done = command("check plan.yaml --max-examples 30 --json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["laws"][0]["law"], told["laws"][0]["status"]) == ("plan", "holds")
    broken = [one for one in told["laws"] if one["status"] == "broken"]
    assert [one["law"] for one in broken] == ["C2"]
    assert "'amount': " in str(broken[0]["counterexample"]["steps"])


def test_cli_check_of_an_invalid_plan_lists_its_violations(project):
    section = "plan: {id: w0, tags: {barriers: [barrier]}, children: []}\n"
    (project / "plan.yaml").write_text(PLAN + section)
    (project / "program.py").write_text(RIGHT)
    done = command("check plan.yaml --max-examples 5")
    assert done.exit_code == 1, done.output
    assert "the plan breaks" in done.stdout


def test_cli_check_without_target_is_a_usage_error():
    assert command("check").exit_code == 2


def test_check_of_a_missing_program_is_an_import_error(project):
    with pytest.raises(ProgramImportError):
        dgs.check("program.py:Nothing")


class Queue(dict):
    """A dict whose order is lost in a checkpoint."""


dgs.codec.register(Queue, to=lambda queue: sorted(queue.items()), from_=Queue, name="tests.Queue")


class FirstComesFirst(dgs.Program):
    """Relies on an order that its registered type does not encode."""

    kinds = (dgs.kind("any"),)

    def init(self):
        return Queue(b=0, a=0)

    def update(self, state, event: dgs.Event[int], emit):
        if next(iter(state)) != "b":
            raise ValueError("b is not first")
        return state


def test_error_after_the_codec_only_says_so():
    (found,) = dgs.check(FirstComesFirst, max_examples=5, keys={"any": [None]}).broken
    assert found.law == "resume"
    assert str(found).startswith("  BROKEN    resume: a state that comes back")
    assert (
        found.finding.what == "update raised ValueError: b is not first, but only on the state that came back"
    )


class Extent:
    def __init__(self, low):
        self.low = low

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


class KeepsExtent(dgs.Program):
    """Keeps a state of a class that is not registered."""

    kinds = (dgs.kind("any"),)

    def init(self):
        return Extent(0)

    def update(self, state, event: dgs.Event[int], emit):
        return Extent(event.payload)


def test_hint_of_a_state_of_an_unknown_type_works_as_it_stands(monkeypatch):
    (found,) = dgs.check(KeepsExtent, max_examples=5, keys={"any": [None]}).broken
    hint = re.search(r"`@(dgs.codec.register\(to=.*?\))`", found.finding.hint)[1]
    register = eval(hint, {"dgs": dgs, "YourType": Extent})  # what a user would paste
    monkeypatch.setattr(forms, "_BY_TYPE", dict(forms._BY_TYPE))
    monkeypatch.setattr(registered, "_BY_NAME", dict(registered._BY_NAME))
    register(Extent)
    report = dgs.check(KeepsExtent, max_examples=5, keys={"any": [None]})
    assert report, str(report)
