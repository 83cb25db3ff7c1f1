"""The end of the process of a command: its exit code, `atexit` functions, and outputs that cannot be written."""

import os
import pstats
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dgs.cli import Messages
from dgs.cli.reporting import Ending
from dgs.workers.runtime import process
from tests.selection import rest_is_slow

END = """
import atexit, sys
from dgs.cli import process
atexit.register(print, "the end")
sys.argv = ["dgs", *sys.argv[1:]]
process()
"""


def ended(*arguments, **options):
    command = [sys.executable, "-c", END, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["no-such-verb"], 2)])
def test_a_process_ends_with_the_code_of_the_command_and_calls_its_handlers(arguments, code):
    done = ended(*arguments, stdout=subprocess.PIPE)
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == "the end"


@pytest.mark.parametrize(("arguments", "code"), [(["run", "plan.yaml"], 0), (["run", "no-such.yaml"], 3)])
def test_a_profiler_saves_its_profile_and_the_command_keeps_its_code(project, arguments, code):
    command = [sys.executable, "-m", "cProfile", "-o", "profile", "-m", "dgs", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    functions = {(Path(file).name, name) for file, _, name in pstats.Stats(str(project / "profile")).stats}
    assert (("program.py", "update") in functions) == (code == 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has a file that is always full")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--version"], "dgs: the outputs cannot be written: "),
        (["schema"], "error[DGS451]: stdout or a file: No space left on device"),
    ],
)
def test_outputs_that_cannot_be_written_are_an_error(arguments, told):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = ended(*arguments, stdout=full)
    assert done.returncode == 4
    assert done.stderr.startswith(told)


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_new_folder_that_cannot_be_written_is_named_with_its_file(tmp_path, place):
    (tmp_path / "taken").touch()
    done = ended("init", "window", str(tmp_path / place), stdout=subprocess.PIPE)
    assert done.returncode == 4
    assert f"error[DGS402]: cannot write to {tmp_path / place}" in done.stderr


@pytest.mark.parametrize("stderr", rest_is_slow(["2>&-", "2>/dev/full"]))
def test_messages_that_cannot_be_written_do_not_end_the_run(project, stderr):
    line = f"{sys.executable} -m dgs run plan.yaml {stderr}"
    done = subprocess.run(["bash", "-c", line], cwd=project, stdout=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")
    assert list(project.glob(".dgs/runs/*/outputs/part-*.jsonl"))


ENDING = """
import os, threading
import dgs

class Ending(dgs.Program):
    kinds = (dgs.kind("value"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        {act}
        return state
"""
IN_A_THREAD = "one = threading.Thread(target=os._exit, args=(0,)); one.start(); one.join()"


@pytest.mark.parametrize(
    ("act", "told"),
    rest_is_slow(
        [("os._exit(0)", "SystemExit: 0"), (IN_A_THREAD, "a thread of the program has ended the process")]
    ),
)
def test_program_that_ends_the_process_is_no_success(tmp_path, act, told):
    (tmp_path / "ending.py").write_text(ENDING.format(act=act))
    (tmp_path / "rows.csv").write_text("ts,payload\n1,1\n2,1\n")
    source = "{id: rows, tags: {kind: value}, source: {csv: {path: rows.csv}}}"
    text = f"version: 1\nname: ending\nprogram: {{ref: 'ending.py:Ending'}}\nstreams: [{source}]\nruntime: {{kind: local}}\n"
    (tmp_path / "plan.yaml").write_text(text)
    done = ended("run", "plan.yaml", stdout=subprocess.PIPE, cwd=tmp_path)
    assert done.returncode == 1
    assert told in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_a_command_end_by_themselves():
    code = "import os, dgs.cli as c\nos._exit = c.exit_of_user_code(os._exit)\nif os.fork() == 0: os._exit(7)\nprint(os.wait()[1])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert os.waitstatus_to_exitcode(int(done.stdout)) == 7


def test_messages_wait_for_no_reader(monkeypatch):
    monkeypatch.setattr("dgs.cli.READER_SECONDS", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(reading) as reader, os.fdopen(writing, "w", buffering=1) as stream:
        messages = Messages(stream)
        for _ in range(3_000):  # more than a pipe holds
            print("x" * 99, file=messages, flush=True)
        assert len(os.read(reader.fileno(), 2**20)) % 100 == 0
        print("later", file=messages, flush=True)
        assert os.read(reader.fileno(), 100) == b"later\n"


@pytest.mark.parametrize(
    ("options", "code"), rest_is_slow([("--set 'sinks=[stdout]'", 4), ("", 0), ("--json", 4)])
)
def test_closed_stdout_is_an_error_where_something_is_printed(project, options, code):
    line = f"{sys.executable} -m dgs run plan.yaml {options} >&-"
    done = subprocess.run(
        ["bash", "-c", line], cwd=project, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert ("stdout" in done.stderr) == (code == 4)


def test_a_signal_whose_exception_was_swallowed_keeps_the_run_from_beginning(project, dgs, monkeypatch):
    """As by an import with an `except:` of its own."""
    monkeypatch.setattr("dgs.workers.runtime.process.came", [signal.SIGTERM])
    done = dgs("run plan.yaml")
    assert done.code == 143
    assert "was stopped" in done.err


def test_an_error_after_such_a_signal_is_no_bug(project, dgs, monkeypatch):
    """A module whose import was interrupted is incomplete, and code that uses it fails."""

    def cut_short(*_: object, **__: object) -> None:
        process.came.append(signal.SIGTERM)
        raise AttributeError("partially initialized module")

    monkeypatch.setattr(process, "came", [])
    monkeypatch.setattr("dgs.api.preparing.from_file", cut_short)
    done = dgs("run plan.yaml --json")
    assert (done.code, "was stopped" in done.err, "DGS901" in done.err) == (143, True, False)


def test_a_second_signal_does_not_take_away_the_command_to_go_on(project, dgs, monkeypatch):
    kept, signals = Ending.kept, [process.Stopped(signal.SIGTERM)]

    def cut_short(ending):
        if signals:
            raise signals.pop()
        return kept(ending)

    monkeypatch.setattr(process, "came", [signal.SIGTERM])
    monkeypatch.setattr(Ending, "kept", cut_short)
    done = dgs("run plan.yaml")
    assert (done.code, "repeat with: dgs run plan.yaml" in done.err, signals) == (143, True, [])
