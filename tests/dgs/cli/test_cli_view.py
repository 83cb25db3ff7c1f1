"""`dgs view`, `dgs report` and `report: true`, from the command line."""

import json
import re
import socket
import subprocess
import sys
import urllib.request

import pytest

from dgs.errors.hidden_values import forget, hide
from tests.dgs.view.left_runs import leave

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")


def test_report_writes_the_newest_run_into_one_file(project, dgs):
    assert dgs("run plan.yaml").code == 0
    done = dgs("report -o page.html --json")
    assert done.code == 0
    told = json.loads(done.out)
    text = (project / "page.html").read_text()
    assert told["bytes"] == len(text.encode())
    assert "The run is done." in text
    assert dgs("report plan.yaml -o page.html").code == 0  # our own report is replaced


def test_report_does_not_write_over_a_foreign_file(project, dgs):
    assert dgs("run plan.yaml").code == 0
    (project / "notes.html").write_text("mine")
    done = dgs("report -o notes.html")
    assert done.code == 3
    assert "DGS561" in done.err
    assert (project / "notes.html").read_text() == "mine"
    assert dgs("report -o notes.html --force").code == 0


def test_report_names_the_nearest_run(project, dgs):
    leave(project, name="payments")
    done = dgs("report 20261123-paymemts")
    assert done.code == 2
    assert "did you mean '20261123-payments'?" in done.err


@pytest.mark.parametrize("verb", ["report", "view"])
def test_without_runs_the_list_is_empty(project, dgs, verb):
    done = dgs(verb)
    assert done.code == 2
    assert "DGS203" in done.err


def test_a_run_that_was_killed_has_a_report(project, dgs):
    directory = leave(project, status="running")
    assert dgs("report").code == 0
    assert "The process of the run was killed." in (directory / "report.html").read_text()


def test_a_picture_is_of_the_moment_that_is_asked_for(project, dgs):
    leave(project, status="done", mute_since=20)
    assert dgs("report --picture run.svg --at 40").code == 0
    assert "waits for stream" in (project / "run.svg").read_text()
    assert dgs("report --picture run.svg").code == 0
    assert "The run is done." in (project / "run.svg").read_text()


def test_report_true_leaves_a_report_of_every_run_also_of_one_that_fails(project, dgs):
    assert dgs("run plan.yaml --set report=true --run-dir one").code == 0
    assert "The run is done." in (project / "one" / "report.html").read_text()
    program = project / "program.py"
    program.write_text(
        re.sub(r"return state \+ .*", "raise ValueError('a <b> in a payload')", program.read_text())
    )
    assert dgs("run plan.yaml --fresh --set report=true --run-dir two").code not in (0, 70)
    text = (project / "two" / "report.html").read_text()
    assert "The run has failed" in text
    assert "a &lt;b&gt; in a payload" in text


def test_a_secret_is_not_in_the_report(project, dgs, edit):
    edit("program.py", "return state + ", "raise ValueError('swordfish-91 is wrong')  # ")
    hide("REPORTED_SECRET", "swordfish-91")
    try:
        dgs("run plan.yaml --set report=true --run-dir one")
    finally:
        forget("REPORTED_SECRET")
    text = (project / "one" / "report.html").read_text()
    assert "swordfish" not in text
    assert "${env:REPORTED_SECRET} is wrong" in text


def test_a_taken_port_is_named(project, dgs):
    leave(project)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = dgs(f"view --port {taken.getsockname()[1]}")
    assert done.code == 2
    assert "DGS560" in done.err
    assert "--port" in done.err


def test_without_the_server_s_packages_the_extra_is_named(project, dgs, monkeypatch):
    leave(project)
    monkeypatch.setattr("dgs.view.server.find_spec", lambda package: None)
    done = dgs("view")
    assert done.code == 4
    assert "pip install dgs[view]" in done.err
    assert "http://" not in done.err


def test_view_prints_an_address_that_shows_the_run(project):
    leave(project)
    command = [sys.executable, "-m", "dgs", "view", "--json"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = json.loads(process.stdout.readline())["url"]
            with urllib.request.urlopen(url, timeout=240) as answer:
                assert "The run is done." in answer.read().decode()
        finally:
            process.terminate()
        assert process.wait(240) == 0


def test_run_with_its_page_says_where_it_is_and_ends_with_the_run(project):
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml", "--view"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "event-window" in done.stderr or "sums" in done.stderr
