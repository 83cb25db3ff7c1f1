"""Runs with `compile: require`: outputs and states equal the interpreted run's, and other programs are refused at the start."""

import math
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

import dgs
from dgs.compiled import compiled_beside, loop_files, verified_folds
from dgs.errors import InternalError, MissingPackageError, UserCodeError
from dgs.errors.resources import CompileError
from dgs.semantics.sequential import without_batches
from dgs.vectorised import one_by_one
from dgs.workers.protocol.folding import fold
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.to_compile import ToCompile, load_compiler
from dgs.workers.protocol.releases import Release
from experiments.event_window.program import BARRIER, VALUE, EventWindow
from experiments.fraud_detection.program import RULE, TRANSACTION, CyclicFraudDetection, FraudDetection
from experiments.page_view_join.program import UPDATE, VIEW, PageViewJoin
from tests.dgs.compiled.both_ways import Compiled, batch_of, by_python, interpreted, program_of
from tests.dgs.recovering import wait_until

N = dgs.kind("n")


class Inverse(dgs.Program):
    """Counts, and sometimes emits a quotient whose divisor may be zero."""

    kinds = (N,)

    def init(self):
        return 0

    def update(self, state, event, emit):
        if state % 100 == 99:
            emit(1000 // (event.payload - 500))
        return state + 1


class InverseInBatches(Inverse):
    """The same with an `update_batch`, which is for stretches that are longer than those of lanes that alternate."""

    def update_batch(self, state, batch, emit):
        return one_by_one(self.update, state, batch, emit)


class Sum(Inverse):
    """Adds values that are not null, and emits the sum, and the nulls. `is_tested`: whether it tests for None first."""

    def __init__(self, is_tested):
        self.is_tested = is_tested

    def update(self, state, event, emit):
        if self.is_tested and event.payload is None:
            emit(event.payload)
            return state
        emit(state + event.payload)
        return state + event.payload


class Words(Inverse):
    """Has a state that the compiler does not accept."""

    def init(self):
        return ""

    def update(self, state, event, emit):
        return state


def values_of(outputs):
    """Return the outputs of each stream with the times of their events."""
    return sorted(
        (one.stream, ts, value) for one in outputs for ts, value in zip(one.ts, one.values, strict=True)
    )


def run(program, payload, **options):
    streams = {"n": [(N(), ts, value) for ts, value in enumerate(payload)]}
    return dgs.run(program, streams=streams, runtime={"kind": "local", **options})


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_compiled_run_equals_the_interpreted_one(on_error):
    payload = [7 * number % 1000 for number in range(2000)]
    found = []
    for mode in ("off", "require"):
        settings = {"on_error": on_error, "runtime.kind": "local", "runtime.compile": mode}
        done = dgs.run(
            Inverse(), streams={"n": [(N(), *one) for one in enumerate(payload)]}, settings=settings
        )
        found.append((done.state, list(done.outputs)))
    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.usefixtures("machine")
def test_an_exception_is_that_of_the_interpreted_run():
    payload = [500 if number == 399 else 3 for number in range(1000)]
    errors = []
    for mode in ("off", "require"):
        with pytest.raises(UserCodeError) as raised:
            run(Inverse(), payload, compile=mode)
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert "row 399" in errors[0]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("values", [[3, 600, 2] * 700, [3, 600, None, 4] * 500, [None] * 2000])
@pytest.mark.parametrize("is_tested", [True, False])
def test_a_column_with_nulls_gives_or_raises_the_same_as_interpreted(values, is_tested):
    found = []
    for mode in ("off", "require"):
        table = pa.table({"at": range(len(values)), "x": pa.array(values, pa.int64())})
        streams = {"n": dgs.stream(table, kind="n", ts="at", payload="x")}
        try:
            done = dgs.run(Sum(is_tested), streams=streams, runtime={"kind": "local", "compile": mode})
            found.append((done.state, list(done.outputs)))
        except UserCodeError as error:
            found.append(str(error))
    assert found[0] == found[1]
    assert is_tested or None not in values or "NoneType" in found[0]


@pytest.mark.usefixtures("machine")
def test_a_program_that_is_not_accepted_is_refused_before_the_run():
    with pytest.raises(
        CompileError,
        match="update of program Words is not compiled for kind 'n': a state with a value of type str is not compiled",
    ):
        run(Words(), [1, 2], compile="require")


def test_a_run_without_llvmlite_says_what_to_install(monkeypatch):
    monkeypatch.setattr("dgs.compiled.preview.is_available", lambda: False)
    with pytest.raises(MissingPackageError, match="llvmlite"):
        run(Inverse(), [1, 2], compile="require")


def test_importing_dgs_and_running_interpreted_imports_no_llvmlite():
    text = (
        "import sys, dgs\nclass P(dgs.Program):\n    kinds = (dgs.kind('n'),)\n    def init(self): return 0\n"
    )
    text += "    def update(self, state, event, emit): return state + event.payload\n"
    text += "streams = {'n': [(dgs.Tag('n'), ts, ts) for ts in range(100)]}\n"
    text += "assert dgs.run(P(), streams=streams, runtime='local').state == 4950\nassert not {'llvmlite', 'dgs.compiled'} & {*sys.modules}\n"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


@pytest.mark.parametrize(
    ("program", "tags"),
    [
        (EventWindow(), [VALUE(), BARRIER()]),
        (FraudDetection(), [TRANSACTION(), RULE()]),
        (CyclicFraudDetection(), [TRANSACTION(), RULE()]),
    ],
)
def test_applications_fold_in_machine_code_as_in_python(program, tags, machine):
    rng = np.random.default_rng(3)
    payload = rng.integers(0, 2000, 3000)
    payload[rng.integers(0, 3000, 4)] = 2**63 - 1
    batch = batch_of(payload, tags=tags, codes=rng.integers(0, 30, 3000) == 0)
    program = without_batches(program)
    compiled = Compiled(program, machine)
    assert compiled.fold(batch, program.init(), [1, 1000, 2500]) == interpreted(
        program, batch, program.init()
    )
    assert compiled.update.events > 2000
    assert compiled.update.deviations > 0


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("optimizer", ["sequential", "greedy"])
def test_a_run_of_keyed_streams_that_alternate_is_compiled(optimizer):
    rng = np.random.default_rng(8)
    streams = {"updates": [(UPDATE(int(rng.integers(2))), 3 * n, n) for n in range(200)]}
    for name in ("left", "right"):
        streams[name] = [(VIEW(int(rng.integers(2))), n, 10 * n) for n in range(600)]
    found = []
    for mode in ("off", "require"):
        done = dgs.run(
            without_batches(PageViewJoin()),
            streams=streams,
            runtime="local",
            optimizer=optimizer,
            compile=mode,
        )
        found.append((done.state, list(done.outputs)))
    assert found[0] == found[1]


def test_compiling_beside_a_run_makes_the_worker_wait_for_nothing(machine, monkeypatch):
    """A fake replaces the child process: the loop is used once the fake has left its file."""
    started = []
    monkeypatch.setattr(compiled_beside, "_started", lambda path: started.append(path) or Running())
    program, batch = Inverse(), batch_of(list(range(1, 400)))
    compiled = Compiled(program, compiled_beside.loop_or_none)
    wanted = interpreted(program, batch, 0)
    assert compiled.fold(batch, 0, [100, 200]) == wanted
    assert (len(started), compiled.update.events) == (1, 0)
    compiled_beside.main(started[0])
    assert compiled.fold(batch, 0, [100, 200]) == wanted
    assert compiled.update.events == len(batch)
    assert not compiled.update.refusals


class Running:
    def poll(self):
        return None


def test_a_loop_that_llvm_refuses_stays_interpreted(machine, monkeypatch):
    monkeypatch.setattr(
        compiled_beside, "_started", lambda path: path.with_suffix(".failed").write_text("too odd")
    )
    program, batch = Inverse(), batch_of(list(range(1, 300)))
    compiled = Compiled(program, compiled_beside.loop_or_none)
    assert compiled.fold(batch, 0, [100, 200]) == interpreted(program, batch, 0)
    assert [str(why) for why in compiled.update.refusals.values()] == ["too odd"]


def ticking(seconds: float):
    """Return a clock by which each fold takes some seconds."""
    times = count(0.0, seconds)
    return lambda: next(times)


@pytest.mark.parametrize(
    ("expected", "seconds", "interpreted"),
    [
        pytest.param(math.inf, 0.0025, 399, id="twice-as-many-may-come-as-have-come"),
        pytest.param(
            math.inf, 0.004, 250, id="so-it-pays-once-interpreting-has-taken-half-as-long-as-loading"
        ),
        pytest.param(260, 0.0075, 399, id="few-are-known-to-come"),
        pytest.param(399, 0.0075, 125, id="many-are-known-to-come"),
        pytest.param(100, 0.004, 250, id="more-come-than-were-known"),
    ],
)
def test_machine_code_is_loaded_once_it_takes_less_time_than_interpreting_the_rest(
    machine, monkeypatch, expected, seconds, interpreted
):
    monkeypatch.setattr(compiled_beside, "loop_or_none", machine)
    load_compiler()
    program, batch = Inverse(), batch_of(list(range(1, 400)))
    to_compile = ToCompile(program.states()[0].update, False, expected, ticking(seconds))
    folder = Folder(program, program.states()[0], "w", compiled=to_compile)
    for start, stop in ((0, 125), (125, 250), (250, 399)):
        folder.fold(0, Release((0,), [batch.cut(start, stop)]))
    assert folder.interpreted == interpreted
    counts = folder.compiled_counts
    assert (0 if counts is None else counts.compiled_events) == 399 - interpreted


def test_machine_code_does_not_pay_for_the_few_events_that_no_batch_takes():
    load_compiler()
    loop = SimpleNamespace(events=10, timed=10, seconds=0.01)
    to_compile = ToCompile(Inverse().states()[0].update, False, 2000, ticking(1.0))
    assert to_compile.pays(loop, 0)
    assert not to_compile.pays(loop, 990)


@pytest.mark.parametrize("has_batches", [False, True])
def test_the_loop_takes_over_in_the_middle_of_a_large_release(machine, monkeypatch, has_batches):
    monkeypatch.setattr(compiled_beside, "loop_or_none", machine)
    monkeypatch.setattr(fold, "FIRST", 100)
    load_compiler()
    program, many = InverseInBatches() if has_batches else Inverse(), list(range(1, 400))
    batches = [replace(batch_of(many), stream=name, rank=rank) for rank, name in enumerate("ab")]
    to_compile = ToCompile(program.states()[0].update, False, 798, ticking(1.0))
    folder = Folder(program, program.states()[0], "w", compiled=to_compile)
    release = Release((0, 1), batches, {0: (1,), 1: (0,)})
    state, outputs = folder.fold(0, release)
    assert 100 <= folder.interpreted < 200
    assert folder.compiled_counts.compiled_events == len(release) - folder.interpreted
    expected = Folder(program, program.states()[0], "w").fold(0, release)
    assert (state, values_of(outputs)) == (expected[0], values_of(expected[1]))


def test_the_loop_takes_over_in_the_middle_of_many_windows(machine, monkeypatch):
    monkeypatch.setattr(compiled_beside, "loop_or_none", machine)
    monkeypatch.setattr(fold, "FIRST", 50)
    load_compiler()
    program, batch = Inverse(), batch_of(list(range(1, 400)))
    keys = batch_of(list(range(4))).cut(0, 4)
    keys = replace(keys, ts=np.array([40, 160, 160, 1000]))
    folds = []
    for to_compile in (None, ToCompile(program.states()[0].update, False, 399, ticking(1.0))):
        folder = Folder(program, program.states()[0], "w", compiled=to_compile)
        states = [0] * 4
        folds.append((states, values_of(folder.fold_windows(states, batch, keys))))
    assert folder.interpreted == 50
    assert folder.compiled_counts.compiled_events == 349
    assert folds[0] == folds[1]


@pytest.mark.parametrize("why", [OSError("no more processes"), "frozen"])
def test_where_no_process_starts_the_run_is_interpreted(machine, monkeypatch, why):
    if why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=why))
    program, batch = Inverse(), batch_of([7] * 50)
    compiled = Compiled(program, compiled_beside.loop_or_none)
    for _ in range(3):
        assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    assert subprocess.Popen.call_count == (why != "frozen")
    assert "process" in str(*compiled.update.refusals.values()) or why == "frozen"


