"""The types of dgs for type checkers: mypy reads a user's files, beside the checkout, and in an environment with only the wheel.

So does pyright, where it is installed.

A comment at the end of a line has mypy's message on the line: `# error:` a part of it, `# reveals:` the type, without names of modules.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

GOOD = '''\
"""What users do with the public parts of dgs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, reveal_type

import dgs
import dgs.testing
from dgs import codec, errors
from dgs.keyed import KeyedState
from dgs.monoids import COUNT, MAX, SUM, AllOf, FieldOf, KeyedWindows, Monoid, Windows
from dgs.vectorised import by_kind, by_tag, one_by_one

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")
PRICE, ORDER = dgs.kind("price", key=str), dgs.kind("order", key=str)
CELL = dgs.kind("cell", key=range(5))


class Sums(dgs.Program[int, str]):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))
    accumulates = (VALUE,)
    version = 2

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def init(self) -> int:
        return 0

    def update(self, state: int, event: dgs.Event[int], emit: dgs.Emit[str]) -> int:
        reveal_type(emit)  # reveals: def (str)
        reveal_type(event.payload)  # reveals: int
        reveal_type(event.tag.key)  # reveals: Hashable
        if event.tag.kind == VALUE:
            return state + self.scale * event.payload
        emit(str(state))
        return 0

    def update_batch(self, state: int, batch: dgs.EventBatch, emit_batch: dgs.EmitBatch) -> int:
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == VALUE:
                state += self.scale * int(SUM.fold(run.payload))
            else:
                state = one_by_one(self.update, state, run, emit)
        return state

    def identity(self) -> int:
        return 0

    def fork(self, state: int, left: dgs.TagSet, right: dgs.TagSet) -> tuple[int, int]:
        return (0, state) if BARRIER in right else (state, 0)

    def join(self, left: int, right: int) -> int:
        return left + right

    def migrate(self, state: int, from_version: int) -> int:
        return state * from_version


class Lengths(dgs.Program):
    """Leaves the types of state and outputs open, and takes events of any kind."""

    kinds = dgs.ANY

    def init(self) -> dict[str, int]:
        return {}

    def update(self, state: dict[str, int], event: dgs.Event, emit: Callable[[int], None]) -> dict[str, int]:
        emit(len(state))
        return state | {event.tag.kind: event.ts}


class Neighbours(dgs.Program[int, bool]):
    """Depends by a function over finite kinds."""

    kinds = (CELL,)

    def depends(self, a: dgs.Tag, b: dgs.Tag) -> bool:
        return isinstance(a.key, int) and isinstance(b.key, int) and abs(a.key - b.key) <= 1

    def init(self) -> int:
        return 0

    def update(self, state: int, event: dgs.Event, emit: dgs.Emit[bool]) -> int:
        emit(state > 0)
        return state


class Parts(dgs.Program[int, int]):
    """Has two types of states."""

    depends = Sums.depends

    def init(self) -> int:
        return 0

    def states(self) -> tuple[dgs.StateType, ...]:
        part = dgs.StateType("part", dgs.TagSet.of(VALUE), lambda total, event, emit: total + event.payload)
        return dgs.StateType("whole", dgs.TagSet.everything(), self.update), part

    def fork_joins(self) -> tuple[dgs.ForkJoin, ...]:
        apart = dgs.ForkJoin("apart", "whole", "part", "whole", lambda s, _l, _r: (0, s), lambda a, b: a + b)
        return (apart,)

    def update(self, state: int, event: dgs.Event[int], emit: dgs.Emit[int]) -> int:
        if event.tag.kind == VALUE:
            return state + event.payload
        emit(state)
        return 0


class Orders(KeyedState[int, int]):
    changes = (PRICE,)
    reads = (ORDER,)

    def update(self, state: dict[Any, int], event: dgs.Event[int], emit: dgs.Emit[int]) -> dict[Any, int]:
        if event.tag.kind == ORDER:
            emit(event.payload * state.get(event.tag.key, 0))
        else:
            state[event.tag.key] = event.payload
        return state


class Sales(Windows):
    monoid = AllOf(number=COUNT, greatest=FieldOf(MAX, "amount"))
    accumulates = (VALUE,)
    closes = (BARRIER,)


class Fares(KeyedWindows):
    monoid = SUM
    accumulates = (PRICE,)
    closes = (ORDER,)

    def close(self, state: int, event: dgs.Event, emit: dgs.Emit[int]) -> int:
        emit(state)
        return 0


