"""`-v`, `-q` and `--log-format`: what `dgs run` says on stderr, and what it logs."""

import json

import pytest

CHECKPOINTS = "--set checkpoint.every=1ms"


def test_a_run_leaves_a_log_file_of_what_it_did(project, dgs, run_dirs):
    done = dgs(f"run plan.yaml {CHECKPOINTS}")
    (directory,) = run_dirs()
    text = (directory / "run.log").read_text()
    assert "INFO dgs.run: begins generation 1 from epoch 0" in text
    assert "commits epoch" in text
    assert "INFO" not in done.err


def test_verbose_prints_log_lines(project, dgs):
    assert "INFO dgs.run: begins generation 1" in dgs("run plan.yaml -v").err


def test_quiet_leaves_the_closing_line(project, dgs):
    (line,) = dgs("run plan.yaml -q").err.splitlines()
    assert line.startswith("dgs: sums done:")


def test_json_lines_are_whole_objects(project, dgs, run_dirs):
    done = dgs(f"run plan.yaml -v --log-format json {CHECKPOINTS}")
    *lines, closing = done.err.splitlines()
    assert closing.startswith("dgs: sums done:")
    assert {"t", "level", "logger", "message", "name"} == {key for line in lines for key in json.loads(line)}
    (directory,) = run_dirs()
    assert all(json.loads(line) for line in (directory / "run.log").read_text().splitlines())


def test_a_failure_is_in_the_log(project, dgs, run_dirs, edit):
    edit("program.py", "emit(", "raise KeyError('lost') or emit(")
    dgs("run plan.yaml")
    (directory,) = run_dirs()
    assert "ERROR dgs.run: UserCodeError" in (directory / "run.log").read_text()


@pytest.mark.parametrize("flags", ["-q -v", "--log-format xml"])
def test_flags_that_make_no_sense_are_refused(project, dgs, flags):
    assert dgs(f"run plan.yaml {flags}").code == 2
