"""Resumed runs after kills, stops and damage: no output is lost or repeated."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import dgs as library
from dgs.api.known_runs import KnownRun, committed_in, held
from dgs.job.run_directory import RunDirectory
from tests.dgs.recovering import (
    CHECKPOINT,
    COUNT,
    EARLY,
    PLAN,
    QUICK,
    THERE,
    committed,
    expected,
    has_requests,
    hasten,
    let_wait,
    meanwhile,
    wait_until,
    write_data,
    write_project,
)


@pytest.fixture
def saving(project):
    """The slow project with checkpoints in a directory that the plan file names."""
    write_project(project, plan=PLAN + CHECKPOINT, waits_at=[EARLY])
    return project


def stopped_run(folder: Path, plan: str, *, epochs: int = 0) -> Path:
    """Return a folder with a project and a run of it, in `there`, that was stopped at a checkpoint."""
    write_project(folder, plan=plan, waits_at=[2 * EARLY])
    place = folder / THERE
    with meanwhile(place, lambda: library.stop(place)):
        library.run(folder / "plan.yaml", run_dir=place)
    assert RunDirectory(place).results()["status"] == "stopped"
    assert epoch_in(folder / "saved") >= epochs
    return folder


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    return stopped_run(tmp_path_factory.mktemp("slow"), PLAN)


@pytest.fixture(scope="module")
def stopped_saving_once(tmp_path_factory):
    return stopped_run(tmp_path_factory.mktemp("saving"), PLAN + CHECKPOINT, epochs=2)


def copied(template: Path, project: Path) -> Path:
    """Put a copy of a project with a stopped run in place of the project."""
    shutil.copytree(template, project, dirs_exist_ok=True)
    return project


@pytest.fixture
def stopped(stopped_once, project):
    """A stopped run without checkpoints of its own, before the end of its input."""
    return copied(stopped_once, project)


@pytest.fixture
def stopped_saving(stopped_saving_once, project):
    """A stopped run with checkpoints in a directory that its plan file names."""
    return copied(stopped_saving_once, project)


@contextmanager
def dgs_process(*arguments):
    """Run a command line in a process of its own, which ends with the context."""
    with subprocess.Popen(
        [sys.executable, "-m", "dgs", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_killed_run_is_resumed_until_it_is_done_and_gives_the_outputs_of_the_sequential_program(project):
    write_project(project, count=400, plan=PLAN + CHECKPOINT)
    moments, commits = random.Random(7), [0]
    for command, waits_at in ((["run", "plan.yaml", "--run-dir"], 150), (["resume"], 300)):
        let_wait(project, waits_at)  # the run cannot end before it is killed
        with dgs_process(*command, "there") as process:
            wait_until(lambda: process.poll() is not None or epoch_in(project / "saved") > commits[-1])
            time.sleep(moments.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
            assert process.wait(timeout=60) == -signal.SIGKILL, process.stderr.read()
        commits.append(epoch_in(project / "saved"))
    hasten(project)
    with dgs_process("resume", "there") as process:
        _out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert 0 < commits[1] < commits[2]
    assert committed(project / "out") == expected(400)
    assert not list((project / "out").glob("*.partial"))


def epoch_in(directory: Path) -> int:
    found = committed_in(directory) if directory.exists() else None
    return 0 if found is None else found.checkpoint.epoch


def test_stopped_run_resumes_under_another_optimizer_and_split(stopped, dgs):
    before = committed(stopped / "out")
    assert 0 < len(before) < len(expected())
    done = dgs(f"resume there --optimizer sequential --set streams.left.split=3 --verify --json {QUICK}")
    report = json.loads(done.out)
    assert (done.code, report["verified"], report["workers"]) == (0, True, 1)
    assert committed(stopped / "out") == expected()
    assert report["outputs"] == len(expected()) - len(before)
    assert report["events_before"] + report["outputs"] == report["events_in"] == len(expected())


def test_changed_plan_file_is_reported_and_not_used(stopped, dgs, edit):
    edit("plan.yaml", "sinks: [{jsonl: {path: out}}]", "sinks: [stdout]")
    done = dgs(f"resume there --verify {QUICK}")
    assert (done.code, done.out) == (0, "")
    assert (
        "plan.yaml was changed after this run had begun; the run ignores the changes: change there/plan.yaml"
        in done.err
    )


def test_equivalent_plan_file_does_not_count_as_changed(stopped, dgs, edit):
    edit("plan.yaml", "split: 2", "split:  2  # as before")
    assert "was changed" not in dgs(f"resume there {QUICK}").err


def test_another_split_alone_makes_a_new_plan_for_it(stopped, dgs):
    assert dgs(f"resume there --set streams.left.split=2 --verify {QUICK}").code == 0
    assert committed(stopped / "out") == expected()


def test_another_plan_is_checked_before_anything_is_touched(stopped, dgs):
    assert dgs("plan plan.yaml --save other.yaml --set streams.left.split=2").code == 0
    before = committed(stopped / "out")
    done = dgs("resume there --plan other.yaml")
    assert done.code == 3
    assert committed(stopped / "out") == before


def test_named_command_starts_again_in_another_run_directory(stopped_saving, dgs):
    assert dgs(f"run plan.yaml --fresh {QUICK}").code == 0
    assert committed(stopped_saving / "out") == expected()


def test_run_refuses_when_a_run_is_unfinished_and_names_both_ways_out(stopped_saving, dgs):
    for _ in range(2):  # a refused command changes nothing
        done = dgs(f"run plan.yaml --run-dir there {QUICK}")
        assert done.code == 2
        assert done.err.startswith("error[DGS202]: the run in there has not finished: ")
        assert "`dgs resume there`" in done.err
        assert "`dgs run plan.yaml --fresh`" in done.err
    assert dgs(f"run plan.yaml {QUICK}").code == 2  # also with the checkpoints that the plan file names
    assert dgs(f"run plan.yaml --run-dir there --resume {QUICK}").code == 0
    assert committed(stopped_saving / "out") == expected()
    assert dgs(f"run plan.yaml {QUICK}").code == 0
    assert committed(stopped_saving / "out") == expected()


def test_copied_project_resumes_on_its_own_even_after_a_torn_commit(stopped_saving, dgs):
    record = committed_in(stopped_saving / "saved")
    last = record.checkpoint.files[0]
    assert (last.path, last.final) == (f"out/{Path(last.path).name}", f"out/{Path(last.final).name}")
    (stopped_saving / last.final).rename(stopped_saving / last.path)
    assert KnownRun(RunDirectory(THERE)).directory.of == (stopped_saving / "plan.yaml").resolve()
    assert dgs(f"resume there --verify {QUICK}").code == 0
    assert committed(stopped_saving / "out") == expected()


def test_fresh_run_starts_again_and_keeps_the_old_directory(stopped_saving, dgs, run_dirs):
    old = {path: path.read_bytes() for path in THERE.rglob("*") if path.is_file()}
    done = dgs(f"run plan.yaml --fresh --json {QUICK}")
    assert json.loads(done.out)["events_before"] == 0
    assert committed(stopped_saving / "out") == expected()
    assert {path: path.read_bytes() for path in THERE.rglob("*") if path.is_file()} == old
    assert len(run_dirs()) == 1


def test_newest_run_beside_the_plan_file_is_found(slow, dgs, run_dirs):
    def stop():
        return library.stop(next(iter(run_dirs())))

    plan = "run plan.yaml --run-dir .dgs/runs/first"
    with meanwhile(Path(".dgs/runs/first"), stop):
        dgs(plan)
    assert dgs("run plan.yaml").code == 2
    assert dgs(f"run plan.yaml --resume --verify {QUICK}").code == 0
    assert committed(slow / "out") == expected()
    assert len(run_dirs()) == 1


def test_resume_without_a_name_takes_the_newest_unfinished_run_here(slow, dgs):
    with meanwhile(Path(".dgs/runs/one"), lambda: library.stop(".dgs/runs/one")):
        dgs("run plan.yaml --run-dir .dgs/runs/one")
    assert dgs(f"resume {QUICK}").code == 0
    assert committed(slow / "out") == expected()
    done = dgs("resume")
    assert (done.code, done.err.partition(":")[0]) == (2, "error[DGS203]")


def test_damaged_newest_checkpoint_is_skipped_and_no_output_repeats(stopped_saving, dgs):
    newest = max((stopped_saving / "saved").glob("state-*.dgs"), key=lambda path: int(path.stem[6:]))
    assert newest.name != "state-1.dgs"  # there is an older checkpoint
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    done = dgs(f"resume there --verify {QUICK}")
    assert done.code == 0, done.err
    assert committed(stopped_saving / "out") == expected()


def test_lost_record_is_refused_unless_duplicates_are_accepted(stopped_saving, dgs):
    for name in ("record-a.dgs", "record-b.dgs"):
        (stopped_saving / "saved" / name).unlink()
    done = dgs("resume there")
    assert done.code == 6
    assert "--accept-duplicates" in done.err
    assert dgs(f"resume there --accept-duplicates {QUICK}").code == 0
    found = committed(stopped_saving / "out")
    assert all(output in found for output in expected())


def test_checkpoints_of_another_program_are_refused_with_the_differences(stopped_saving, dgs, edit):
    edit("program.py", "class Sums(dgs.Program):", "class Sums(dgs.Program):\n    version = 2")
    done = dgs("resume there")
    assert done.code == 6
    assert "version 1" in done.err
    edit("program.py", "version = 2", "name = 'Others'")
    done = dgs("resume there --accept-code-change")
    assert done.code == 6
    assert "program: Sums there, Others here" in done.err


def test_a_refused_resume_leaves_the_settings_of_the_run(stopped_saving, dgs, edit):
    def settings():
        about = json.loads((stopped_saving / "there" / "run.json").read_text())
        return (stopped_saving / "there" / "plan.yaml").read_text(), about["code"], about["plan_is_made"]

    before = settings()
    edit("program.py", "class Sums(dgs.Program):", "class Sums(dgs.Program):\n    name = 'Others'")
    assert dgs("resume there --accept-code-change --set streams.left.split=3").code == 6
    assert settings() == before
    edit("program.py", "\n    name = 'Others'", "")
    assert dgs(f"resume there {QUICK}").code == 0
    assert committed(stopped_saving / "out") == expected()


def test_run_that_is_alive_is_busy(stopped_saving, dgs):
    with held(THERE):
        for line in (
            "resume there",
            "run plan.yaml --run-dir there",
            "run plan.yaml --run-dir there --resume",
        ):
            done = dgs(line)
            assert (done.code, done.out) == (6, "")
            assert done.err.startswith("error[DGS605]: there is in use by process")
            assert done.err.count("\n") == 1


def test_run_that_committed_nothing_starts_again_in_its_directory(slow, dgs):
    directory = RunDirectory.create(THERE)
    assert dgs(f"run plan.yaml {QUICK} --run-dir other").code == 0
    for name in ("plan.yaml", "run.json"):  # as after an early SIGKILL
        (THERE / name).write_bytes((Path("other") / name).read_bytes())
    directory.note(status="running")
    assert dgs(f"resume there --verify {QUICK}").code == 0
    assert committed(slow / "out") == expected()


def test_finished_run_continues_with_rows_added_to_its_files(saving, dgs):
    write_data(saving, COUNT - 1)
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 0
    assert committed(saving / "out") == expected(COUNT - 1)
    again = json.loads(dgs(f"resume there --json {QUICK}").out)
    assert (again["events_in"], again["events_in"] - again["events_before"], again["outputs"]) == (
        len(expected(COUNT - 1)),
        0,
        0,
    )
    write_data(saving, COUNT + 30)
    assert dgs(f"resume there --verify {QUICK}").code == 0
    assert committed(saving / "out") == expected(COUNT + 30)


def test_finished_run_without_checkpoints_has_nothing_left(slow, dgs):
    assert dgs(f"run plan.yaml --run-dir there {QUICK}").code == 0
    done = dgs("resume there")
    assert (done.code, done.err) == (
        0,
        "dgs: sums is done, there is nothing to go on with; the run is in there\n",
    )


def test_changed_input_is_refused(stopped_saving, dgs, edit):
    edit("left.csv", "\n3,3\n", "\n3,4\n")
    done = dgs("resume there")
    assert (done.code, done.err.partition("error[")[2][:6]) == (6, "DGS610")


def test_verify_reads_the_committed_files_and_finds_missing_outputs(stopped, dgs):
    part = stopped / "out" / "part-0.jsonl"
    part.write_text(part.read_text().replace('["value",3]\n', '["value",4]\n'))
    done = dgs(f"resume there --verify {QUICK}")
    assert done.code == 1
    assert "missing:    ['value', 3]" in done.err


def test_verify_reads_parquet_and_no_other_sinks(slow, dgs):
    with meanwhile(THERE, lambda: library.stop(THERE)):
        dgs("run plan.yaml --run-dir there --set 'sinks=[{parquet: {path: out}}]'")
    assert dgs(f"resume there --verify {QUICK}").code == 0
    done = dgs("resume there --verify --set sinks=[stdout]")
    assert (done.code, "the sink 'stdout' cannot be read" in done.err) == (2, True)
    done = dgs("resume there --verify --set 'sinks=[{parquet: {path: out, mode: append}}]'")
    assert (done.code, "the sink 'parquet' also holds outputs of other runs" in done.err) == (2, True)


def test_max_events_is_remembered(slow, dgs):
    with meanwhile(THERE, lambda: library.stop(THERE)):
        dgs("run plan.yaml --run-dir there --max-events 300")
    report = json.loads(dgs(f"resume there --verify --json {QUICK}").out)
    assert (report["events_in"], report["verified"]) == (300, True)


@pytest.mark.parametrize("name", ["state.json", "state.dgs"])
def test_save_state_is_read_back(slow, dgs, name):
    assert dgs(f"run plan.yaml --save-state {name} {QUICK}").code == 0
    assert library.read_state(name) == sum(amount for kind, amount in expected() if kind == "value") - sum(
        total for kind, total in expected() if kind == "sum"
    )
    done = dgs(f"run plan.yaml --save-state nowhere/{name}")
    assert (done.code, "error[DGS405]" in done.err) == (4, True)


def test_python_program_is_stopped_and_resumed(tmp_path):
    place, settings = tmp_path / "run", {"runtime.batch_rows": 20, "runtime.stop_timeout": "60s"}
    is_under_way = threading.Event()

    class Total(library.Program):
        pause = 0.005

        def init(self):
            return 0

        def update(self, state, event, emit):
            time.sleep(self.pause)
            if self.pause and event.ts == 50:
                is_under_way.set()
                wait_until(lambda: has_requests(place))
            emit(event.payload)
            return state + event.payload

    streams = {"numbers": [("n", ts, ts) for ts in range(500)]}
    with meanwhile(place, lambda: library.stop(place), once=is_under_way.is_set):
        first = library.run(Total, streams=streams, run_dir=place, settings=settings)
    assert first.report["status"] == "stopped"
    Total.pause = 0
    with pytest.raises(library.DgsError, match=r"dgs.run\(..., resume=True\)"):
        library.run(Total, streams=streams, run_dir=place)
    second = library.resume(place, program=Total, streams=streams, verify=True)
    assert (second.state, second.verified) == (sum(range(500)), True)
    assert sorted(first.outputs + second.outputs) == list(range(500))


@pytest.mark.parametrize(
    ("line", "code"),
    [("resume nowhere", 2), ("resume plan.yaml", 2), ("run plan.yaml --resume --fresh", 2), ("resume .", 2)],
)
def test_nothing_to_resume_is_a_usage_error(slow, dgs, line, code):
    done = dgs(line)
    assert (done.code, done.out) == (code, "")
    assert "error[DGS20" in done.err
