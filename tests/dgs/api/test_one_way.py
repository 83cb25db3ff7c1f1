"""The path of a plan file through the modules: each file is read and resolved once, and few modules are entered."""

import gc
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import dgs as library
from tests.dgs.projects import write_files
from tests.dgs.recovering import QUICK, THERE, meanwhile

ROOT = Path(library.__file__).resolve().parents[1]
PACKAGES = ("dgs", "planner", "workers", "spark_bridge")
MOST_ON_THE_WAY = 59
"""The most modules between the command line and the runtime, on the way there and back."""

MOST_IN_A_RUN = 108
"""The most modules of a whole run, with those that read, fold and write events. Some twenty of them are for figures and the log. The
number must not grow unnoticed."""

COUNTING = {
    "program.py": """\
import dgs


class Counting(dgs.Program):
    kinds = (dgs.kind("value"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state + 1)
        return state + 1
""",
    "plan.yaml": """\
version: 1
name: counting
program: {ref: "program.py:Counting"}
streams:
  - id: values
    tags: {kind: value}
    source: {csv: {path: left.csv}}
runtime: {kind: local}
""",
}
"""A small job: one stream, one worker."""


class Trace:
    """A trace of our modules with a called function, and of whether the runtime worked; imports do not count."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.outside: set[str] = set()
        self.calls: Counter[str] = Counter()
        self._is_inside = False
        self._known: dict[str, str] = {}

    def __enter__(self):
        gc.collect()  # leftovers of earlier tests, such as generators of sources, would end inside the trace
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_error):
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame, event, _argument):
        code = frame.f_code
        module = self._module(code.co_filename)
        if not module:
            return
        if code.co_name == "run_local" and event in ("call", "return"):
            self._is_inside = event == "call"
        if event == "call" and not is_imported(frame):
            (self.inside if self._is_inside else self.outside).add(module)
            self.calls[f"{module}:{code.co_name}"] += 1

    def _module(self, file: str) -> str:
        if file not in self._known:
            path = Path(file).resolve()
            ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
            self._known[file] = str(path.relative_to(ROOT)) if ours else ""
        return self._known[file]


def is_imported(frame):
    """Return whether a call is part of importing a module."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


@pytest.fixture
def run_traced(dgs):
    """Run a command line and return which modules it entered."""

    def run_traced(line: str) -> Trace:
        with Trace() as trace:
            done = dgs(line)
        assert done.code == 0, done.err
        return trace

    return run_traced


def test_run_reads_and_resolves_its_plan_file_once(project, run_traced):
    trace = run_traced("run plan.yaml")
    assert trace.calls["dgs/job/document.py:read"] == 1
    assert trace.calls["dgs/job/settings.py:resolve"] == 1
    assert trace.calls["dgs/api/preparing.py:prepare"] == 1


def test_resumed_run_resolves_its_own_plan_file_once(slow, dgs, run_traced):
    with meanwhile(THERE, lambda: library.stop(THERE)):
        assert dgs("run plan.yaml --run-dir there").code == 0
    trace = run_traced(f"resume there {QUICK}")
    assert trace.calls["dgs/job/settings.py:resolve"] == 1
    assert trace.calls["dgs/api/preparing.py:prepare"] == 1


def test_few_modules_are_on_the_way_of_a_plan_file(project, run_traced):
    write_files(project, COUNTING)
    trace = run_traced("run plan.yaml")
    assert "workers/protocol/host.py" in trace.inside - trace.outside
    assert "dgs/job/document.py" in trace.outside - trace.inside
    assert len(trace.outside) <= MOST_ON_THE_WAY, sorted(trace.outside)
    assert len(trace.outside | trace.inside) <= MOST_IN_A_RUN, sorted(trace.inside)
