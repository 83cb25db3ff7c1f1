"""Runs through users' connectors: they give the outputs of the sequential program, also after stops and kills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dgs as library
from dgs.job.run_directory import RunDirectory
from tests.dgs.connecting import PLAN, reads, write_project
from tests.dgs.recovering import CHECKPOINT, committed, expected, hasten, meanwhile

THERE = Path("there")
MANY = 1000
"""Values of each stream: what is left when a run is stopped takes seconds."""
RUNTIMES = [
    pytest.param({"kind": "local"}, id="local"),
    pytest.param({"kind": "ray", "hosts": 2}, marks=[pytest.mark.ray], id="ray"),
]


@pytest.fixture
def runtime(request):
    if request.param["kind"] == "ray":
        request.getfixturevalue("ray_cluster")
    return request.param


def stopped(folder: Path, runtime: dict, plan: str = PLAN + CHECKPOINT) -> Path:
    """Run a project until it waits halfway, and stop it there."""
    write_project(folder, count=MANY, plan=plan, waits_at=[100])
    with meanwhile(folder / THERE, lambda: library.stop(folder / THERE)) as told:
        library.run(folder / "plan.yaml", run_dir=folder / THERE, runtime=runtime)
    assert RunDirectory(folder / THERE).results()["status"] == "stopped", told
    return folder


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_custom_sources_give_the_sequential_outputs(project, runtime):
    write_project(project)
    hasten(project)
    run = library.run("plan.yaml", runtime=runtime, verify=True)
    assert run.verified
    assert committed(project / "out") == expected()


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_stopped_run_resumes_after_the_rows_it_had_read(project, runtime):
    stopped(project, runtime)
    reads(project)
    hasten(project)
    run = library.resume(
        THERE, settings={"streams.values.split": 3} if False else None, runtime=runtime, verify=True
    )
    assert run.verified
    assert committed(project / "out") == expected(MANY)
    began = [after for _, after in reads(project)]
    assert any(after != "None" for after in began)


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
