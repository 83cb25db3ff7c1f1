"""Runs with users' connectors have the outputs of the sequential program, also after stops and kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dgs as library
from dgs.errors import UserCodeError
from dgs.job.run_directory import RunDirectory
from tests.dgs.connecting import PLAN, STORE, in_folder, in_rows, reads, with_sinks, write_project
from tests.dgs.recovering import CHECKPOINT, COUNT, committed, expected, hasten, meanwhile, wait_until

THERE = Path("there")
MANY = 1000
"""Values of each stream: the rest takes seconds when a run is stopped."""
RUNTIMES = [
    pytest.param({"kind": "local"}, id="local"),
    pytest.param({"kind": "ray", "hosts": 2}, marks=[pytest.mark.ray], id="ray"),
]

ON_SPARK = pytest.param({"kind": "spark"}, id="spark")
STARTED = {"ray": "ray_cluster", "spark": "spark"}
"""The fixtures that start the engine of a runtime."""


@pytest.fixture
def runtime(request):
    if (engine := STARTED.get(request.param["kind"])) is not None:
        request.getfixturevalue(engine)
    return request.param


def stopped(folder: Path, runtime: dict, plan: str = with_sinks(PLAN + CHECKPOINT)) -> Path:
    """Run a project until it waits halfway, and stop it there."""
    write_project(folder, count=MANY, plan=plan, waits_at=[100])
    with meanwhile(folder / THERE, lambda: library.stop(folder / THERE)) as told:
        library.run(folder / "plan.yaml", run_dir=folder / THERE, runtime=runtime)
    assert RunDirectory(folder / THERE).results()["status"] == "stopped", told
    return folder


def check_outputs(folder: Path, count: int) -> None:
    """Every sink has the outputs of the sequential program, each once."""
    assert committed(folder / "out") == in_folder(folder) == in_rows(folder) == expected(count)
    assert not list((folder / "folder").glob("*.draft"))


@pytest.mark.parametrize(
    "checkpoint",
    [pytest.param("", id="one epoch", marks=pytest.mark.slow), pytest.param(CHECKPOINT, id="epochs")],
)
@pytest.mark.parametrize("runtime", [*RUNTIMES, ON_SPARK], indirect=True)
def test_custom_connectors_give_the_sequential_outputs(project, runtime, checkpoint):
    write_project(project, plan=with_sinks() + checkpoint)
    hasten(project)
    run = library.run("plan.yaml", runtime=runtime, verify=True)
    assert run.verified
    check_outputs(project, COUNT)


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_stopped_run_resumes_after_the_rows_it_had_read(project, runtime):
    stopped(project, runtime)
    done = in_folder(project)
    assert done == committed(project / "out")
    assert 0 < len(done) < len(expected(MANY))
    reads(project)
    hasten(project)
    library.resume(THERE, settings={"streams.right.split": 3})
    check_outputs(project, MANY)
    assert any(after != "None" for _, after in reads(project))


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_run_with_a_store_of_its_own_resumes_from_the_state_there(project, runtime):
    stopped(project, runtime, plan=with_sinks(PLAN + STORE))
    (newest,) = (project / "states").glob("*/newest")
    assert newest.stat().st_size > 0
    reads(project)
    hasten(project)
    library.resume(THERE)
    check_outputs(project, MANY)
    assert any(after != "None" for _, after in reads(project))


def test_run_whose_store_has_lost_its_state_does_not_resume(project, dgs):
    write_project(project, plan=PLAN + STORE)
    hasten(project)
    assert dgs(f"run plan.yaml --run-dir {THERE}").code == 0
    (newest,) = (project / "states").glob("*/newest")
    newest.unlink()
    done = dgs(f"resume {THERE}")
    assert done.code == 6
    assert "connectors.py:States: it is empty, but epoch" in done.err
    assert dgs("run plan.yaml --fresh").code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("connectors.py:Stats", "connectors.py has no 'Stats'; did you mean 'States'?"),
        ("connectors.py:Folder", "class Folder has no method `commit`, which a store needs"),
        ("stores.py:States", "there is no file"),
    ],
)
def test_store_that_cannot_be_loaded_ends_the_command_before_anything_starts(
    project, dgs, run_dirs, given, said
):
    write_project(project, plan=PLAN + STORE.replace("connectors.py:States", given))
    done = dgs("run plan.yaml")
    assert (done.code, run_dirs()) == (3, [])
    assert said in done.err


def test_killed_run_resumes_and_its_sinks_have_each_output_once(project):
    write_project(project, plan=with_sinks(PLAN + CHECKPOINT), waits_at=[100])
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml", "--run-dir", str(THERE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: process.poll() is not None or bool(in_folder(project)))
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL, process.stderr.read()
    hasten(project)
    library.resume(THERE)
    check_outputs(project, COUNT)


FALLS = """
import os
import signal


