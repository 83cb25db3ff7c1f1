"""User code that ends the process or raises KeyboardInterrupt has failed. A run never ends with its exit code."""

import json
import re
import signal
from asyncio import CancelledError
from pathlib import Path

import pytest

import dgs
from dgs.errors import ProgramImportError, UserCodeError
from dgs.errors.raised import is_ours
from dgs.model.program import Program
from dgs.model.user_code import UserCode

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Own(BaseException):
    """A user's exception, whose `str` ends the process."""

    def __str__(self):
        raise SystemExit(0)


EXITS = [
    SystemExit(0),
    SystemExit(None),
    SystemExit("enough"),
    SystemExit(3),
    KeyboardInterrupt(),
    CancelledError(),
    GeneratorExit(),
    BaseExceptionGroup("two", [SystemExit(0), CancelledError()]),
    Own(),
]
STREAMS = {
    "barriers": [(BARRIER(), 10, None)],
    "left": [(VALUE(), ts, ts) for ts in range(20)],
    "right": [(VALUE(), ts, ts) for ts in range(1, 20, 2)],
}
LEAVES = [{"tags": {"left": "value"}}, {"tags": {"right": "value"}}]
PLAN_OF_THREE = {"tags": {"barriers": "barrier"}, "children": LEAVES}


class Exiting(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def __init__(self, where, error):
        self.where, self.error = where, error
        if where == "predicate":
            self.depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, self.is_dependent))

    def is_dependent(self, barrier, value):
        self.reach("predicate")
        return True

    def reach(self, where):
        if where == self.where:
            raise self.error

    def init(self):
        self.reach("init")
        return 0

    def update(self, state, event, emit):
        if event.ts == 7:
            self.reach("update")
        return state + (event.payload or 0)

    def fork(self, state, left, right):
        self.reach("fork")
        return state, 0

    def join(self, left, right):
        self.reach("join")
        return left + right


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["init", "update", "fork", "join", "predicate"])
def test_an_exit_in_user_code_is_an_error_of_it(where, error):
    with pytest.raises(UserCodeError, match=rf"(?s){where} of .* raised {type(error).__name__}") as failed:
        dgs.run(Exiting(where, error), streams=STREAMS, runtime="local", plan=PLAN_OF_THREE)
    assert failed.value.exit_code == 1


@pytest.mark.parametrize("optimizer", ["sequential", "greedy"])
def test_an_event_whose_update_exits_can_be_skipped(optimizer):
    program = Exiting("update", SystemExit(0))
    run = dgs.run(
        program, streams=STREAMS, runtime="local", optimizer=optimizer, settings={"on_error": "skip"}
    )
    assert {letter.ts for letter in run.dead_letters} == {7}


PARTS = ("in_update", "in_generator", "in_source", "in_sink", "in_function")
PROGRAM = """\
from asyncio import CancelledError
import dgs
from dgs.connectors import Sink, Source

{at_import}

class Echo(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        {in_update}
        emit(0)
        return state

def rows():
    yield {{"ts": [1, 2]}}
    {in_generator}

class Rows(Source):
    def read(self, after):
        yield {{"ts": [1, 2]}}, 1
        {in_source}

    def describe(self):
        return {{}}

class Outputs(Sink):
    def write(self, batch, epoch):
        {in_sink}

    def stage(self, epoch):
        return None

def take(batch):
    {in_function}
"""
PLAN = """\
version: 1
name: exiting
program: {ref: "program.py:Echo"}
streams:
  - {id: s, tags: {kind: a}, source: {jsonl: {path: s.jsonl}}, payload: []}
  - {id: g, tags: {kind: a}, source: {generator: {ref: "program.py:rows"}}, payload: []}
  - {id: r, tags: {kind: a}, source: {custom: {ref: "program.py:Rows"}}, payload: []}
sinks: [{custom: {ref: "program.py:Outputs"}}, {callable: {ref: "program.py:take"}}]
runtime: {kind: local}
"""


@pytest.mark.parametrize("place", [*PARTS, "at_import"])
@pytest.mark.parametrize("name", ["SystemExit", "CancelledError", "GeneratorExit"])
def test_an_exit_in_a_file_fails_the_run(tmp_path, place, name):
    parts = {"at_import": ""} | dict.fromkeys(PARTS, "pass") | {place: f"raise {name}"}
    (tmp_path / "program.py").write_text(PROGRAM.format(**parts))
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "s.jsonl").write_text(json.dumps({"ts": 1}))
    with pytest.raises((UserCodeError, ProgramImportError), match=f"raised {name}"):
        dgs.run(tmp_path / "plan.yaml")


def test_ctrl_c_while_user_code_runs_is_an_interrupt():
    def interrupted():
        signal.raise_signal(signal.SIGINT)
        return sum(range(1000))

    with pytest.raises(KeyboardInterrupt) as caught:
        UserCode(Program()).call("update", interrupted)
    assert is_ours(caught.value)


def test_signals_are_distinguished_from_errors_of_user_code_wherever_these_are_caught():
    """Except in the processes of trials, which are ended from outside, and where an error is raised again."""
    root = Path(dgs.__file__).parents[1]
    caught = [
        (path, lines[number + 1 : number + 16])
        for folder in ("dgs", "planner", "workers", "spark_bridge")
        for path in (root / folder).rglob("*.py")
        if path.name not in ("trial.py", "trial_process.py")
        for lines in [path.read_text().splitlines()]
        for number, line in enumerate(lines)
        if "except RAISED" in line
    ]
    assert len(caught) > 10
    for path, following in caught:
        assert any(re.search(r"is_ours|_leave_out|^ *raise\b", line) for line in following), path
