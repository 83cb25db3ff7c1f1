"""A trial in another process: whatever a program does in it, the planner gets costs, and a reason if they are typical costs."""

from __future__ import annotations

import errno
import io
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs import codec
from dgs.errors import UsageError
from dgs.job.schema import ProgramConfig
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.planner.prediction.costs import TYPICAL, Costs
from dgs.workers.trial import trial_process
from dgs.workers.trial.stopwatch import FASTEST, PACE, SLOWEST
from dgs.workers.trial.trial_process import question_of, tried


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Allow more time on a busy machine."""
    monkeypatch.setattr(trial_process, "LONGEST", 60.0)


PROGRAM = """
import os, signal, sys, time
import dgs


class Odd(dgs.Program):
    kinds = ("n",)

    def init(self):
        return 0

    def update(self, state, event, emit):
        {body}
        return state + event.payload


def make(scale=1):
    return Odd()
"""
NUMBERS = EventBatch.of("s", rank=0, tags=[Tag("n")], ts=range(50), payload=list(range(50)))


def tried_with(body, directory, ref="odd.py:make", **arguments):
    Path(directory, "odd.py").write_text(PROGRAM.format(body=body))
    return tried(question_of(ProgramConfig(ref=ref, args=arguments), Path(directory), [NUMBERS], ["none"]))


def test_a_program_that_counts_has_measured_costs(tmp_path, capfd):
    found = tried_with(
        "print(state, flush=True); sys.stderr.write('noise'); sum(range(1000))", tmp_path, scale=2
    )
    assert found.problem is None
    assert found.costs.event("n") > 2e-6
    assert capfd.readouterr() == ("", "")


def test_pandas_is_imported_before_anything_is_measured(tmp_path):
    """Arrow imports it at its first conversion, in the middle of a call."""
    assert tried_with("assert 'pandas' in sys.modules", tmp_path).problem is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("os._exit(3)", "its process exited with 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 ended its process"),
        ("os.killpg(0, signal.SIGTERM)", "signal 15 ended its process"),
        (
            (
                "[os.write(n, b'garbage' * 9) for n in range(3, 99) if os.path.islink(f'/proc/self/fd/{n}') "
                "and 'pipe' in os.readlink(f'/proc/self/fd/{n}')]"
            ),
            "its process answered with garbage",
        ),
    ],
)
def test_a_program_that_ends_its_process_has_typical_costs(tmp_path, body, problem):
    found = tried_with(body, tmp_path)
    assert (found.problem, found.costs) == (problem, TYPICAL)


def test_a_program_that_waits_for_ever_is_killed_with_its_children(tmp_path, monkeypatch):
    pid = tmp_path / "pid"

    def until_the_time_is_over(*_):
        while not pid.exists() or not pid.read_text():
            time.sleep(0.02)
        return False

    monkeypatch.setattr(trial_process, "_is_ready", until_the_time_is_over)
    body = f"child = os.fork(); child and open({str(pid)!r}, 'w').write(str(child)); time.sleep(60)"
    assert tried_with(body, tmp_path).problem == "it took more than 60 s"
    child = Path("/proc", pid.read_text())
    for _ in range(1000):  # its new parent takes a moment to note its end
        if not child.exists():
            break
        time.sleep(0.02)
    assert not child.exists()


def test_a_process_that_has_left_the_session_is_not_waited_for(tmp_path):
    pid = tmp_path / "pid"
    body = (
        f"event.payload == 0 and (os.fork() or (os.setsid(), open({str(pid)!r}, 'w').write(str(os.getpid())), "
        "time.sleep(60))); [time.sleep(0.01) for _ in range(1000) if not os.path.exists({pid!r})]"
    ).replace("{pid!r}", repr(str(pid)))
    found = tried_with(body, tmp_path)
    os.kill(int(pid.read_text()), signal.SIGKILL)  # it is there
    assert found.problem is None


def test_a_module_that_cannot_be_imported_there_is_named(tmp_path):
    found = tried_with("pass", tmp_path, ref="odd.py:missing")
    assert found.problem.startswith("it raised ProgramImportError: ")
    assert found.costs == TYPICAL


@pytest.fixture
def many_files():
    """Have more files open than `select` takes, as far as the system allows."""
    least = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < least:
        pytest.skip(f"a process may open {hard} files here, and the test needs {least}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, least) if soft >= 0 else soft, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield opened
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_trial_runs_while_many_files_are_open(tmp_path, many_files):
    assert max(many_files) > 1024
    assert tried_with("pass", tmp_path).problem is None


class FullFile(io.BytesIO):
    """A file on a full disk."""

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_process(*_, **__):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ((tempfile, "TemporaryFile", FullFile), "No space left on device"),
        ((tempfile, "tempdir", "/nowhere"), "No such file or directory"),
        ((subprocess, "Popen", no_process), "Resource temporarily unavailable"),
        ((sys, "executable", "/nowhere/python"), "No such file or directory"),
        ((sys, "path", [*sys.path, "a\0b"]), "embedded null byte"),
    ],
)
def test_a_machine_that_cannot_start_the_process_gives_typical_costs(tmp_path, monkeypatch, broken, problem):
    monkeypatch.setattr(*broken)
    found = tried_with("pass", tmp_path)
    assert (found.problem, found.costs) == (f"no process could be started for it: {problem}", TYPICAL)


def test_a_trial_starts_no_trial(monkeypatch, tmp_path):
    monkeypatch.setenv(trial_process.INSIDE, "1")
    assert tried_with("pass", tmp_path).problem == "a trial starts no other"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted(TYPICAL.as_data())


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3) | JSON)
def test_costs_are_read_from_data_or_refused(changes):
    data = {**TYPICAL.as_data(), **changes} if isinstance(changes, dict) else changes
    try:
        costs = Costs.from_data(data)
    except UsageError:
        return
    for cost in (costs.event("n"), costs.hop, costs.column("n") or 0.0, *costs.kinds.values()):
        assert cost >= 0


@given(JSON | st.floats())
def test_an_answer_needs_a_pace_that_a_core_may_have(pace):
    found = trial_process.understood(codec.encode([TYPICAL.as_data(), None, pace]))
    is_number = isinstance(pace, (int, float))
    assert (found.problem is None) == (is_number and FASTEST < pace < SLOWEST)
    assert math.isfinite(PACE / found.pace)


@given(st.binary(max_size=200) | JSON.map(codec.encode))
def test_every_answer_is_understood_or_garbage(answer):
    found = trial_process.understood(answer)
    assert found.problem is not None or found.costs.update >= 0
