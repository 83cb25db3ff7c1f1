"""Loading of programs: from files and packages, again after a change, with the user's traceback on failure."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from dgs.errors import ProgramImportError
from dgs.job.loading import load_callable, load_program
from dgs.job.schema import ProgramConfig

PROGRAM = """\
import dgs
from neighbour_of_program import START

class Count(dgs.Program):
    def __init__(self, start=START):
        self.start = start
    def init(self):
        return self.start
    def update(self, state, event, emit):
        return state + 1

ready = Count(5)
def make(start):
    return Count(start * 2)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "neighbour_of_program.py").write_text("START = 3\n")
    yield tmp_path
    sys.modules.pop("neighbour_of_program", None)


@pytest.mark.parametrize(
    ("name", "args", "start"),
    [("Count", {}, 3), ("Count", {"start": 7}, 7), ("ready", {}, 5), ("make", {"start": 4}, 8)],
)
def test_load_program_takes_classes_instances_and_functions(project, name, args, start):
    assert load_program(ProgramConfig(ref=f"program.py:{name}", args=args), project).init() == start


def test_load_from_file_gives_the_same_class_twice_until_the_file_changes(project):
    first = load_callable("program.py:Count", project)
    assert load_callable("program.py:Count", project) is first
    (project / "program.py").write_text(PROGRAM + "\nLATER = 1\n")
    assert load_callable("program.py:LATER", project) == 1


def test_loaded_program_unpickles_in_another_process_that_loads_the_file(project):
    program = load_program(ProgramConfig(ref="program.py:ready"), project)
    script = (
        "import pickle, sys, pathlib; from dgs.job.loading import load_callable;"
        f"load_callable('program.py:Count', pathlib.Path({str(project)!r}));"
        "print(pickle.loads(sys.stdin.buffer.read()).init())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(program), capture_output=True, check=True
    )
    assert done.stdout.strip() == b"5"


def test_load_from_package_finds_modules_beside_the_plan_file(project):
    assert load_callable("neighbour_of_program:START", project) == 3


@pytest.mark.parametrize(
    ("ref", "args", "message"),
    [
        ("program.py", {}, "names no object"),
        ("missing.py:Count", {}, "there is no file"),
        ("no_such_module_here:Count", {}, "there is no module 'no_such_module_here'"),
        ("program.py:Cout", {}, "has no 'Cout'; did you mean 'Count'"),
        ("program.py:START", {}, "it is an int, not a dgs.Program"),
        ("program.py:ready", {"start": 1}, "`args:` cannot be given"),
        ("program.py:Count", {"begin": 1}, r"making it with \(begin=1\) raised TypeError"),
        ("builtins:list", {}, "it makes a list"),
    ],
)
def test_load_program_explains_the_problem(project, ref, args, message):
    with pytest.raises(ProgramImportError, match=message):
        load_program(ProgramConfig(ref=ref, args=args), project)


@pytest.mark.parametrize("content", ["import nothing_of_that_name\n", "def f(:\n", "x = 1\n\n1 / 0\n"])
def test_failing_import_keeps_the_users_traceback_only(project, content):
    (project / "broken.py").write_text(content)
    with pytest.raises(ProgramImportError) as caught:
        load_callable("broken.py:X", project)
    assert "broken.py" in caught.value.trace
    assert "importlib" not in caught.value.trace
    assert "loading.py" not in caught.value.trace
    assert not [name for name in sys.modules if name.endswith("_broken")]


def test_a_module_whose_getattr_raises_is_an_error_of_the_module(tmp_path):
    (tmp_path / "odd.py").write_text("def __getattr__(name): raise ValueError(name)\n")
    with pytest.raises(ProgramImportError, match="looking for 'P' raised ValueError: P"):
        load_callable("odd.py:P", tmp_path)
