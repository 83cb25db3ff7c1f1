"""Races of commands for one run or one directory: nothing is overwritten, and a refused command says why.

The tests set up the moments by hand: a held lock stands for a live process.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

import dgs as library
from dgs.api import beginning, preparing, running
from dgs.api.known_runs import KnownRun, committed_in, held, newest_of
from dgs.api.preparing import Launch
from dgs.api.steering import Moves, answer_to
from dgs.cli import main
from dgs.errors import NoAnswerError, OutputUnwritableError
from dgs.job.run_directory import RunDirectory
from dgs.workers.sinks.files.places import Place
from dgs.workers.sinks.files.publishing import claim
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

FIRST = Path(".dgs/runs/first")
SHORT = 30


@pytest.fixture
def short(project):
    """The project of few events."""
    write_project(project, count=SHORT)
    return project


@pytest.fixture
def saving(project):
    """The slow project with checkpoints in a directory that the plan file names."""
    write_project(project, plan=PLAN + CHECKPOINT, waits_at=[EARLY])
    return project


@pytest.fixture
def failed(short, dgs, edit):
    """A project with a run, in `.dgs/runs/first`, that failed before any commit; the cause is fixed."""
    edit("left.csv", "\n5,5\n", "\n5,x\n")
    assert dgs(f"run plan.yaml --run-dir {FIRST} {QUICK}").code == 1
    edit("left.csv", "\n5,x\n", "\n5,5\n")
    return short


@contextmanager
def alive(path: Path):
    """Make a run look alive."""
    with held(path):
        yield


def test_run_directory_that_holds_files_of_others_is_left_alone(short, dgs):
    before = Path("plan.yaml").read_text()
    done = dgs(f"run plan.yaml --run-dir . {QUICK}")
    assert (done.code, "it holds files that no run has written: plan.yaml" in done.err) == (4, True)
    assert Path("plan.yaml").read_text() == before
    THERE.mkdir()
    (THERE / "lock").write_text("mine")
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 4
    assert (THERE / "lock").read_text() == "mine"


def test_run_directory_of_a_run_that_was_killed_before_it_had_begun_is_used(short, dgs):
    THERE.mkdir()
    with held(THERE):
        pass
    (THERE / "plan.yaml").write_text("half of")
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 0


def test_the_second_of_two_runs_in_one_directory_does_not_begin(short, dgs):
    prepared = preparing.prepare(preparing.from_file("plan.yaml", {}))
    second = beginning.new_directory(prepared.request, THERE)
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 0  # the first run, which was quick
    before = (THERE / "results.json").read_text()
    with pytest.raises(OutputUnwritableError, match="results of an earlier run"):
        running.execute(Launch(prepared, second))
    assert (THERE / "results.json").read_text() == before


def test_a_directory_with_a_run_without_a_commit_names_the_command_that_resumes(failed, dgs):
    done = dgs(f"run plan.yaml --run-dir {FIRST} {QUICK}")
    assert (done.code, f"Resume it with `dgs resume {FIRST}`" in done.err) == (2, True), done.err
    assert "nothing is committed" in done.err
    with alive(FIRST):
        assert dgs(f"run plan.yaml --run-dir {FIRST} {QUICK}").code == 6
    assert dgs(f"resume {FIRST} {QUICK}").code == 0
    assert dgs(f"run plan.yaml --run-dir {FIRST} {QUICK}").code == 4  # the run is done, and its results stay


def test_unwritable_lock_is_no_internal_error(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(OutputUnwritableError, match="Is a directory"), held(tmp_path):
        pass


def test_resume_of_a_named_directory_without_commits_starts_the_run(failed, dgs):
    line = f"run plan.yaml --resume --run-dir {FIRST} {QUICK}"
    assert dgs(line).code == 0
    assert dgs(line).code == 0  # a supervisor may start it again
    assert committed(failed / "out") == expected(SHORT)


def test_resume_of_a_directory_that_another_plan_file_has_is_refused(failed, dgs):
    shutil.copy("plan.yaml", "other.yaml")
    done = dgs(f"run other.yaml --resume --run-dir {FIRST} {QUICK}")
    assert (done.code, "it holds the results of an earlier run" in done.err) == (4, True)


@pytest.mark.parametrize("flag", ["", "--resume", "--fresh"])
def test_run_refused_because_of_a_live_one_leaves_no_trace(failed, dgs, run_dirs, flag):
    with alive(FIRST):
        done = dgs(f"run plan.yaml {flag}")
    assert (done.code, done.err.startswith("error[DGS605]: ")) == (6, True)
    assert len(run_dirs()) == 1


def test_run_that_writes_elsewhere_may_run_beside_a_live_one(failed, dgs):
    with alive(FIRST):
        done = dgs(f"run plan.yaml {QUICK} --set 'sinks=[{{jsonl: {{path: else}}}}]'")
        assert newest_of(failed / "plan.yaml").directory.path.name == "first"
    assert done.code == 0
    assert committed(failed / "else") == expected(SHORT)
    assert newest_of(failed / "plan.yaml").directory.path.name != "first"


def test_run_that_was_refused_does_not_count_as_the_newest(failed, dgs, run_dirs):
    with claim([Place(failed / "out", "jsonl")]):
        done = dgs(f"run plan.yaml {QUICK}")
    assert (done.code, "another run is writing to it" in done.err) == (4, True)
    assert len(run_dirs()) == 2
    assert newest_of(failed / "plan.yaml").directory.path.name == "first"


def test_newest_run_is_the_last_begun_even_if_the_clock_stands_still(short, dgs, run_dirs, monkeypatch):
    monkeypatch.setattr(running.process, "now", lambda: 1e9)
    for _ in range(3):
        before = set(run_dirs())
        assert dgs(f"run plan.yaml {QUICK}").code == 0
        (new,) = set(run_dirs()) - before
        assert newest_of(short / "plan.yaml").directory.path.name == new.name


def test_checkpoints_of_a_run_that_was_stopped_meanwhile_are_not_removed(saving, dgs, monkeypatch):
    with meanwhile(THERE, lambda: library.stop(THERE)):
        assert dgs("run plan.yaml --run-dir there").code == 0
    before = sorted(path.name for path in Path("saved").iterdir())
    prepared = preparing.prepare(preparing.from_file("plan.yaml", {}))
    monkeypatch.setattr(beginning, "begun", lambda *_args, **_kwargs: None)
    assert not beginning.make_room(prepared, resume=False, fresh=False)
    assert sorted(path.name for path in Path("saved").iterdir()) == before
    assert committed_in(Path("saved")).checkpoint.events > 0


def test_checkpoint_dir_named_again_is_the_same(saving, dgs):
    line = "run plan.yaml --resume --run-dir there --set checkpoint.dir=saved"
    with meanwhile(THERE, lambda: library.stop(THERE)):
        assert dgs(line).code == 0
    assert dgs(f"{line} --verify {QUICK}").code == 0
    assert dgs(f"resume there --set checkpoint.dir=other {QUICK}").code == 2


def test_run_that_is_refused_at_the_checkpoints_leaves_them_alone(saving, dgs):
    Path("saved").mkdir()
    with held(Path("saved")):
        assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 6
    assert [path.name for path in Path("saved").iterdir()] == ["lock"]
    assert not list(Path("out").glob("*"))


def test_stop_of_a_process_that_does_not_begin_gives_up(failed):
    with alive(FIRST), pytest.raises(NoAnswerError, match="has not begun within"):
        library.stop(FIRST, timeout=0.01)


@pytest.mark.parametrize(
    ("status", "how"), [("failed", "it failed by itself"), ("killed", "its process was killed")]
)
def test_stop_says_how_a_run_ended_that_did_not_stop(failed, dgs, monkeypatch, status, how):
    directory = RunDirectory(FIRST)
    directory.write_results({"status": status})
    states = iter([True])
    monkeypatch.setattr(KnownRun, "is_alive", property(lambda _run: next(states, False)))
    monkeypatch.setattr(KnownRun, "is_listening", property(lambda _run: False))
    assert dgs(f"stop {FIRST}").err == (
        f"dgs: sums has ended: {how}; nothing is committed; go on with: dgs resume {FIRST}\n"
    )


def test_two_moves_in_a_row_are_both_answered(short, dgs):
    assert dgs("plan plan.yaml --save sequential.yaml --set optimizer.name=sequential").code == 0
    prepared = preparing.prepare(preparing.from_file("plan.yaml", {}))
    moves = Moves(Launch(prepared, RunDirectory.create(THERE)))
    job = moves.launch.job
    plans = [THERE / "control" / f"plan-{number}.yaml" for number in (1, 2)]
    for plan in plans:
        plan.parent.mkdir(exist_ok=True)
        shutil.copy("sequential.yaml", plan)
        job = moves.replanned(job, str(plan))
    assert [answer_to(plan) for plan in plans] == [{"problem": None}] * 2


def test_run_reports_its_own_error_if_its_directory_disappears(short, dgs, edit):
    edit(
        "program.py",
        "dawdle(self.pause, event.ts)",
        "import shutil; shutil.rmtree('there'); raise ValueError('mine')",
    )
    done = dgs("run plan.yaml --run-dir there")
    assert (done.code, "ValueError: mine" in done.err) == (1, True)


def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback(monkeypatch, capsys):
    def interrupted(**_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dgs.cli.app.app", interrupted)
    monkeypatch.setattr("sys.argv", ["dgs", "resume", "a run"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = "dgs was stopped before it had begun; repeat with: dgs resume 'a run'\n"
    assert (ended.value.code, capsys.readouterr().err) == (130, said)
