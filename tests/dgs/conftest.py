"""Fixtures: a small project to run, and the command line inside the test's process."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dgs.workers.trial.stopwatch import PACE
from tests.dgs.projects import sums_plan, sums_program, write_files
from tests.dgs.recovering import EARLY, write_project

PROGRAM = sums_program(on_value="return state + self.scale * event.payload", argument=("scale", 1))
PLAN = (
    sums_plan(payload="amount")
    + """\
optimizer: {max_leaves: 2, name: greedy}
runtime: {kind: local}
"""
)

FILES = {
    "program.py": PROGRAM,
    "plan.yaml": PLAN,
    "barriers.csv": "ts\n2\n4\n6\n",
    "left.csv": "ts,amount\n1,1\n2,10\n3,100\n",
    "right.csv": "ts,amount\n1,2\n4,20\n5,200\n",
}


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory with a program, its plan file and its data; the working directory of the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("NO_COLOR", "DGS_DEBUG", "DGS_RUNTIME", "DGS_HOSTS", "DGS_OPTIMIZER"):
        monkeypatch.delenv(name, raising=False)
    write_files(tmp_path, FILES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def edit(project):
    """Replace a piece of a file of the project."""

    def edit(name: str, old: str, new: str) -> None:
        path = project / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return edit


@pytest.fixture
def dgs(monkeypatch, capfd):
    """Run a command line and return its result. All predictions are for the same pace of this machine, so that commands can be compared."""
    from dgs.api import costing
    from dgs.cli import main

    monkeypatch.setattr(costing, "pace", lambda: PACE)
    monkeypatch.setattr(costing, "_is_busy", lambda: False)  # costs are measured again on a busy machine

    def dgs(line: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["dgs", *shlex.split(line)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Done(ended.value.code or 0, out, err)

    return dgs


@pytest.fixture
def run_dirs(project):
    """Return the directories of the runs so far."""

    def run_dirs() -> list[Path]:
        return sorted((project / ".dgs" / "runs").glob("*"))

    return run_dirs


@pytest.fixture
def slow(project: Path) -> Path:
    """A project whose runs take a moment, in place of the small one, without checkpoints of its own."""
    write_project(project, waits_at=[EARLY])
    return project