def fall(ts):
    mark = Path(__file__).with_name("fallen")
    if ts == 60 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_host_that_dies_costs_no_output_and_repeats_none(project, edit):
    write_project(project, plan=with_sinks(PLAN + CHECKPOINT))
    edit(
        "program.py",
        "dawdle(self.pause, event.ts)",
        "fall(event.ts)\n            dawdle(self.pause, event.ts)",
    )
    (project / "program.py").write_text((project / "program.py").read_text() + FALLS)
    run = library.run("plan.yaml", runtime={"kind": "ray", "hosts": 2})
    assert run.report["restarts"] == 1
    check_outputs(project, COUNT)


def test_failed_publishing_is_done_when_the_run_resumes(project, edit):
    write_project(project, plan=with_sinks(PLAN + CHECKPOINT))
    hasten(project)
    edit(
        "connectors.py",
        "        for name in staged:\n",
        "        for name in staged:\n            (HERE / 'permit').stat()\n",
    )
    with pytest.raises(
        UserCodeError, match=r"connectors.py:Folder.publish of program Sums raised FileNotFoundError"
    ):
        library.run("plan.yaml", run_dir=THERE)
    assert in_folder(project) == []
    (project / "permit").touch()
    library.resume(THERE)
    check_outputs(project, COUNT)


def test_run_with_a_changed_source_does_not_resume(project, dgs):
    write_project(project, plan=PLAN + CHECKPOINT)
    hasten(project)
    assert dgs(f"run plan.yaml --run-dir {THERE}").code == 0
    path = project / "left.csv"
    path.write_text(path.read_text().replace("1,1", "1,2", 1))
    done = dgs(f"resume {THERE}")
    assert done.code == 6
    assert "stream 'left': the source has changed since the checkpoint: it was described as" in done.err


@pytest.mark.parametrize("verb", ["run", "plan", "explain"])
def test_source_that_cannot_be_loaded_ends_the_command_before_anything_starts(project, dgs, run_dirs, verb):
    write_project(project, plan=PLAN.replace("Table", "Tabel"))
    done = dgs(f"{verb} plan.yaml")
    assert done.code == 3
    assert "connectors.py has no 'Tabel'; did you mean 'Table'?" in done.err
    assert run_dirs() == []


def test_source_that_raises_ends_the_run_with_its_traceback(project, dgs):
    write_project(project)
    (project / "left.csv").unlink()
    done = dgs("run plan.yaml --json")
    assert done.code == 1
    error = json.loads(done.out)["error"]
    assert error["code"] == "DGS101"
    assert error["facts"]["function"] == "connectors.py:Table.read"


def test_custom_sources_are_in_the_schema_and_in_the_resolved_plan_file(project, dgs):
    write_project(project)
    schema = json.loads(dgs("schema").out)
    assert set(schema["$defs"]["CustomSource"]["properties"]) == {"ref", "args", "ts"}
    shown = dgs("run plan.yaml --show-config").out
    assert "ref: connectors.py:Table  # plan.yaml" in shown
    assert dgs("explain plan.yaml").code == 0


def test_sink_that_cannot_be_loaded_ends_the_command_before_anything_starts(project, dgs, run_dirs):
    write_project(project, plan=with_sinks().replace("Folder", "Missing"))
    done = dgs("run plan.yaml")
    assert (done.code, run_dirs()) == (3, [])
    assert "connectors.py has no 'Missing'" in done.err


def test_sink_without_publish_is_named_when_the_run_begins(project, dgs):
    write_project(project, plan=with_sinks())
    hasten(project)
    done = dgs("run plan.yaml")
    assert (
        "sink `custom: connectors.py:Rows` may see outputs again (at least once, with the same ids)"
        in done.err
    )
