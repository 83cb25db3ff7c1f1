"""Resumed runs whose program has changed: the change is named and refused, unless it is accepted or has a version of its own."""

import json
import shutil

import pytest

import dgs as library
from dgs.errors import CodeChangedError
from dgs.job.run_directory import RunDirectory
from tests.dgs.recovering import (
    CHECKPOINT,
    EARLY,
    PLAN,
    QUICK,
    THERE,
    committed,
    expected,
    meanwhile,
    write_project,
)


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changing")
    write_project(folder, plan=PLAN + CHECKPOINT, waits_at=[2 * EARLY])
    with meanwhile(folder / THERE, lambda: library.stop(folder / THERE)):
        library.run(folder / "plan.yaml", run_dir=folder / THERE)
    return folder


@pytest.fixture
def stopped(stopped_once, project):
    """A project with a run that was stopped at a checkpoint."""
    return shutil.copytree(stopped_once, project, dirs_exist_ok=True)


def double(edit):
    edit("program.py", "return state + event.payload", "return state + 2 * event.payload")


@pytest.mark.parametrize("line", ["resume there", "run plan.yaml --resume --run-dir there"])
def test_changed_code_is_named_and_refused(stopped, dgs, edit, line):
    before = committed(stopped / "out")
    double(edit)
    done = dgs(f"{line} {QUICK}")
    assert done.code == 6
    assert "program.py: Sums.update has changed\n" in done.err
    assert "--accept-code-change" in done.err
    assert committed(stopped / "out") == before


def test_changed_code_is_run_where_it_is_accepted_and_is_the_code_from_then_on(stopped, dgs, edit):
    directory = RunDirectory(stopped / THERE)
    before = directory.about()["code"]
    double(edit)
    done = dgs(f"resume there --accept-code-change {QUICK}")
    assert done.code == 0, done.err
    assert directory.about()["code"] != before
    found, values = committed(stopped / "out"), [one for one in expected() if one[0] == "value"]
    assert [one for one in found if one[0] == "value"] == values
    assert found != expected()


def test_code_that_only_looks_different_is_resumed(stopped, dgs, edit):
    edit("program.py", "return state + event.payload", "return (state + event.payload)  # the sum")
    assert dgs(f"resume there {QUICK}").code == 0
    assert committed(stopped / "out") == expected()


def test_a_raised_version_migrates(stopped, dgs, edit):
    migrate = "class Sums(dgs.Program):\n    version = 2\n    def migrate(self, state, from_version):\n        return state\n"
    edit("program.py", "class Sums(dgs.Program):\n", migrate)
    done = dgs(f"resume there {QUICK}")
    assert done.code == 0, done.err
    assert committed(stopped / "out") == expected()


def test_a_record_without_the_code_is_resumed_with_a_note(stopped, dgs, edit):
    path = stopped / "there" / "run.json"
    about = json.loads(path.read_text())
    del about["code"], about["digest"]  # as version 0.1.0 wrote it
    path.write_text(json.dumps(about))
    double(edit)
    done = dgs(f"resume there {QUICK}")
    assert done.code == 0
    assert "without a record of its program's code" in done.err


def test_changed_code_in_python(stopped, edit):
    double(edit)
    with pytest.raises(CodeChangedError) as caught:
        library.resume(stopped / THERE)
    assert caught.value.changes == ["program.py: Sums.update has changed"]
    quick = {"program.args.pause": 0}
    library.resume(stopped / THERE, settings=quick, accept_code_change=True)


def test_a_run_that_has_committed_nothing_begins_again_with_mended_code(project, dgs, edit):
    write_project(project, plan=PLAN)
    edit("program.py", "return state + event.payload", "raise ValueError")
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 1
    edit("program.py", "raise ValueError", "return state + event.payload")
    assert dgs(f"resume there {QUICK}").code == 0
    assert committed(project / "out") == expected()