@pytest.mark.slow
def test_modules_of_the_users_folder_are_not_imported_by_the_other_process(machine, monkeypatch, tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit(3)")
    (tmp_path / "ast.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compiled_beside, "_running", {})
    program, batch = Inverse(), batch_of([8] * 50)
    compiled = Compiled(program, compiled_beside.loop_or_none)
    compiled.fold(batch, 0)
    (process,) = compiled_beside._running.values()
    assert process.wait(60) == 0
    compiled.fold(batch, 0)
    assert compiled.update.events == 50


@pytest.mark.usefixtures("machine")
@pytest.mark.slow
def test_a_run_is_compiled_by_another_process():
    payload = list(range(1000, 401_000))
    found = [run(Inverse(), payload, compile=mode) for mode in ("off", "auto")]
    assert found[0].state == found[1].state
    assert list(found[0].outputs) == list(found[1].outputs)


KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from dgs.compiled import compiled_beside
from tests.dgs.recovering import wait_until

started = compiled_beside._started(Path(sys.argv[1]))
wait_until(lambda: subprocess.run(["ps", "--ppid", str(started.pid)], stdout=subprocess.DEVNULL).returncode == 0)
for one in (started.pid, os.getpid()):
    os.kill(one, signal.SIGKILL)
"""


def test_a_loop_is_compiled_for_later_runs_although_the_host_and_its_children_are_killed(
    machine, monkeypatch
):
    """Ray does that at the end of each run."""
    asked = []
    monkeypatch.setattr(compiled_beside, "_started", lambda path: asked.append(path) or Running())
    program, batch = Inverse(), batch_of(list(range(1, 100)))
    Compiled(program, compiled_beside.loop_or_none).fold(batch, 0)
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, asked)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: loop_files.is_ready(asked[0]))


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_wrong_loop_ends_a_run_that_is_verified(monkeypatch, is_wrong):
    monkeypatch.setattr(verified_folds, "EVERY", 2)
    monkeypatch.setenv("DGS_VERIFY_COMPILED", "1")
    change = (
        (lambda text: text.replace("add_checked(s0", "add_checked(1 + s0"))
        if is_wrong
        else (lambda text: text)
    )
    compiled = Compiled(Inverse(), lambda loop: by_python(loop, change))
    batch, outputs = batch_of(list(range(1, 300))), []
    state = compiled.update.fold(0, batch.cut(0, 50), outputs)
    if not is_wrong:
        assert compiled.update.fold(state, batch, outputs) == 349
        assert len(outputs) == 1
        return
    with pytest.raises(InternalError, match="the state differs"):
        compiled.update.fold(state, batch, outputs)


def test_objects_that_are_passed_on_are_no_difference_when_a_fold_is_verified(monkeypatch):
    monkeypatch.setattr(verified_folds, "EVERY", 1)
    monkeypatch.setenv("DGS_VERIFY_COMPILED", "1")
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    program = program_of(text + "        emit(event.payload)\n        return state + 1\n")
    batch = batch_of([object(), object()])
    assert Compiled(program).fold(batch, 0) == interpreted(program, batch, 0)