class Widest:
    """A monoid of the user's own."""

    def identity(self) -> int:
        return 0

    def lift(self, value: int) -> int:
        return value

    def join(self, left: int, right: int) -> int:
        return max(left, right)

    def fold(self, column: Any) -> int:
        return max(column, default=0)

    def windows(self, column: Any, cuts: Any) -> list[int]:
        bounds = [0, *cuts, len(column)]
        return [self.fold(column[start:stop]) for start, stop in zip(bounds, bounds[1:], strict=False)]

    def result(self, state: int) -> int:
        return state


@codec.register(name="project.Point")
@dataclass(frozen=True)
class Point:
    x: int


widest: Monoid = Widest()
barriers, values = [(BARRIER(), 3, None)], [(VALUE(), 1, 10), (VALUE(), 2, 20)]
run = dgs.run(Sums(scale=2), streams={"barriers": barriers, "values": values}, runtime="local", verify=True)
reveal_type(run)  # reveals: Run[int, str]
reveal_type(run.outputs)  # reveals: Outputs[str]
reveal_type(run.state)  # reveals: int
reveal_type(run.report)  # reveals: dict[str, Any]
reveal_type(run.plan)  # reveals: Plan
assert (run.outputs, run.state, run.verified) == (["60"], 0, True)

items = [(PRICE("tea"), 1, 3), (ORDER("tea"), 2, 5)]
ordered = dgs.run(Orders, streams={"items": items})
reveal_type(ordered.outputs)  # reveals: Outputs[int]
assert ordered.outputs == [15]

records = [(VALUE(), 1, {"amount": 7})]
assert dgs.run(Sales, streams={"barriers": barriers, "sales": records}).outputs == [{"number": 1, "greatest": 7}]
assert dgs.run(Fares(), streams={"items": items}).outputs == [3]
assert dgs.run(Parts, streams={"barriers": barriers, "values": values}).outputs == [30]
seen = dgs.run(Neighbours(), streams={"cells": [(CELL(1), 1, None)]})
reveal_type(seen.outputs)  # reveals: Outputs[bool]
open_types = dgs.run(Lengths, streams={"values": values})
reveal_type(open_types.outputs)  # reveals: Outputs[Any]
assert open_types.outputs == [0, 1]

report = dgs.check(Lengths, max_examples=5, strategies={"value": int})
reveal_type(report)  # reveals: CheckReport
trials = dgs.testing.run_plans(Sums, {"barriers": barriers, "values": values}, 3)
reveal_type(trials)  # reveals: Trials
campaign = dgs.testing.simulate(Sums, {"barriers": barriers, "values": values}, seeds=3)
reveal_type(campaign)  # reveals: Campaign
assert codec.decode(codec.encode(Point(3))) == Point(3)

batch = dgs.EventBatch.of("values", rank=0, tags=[VALUE()], ts=[1, 2], payload=[3, 4])
reveal_type(batch.events()[0].tag)  # reveals: Tag
assert list(by_tag(batch, [7])) == [7, 7]
assert dgs.Event(VALUE(), "values", 1, "x").payload.upper() == "X"
assert dgs.Heartbeat("values", 3).ts == dgs.OrderKey(3, 0, 0).ts
assert dgs.ImplTag(VALUE(), "values").tag == VALUE()


def resumed() -> dgs.Run[int, str]:
    anything = dgs.run("plan.yaml", fresh=True)
    reveal_type(anything.outputs)  # reveals: Outputs[Any]
    dgs.stop(anything.run_dir or "plan.yaml", timeout=1)
    dgs.replan("plan.yaml", optimizer={"name": "greedy"})
    dgs.read_state("state.json")
    return dgs.resume("plan.yaml", program=Sums)


try:
    resumed()
except errors.PlanFileError as missing:
    reveal_type(missing.exit_code)  # reveals: int
except dgs.DgsError as other:
    raise SystemExit(other.exit_code) from other
