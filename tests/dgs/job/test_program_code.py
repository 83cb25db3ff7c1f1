"""Digests of a program's code: which changes affect them, and which modules count."""

import subprocess
import sys
from pathlib import Path

import pytest

from dgs.job.loading import load_program
from dgs.job.program_code import changes, code_of, pieces
from dgs.job.schema import ProgramConfig

PROGRAM = '''\
"""Sums."""
import importlib
import math
import numpy
import dgs
from helpers.rates import rate

LIMIT = 3


class Sums(dgs.Program):
    """What it is."""

    def init(self):
        return 0

    def update(self, state, event, emit):
        from late import later
        importlib.import_module("helpers.dynamic")
        return rate(state) + LIMIT
'''
SCRIPT = '''\
import json, sys
from pathlib import Path
import dgs
from dgs.job.program_code import code_of
from helpers.rates import rate

LIMIT = {limit}
STARTED = object()


def doubled(x):
    """Twice."""
    return {factor} * x


def made(step):
    class Sums(dgs.Program):
        def init(self):
            return 0

        def update(self, state, event, emit):
            return doubled(state) + step + rate(LIMIT) + (STARTED is None)

    return Sums


print(json.dumps(code_of(made({step})(), Path.cwd())))
'''


@pytest.fixture
def project(tmp_path):
    (tmp_path / "helpers").mkdir()
    files = {
        "helpers/__init__.py": "",
        "helpers/rates.py": "from . import others\ndef rate(x): return others.times * x\n",
        "helpers/others.py": "times = 2\n",
        "helpers/unused.py": "times = 2\n",
        "helpers/dynamic.py": "",
        "late.py": "def later(): pass\n",
        "program.py": PROGRAM,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def coded(project):
    """Return the digests of the project's program, as another process sees them."""
    code = (
        "import json, sys; from pathlib import Path; from dgs.job.loading import load_program\n"
        "from dgs.job.program_code import code_of; from dgs.job.schema import ProgramConfig\n"
        "ref = 'program.py:Sums'; program = load_program(ProgramConfig(ref=ref), Path.cwd())\n"
        "print(json.dumps(code_of(program, Path.cwd(), ref)))"
    )
    return output_of(project, code)


def output_of(project, code):
    import json

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_users_modules_count_and_no_others(project):
    helpers = {f"helpers/{name}.py" for name in ("__init__", "rates", "others", "dynamic")}
    assert set(coded(project)) == {"program.py", "late.py", *helpers}


CHANGES = [
    ("program.py", "+ LIMIT", "- LIMIT", "Sums.update has changed"),
    ("program.py", "LIMIT = 3", "LIMIT = 4", "LIMIT has changed"),
    ("program.py", "(dgs.Program):", "(dgs.Program, object):", "Sums has changed"),
    ("program.py", "import math", "import cmath", "the top level has changed"),
    ("helpers/others.py", "times = 2", "times = 3", "times has changed"),
    ("late.py", "def later", "def latest", "latest is new, later is gone"),
]


def test_changes_are_named_by_file_and_function(project):
    before = coded(project)
    for file, old, new, told in CHANGES:
        path = project / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        assert changes({file: pieces(text)}, {file: pieces(path.read_text())}) == [f"{file}: {told}"]
    assert {line.partition(":")[0] for line in changes(before, coded(project))} == {
        file for file, *_ in CHANGES
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    """What it is."""\n', ""),
        ("        return 0", "        # nothing\n\n        return (0)"),
        ('"""Sums."""\n', '"""Other\nwords."""\n'),
        ("    def init(self):\n", '    def init(self):\n        """Begin."""\n'),
        ("LIMIT = 3", "LIMIT=3  # as much"),
    ],
)
def test_comments_layout_and_docstrings_are_no_change(old, new):
    assert old in PROGRAM
    assert pieces(PROGRAM.replace(old, new)) == pieces(PROGRAM)


def test_code_that_only_a_script_executes_is_no_change():
    assert pieces("x = 1") == pieces("x = 1\nif __name__ == '__main__':\n    print(x)")


def test_the_digest_of_a_program_in_a_script_has_what_its_class_mentions(project):
    def scripted(extra="", **values):
        return output_of(project, extra + SCRIPT.format(**{"limit": 1, "factor": 2, "step": 5, **values}))

    plain = scripted()
    assert set(plain) == {"__main__", "helpers/__init__.py", "helpers/rates.py", "helpers/others.py"}
    assert changes(plain, scripted(extra="other = 1\n")) == []
    assert changes(plain, scripted(limit=2)) == ["__main__: LIMIT has changed"]
    assert changes(plain, scripted(factor=3)) == ["__main__: doubled has changed"]
    assert changes(plain, scripted(step=6)) == ["__main__: step has changed"]


def test_the_function_that_makes_a_program_counts(project, monkeypatch):
    monkeypatch.delitem(sys.modules, "program", raising=False)  # a module of another test's project
    monkeypatch.syspath_prepend(str(project))
    (project / "making.py").write_text("from program import Sums\ndef make(): return Sums()\n")
    program = load_program(ProgramConfig(ref="making.py:make"), project)
    assert "making.py" in code_of(program, project, "making.py:make")
    assert Path("making.py").name not in code_of(program, project)
