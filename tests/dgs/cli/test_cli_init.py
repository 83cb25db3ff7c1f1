"""`dgs init`: five folders that run, with a test that passes; nothing is overwritten."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dgs.cli.app import app
from dgs.cli.init import TEMPLATES, written_to

QUICK = ("window", "join", "fraud")


def init(*arguments):
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def python(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("template", QUICK)
def test_a_new_folder_runs_as_it_is(template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert init(template).exit_code == 0
    monkeypatch.chdir(tmp_path / template)
    done = CliRunner().invoke(app, ["run", "--verify"])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_folder_runs_is_checked_and_its_test_passes(template, tmp_path):
    place = tmp_path / template
    written_to(place, template)
    program = next(
        line for line in (place / "plan.yaml").read_text().splitlines() if line.startswith("program:")
    )
    sender = subprocess.Popen([sys.executable, "send.py"], cwd=place) if template == "socket" else None
    try:
        for arguments in (
            ["dgs", "run"],
            ["dgs", "check", program.split('"')[1]],
            ["pytest", "-q", "-p", "no:cacheprovider"],
        ):
            done = python("-m", *arguments, cwd=place)
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        if sender is not None:
            sender.wait(timeout=60)


def test_files_that_are_there_are_kept(tmp_path):
    (tmp_path / "plan.yaml").write_text("mine")
    done = init("window", tmp_path)
    assert done.exit_code == 4
    assert "plan.yaml" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]
    assert (tmp_path / "plan.yaml").read_text() == "mine"


def test_an_unknown_template_names_the_nearest(tmp_path):
    done = init("fruad", tmp_path / "x")
    assert done.exit_code == 2
    assert "did you mean 'fraud'" in done.stderr
    assert not (tmp_path / "x").exists()


def test_a_folder_as_data(tmp_path):
    told = json.loads(init("join", tmp_path / "new", "--json").stdout)
    assert told["template"] == "join"
    assert set(told["files"]) == {
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*")
    }


def test_every_template_has_a_program_a_plan_a_test_and_words():
    for template in TEMPLATES:
        names = {path.name.removesuffix(".tmpl") for path in (Path("dgs/templates") / template).iterdir()}
        assert {"program.py", "plan.yaml", "test_program.py", "README.md"} <= names


def test_run_without_a_plan_file_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run"])
    assert done.exit_code == 3
    assert "plan.yaml" in done.stderr