'''

BAD = """\
import dgs
import dgs.testing
from dgs import Progam  # error: Module "dgs" has no attribute "Progam"; maybe "Program"?
from dgs.monoids import SUMS  # error: Module "dgs.monoids" has no attribute "SUMS"

VALUE = dgs.kind("value")
dgs.kind("value", keys=str)  # error: Unexpected keyword argument "keys" for "kind"
dgs.run(3, strems=4)  # error: Unexpected keyword argument "strems" for "run"  # error: Argument 1 to "run"
dgs.Progam  # error: Module has no attribute "Progam"; maybe "Program"?
dgs.Dependence((VALUE, VALUE))  # error: Argument 1 to "Dependence"
dgs.stop(3)  # error: Argument 1 to "stop"
dgs.check(VALUE, max_exampels=3)  # error: Unexpected keyword argument "max_exampels" for "check"


class Sums(dgs.Program[int, str]):
    accumulates = VALUE  # error: Incompatible types in assignment

    def init(self) -> str:  # error: Return type "str" of "init" incompatible with return type "int"
        return ""

    def update(self, state: int, event: dgs.Event[str], emit: dgs.Emit[str]) -> int:
        emit(state)  # error: Argument 1 has incompatible type "int"; expected "str"
        emit(event.paylod)  # error: "Event[str]" has no attribute "paylod"
        return event.payload  # error: Incompatible return value type (got "str", expected "int")

    def update_batch(self, state: int, batch: dgs.EventBatch, emit_batch: dgs.EmitBatch) -> int:
        emit_batch(batch.payload, row=[0])  # error: Unexpected keyword argument "row"
        return state + len(batch.time)  # error: "EventBatch" has no attribute "time"

    def join(self, left: int) -> int:  # error: Signature of "join" incompatible with supertype
        return left


class Lengths(dgs.Program[int, int]):
    def update(self, state: int, event: dgs.Event, emit: dgs.Emit[str]) -> int:  # error: Argument 3 of "update"
        return state


run = dgs.run(Sums, streams={"values": 3})  # error: Dict entry 0 has incompatible type
run.outputs[0] + 1  # error: Unsupported operand types for + ("str" and "int")
run.output  # error: "Run[int, str]" has no attribute "output"
dgs.testing.simulate(Sums)  # error: Missing positional argument "streams"
"""

SAID = re.compile(r"# (error|reveals): (.+?)(?=\s+# |$)")
FOUND = re.compile(r'^(.+\.py):(\d+): (?:error: (.*?)  \[[\w-]+\]|note: Revealed type is "(.*)")$')


def expected(text):
    """Return the messages in the comments of a file: (line, kind, text)."""
    lines = enumerate(text.splitlines(), 1)
    return [(number, *said) for number, line in lines for said in SAID.findall(line)]


@pytest.fixture(scope="module", params=["checkout", pytest.param("wheel", marks=pytest.mark.slow)])
def checked(request, tmp_path_factory):
    """Return mypy's messages on each file, by name: (line, kind, text)."""
    folder = tmp_path_factory.mktemp("typed")
    for name, text in {"good.py": GOOD, "bad.py": BAD}.items():
        (folder / name).write_text(text, encoding="utf-8")
    mypy, files = ("python", "-m", "mypy", "--strict"), (folder / "good.py", folder / "bad.py")
    if request.param == "wheel":
        installed = request.getfixturevalue("installed")
        done = installed.run(*mypy, "--cache-dir", folder / "cache", *files, cwd=folder)
    else:  # with the cache of `make lint`
        command = [sys.executable, *mypy[1:], *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {"good.py": [], "bad.py": []}
    for file, number, error, revealed in filter(None, map(told, done.stdout.splitlines())):
        without_modules = re.sub(r"\b(?:\w+\.)+(?=\w)", "", revealed or "")
        found[Path(file).name].append(
            (int(number), *(("error", error) if error else ("reveals", without_modules)))
        )
    return found


def told(line):
    match = FOUND.match(line)
    return match and match.groups()


def differences(found, said):
    """Yield messages of mypy without a comment, and comments without a message."""
    left = list(said)
    for number, kind, text in found:
        fits = (
            one
            for one in left
            if one == (number, kind, text)
            or (kind == "error" and one[:2] == (number, kind) and one[2] in text)
        )
        match = next(fits, None)
        if match is None:
            yield f"line {number}: {kind}: {text}"
        else:
            left.remove(match)
    yield from (f"not found: {one}" for one in left)


def test_mypy_accepts_a_users_file_and_knows_its_types(checked):
    assert not list(differences(checked["good.py"], expected(GOOD)))


def test_mypy_finds_each_mistake_of_a_users_file(checked):
    assert not list(differences(checked["bad.py"], expected(BAD)))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_agrees(installed, tmp_path):
    for name, text in {"good.py": GOOD, "bad.py": BAD}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [
        "pyright",
        "--outputjson",
        "--pythonpath",
        installed.path / "bin" / "python",
        "good.py",
        "bad.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    }
    assert found == {("bad.py", line) for line, *_ in expected(BAD)}


def test_code_that_mypy_accepts_runs(installed, tmp_path):
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    done = installed.run("python", "-W", "error", "good.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
