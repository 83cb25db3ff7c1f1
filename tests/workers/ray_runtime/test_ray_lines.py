"""Ray's own lines: in the run's log, plain, and nowhere else."""

import json
import logging
import os
import stat
import subprocess
import sys

import pytest

from dgs.errors import hidden_values
from dgs.workers.ray_runtime.ray_lines import lines_kept, stderr_kept
from tests.dgs.projects import sums_plan, sums_program, write_files

worker = pytest.importorskip("ray._private.worker")

LINE = {"lines": ["\x1b[36mA worker died\x1b[0m", "for secret-word"], "pid": "raylet", "is_err": False}


@pytest.fixture
def log(tmp_path):
    return tmp_path / "ray.log"


def test_lines_of_rays_processes_go_to_the_log_without_colours_and_secrets(log, capfd):
    hidden_values.hide("WORD", "secret-word")
    with lines_kept(log):
        worker.print_to_stdstream(LINE, ignore_prefix=False)
        logging.getLogger("ray").error("Unhandled")
    assert capfd.readouterr() == ("", "")
    words = [line.split(" ", 2)[2] for line in log.read_text().splitlines()]
    assert words == ["(raylet) A worker died", "(raylet) for ${env:WORD}", "(ray) Unhandled"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_lines_from_c_go_to_the_log_and_those_after_it_to_stderr(log, capfd):
    with lines_kept(log) as lines, stderr_kept(lines):
        os.write(2, b"\x1b[33mgcs_client.cc: failed\x1b[0m\n")
    os.write(2, b"after\n")
    assert capfd.readouterr() == ("", "after\n")
    assert log.read_text().endswith(" (ray) gcs_client.cc: failed\n")


def test_ray_prints_afterwards_as_before(log, monkeypatch):
    printed: list[object] = []
    monkeypatch.setattr(worker, "print_to_stdstream", printed.append)
    with lines_kept(log):
        pass
    worker.print_to_stdstream(LINE)
    assert printed == [LINE]
    assert not log.exists()


def test_another_version_of_ray_may_lack_the_private_function(log, monkeypatch):
    monkeypatch.delattr(worker, "print_to_stdstream")
    with lines_kept(log):
        logging.getLogger("ray").error("Unhandled")
    assert "Unhandled" in log.read_text()
    assert not hasattr(worker, "print_to_stdstream")


DIES_ONCE = """\
import os, pathlib, signal
if not pathlib.Path("died").exists():
    pathlib.Path("died").touch()
    os.kill(os.getpid(), signal.SIGKILL)
return state + event.payload
"""
DGS = "import sys; from dgs.cli import main; sys.argv[0] = 'dgs'; main()"


@pytest.mark.ray
def test_run_on_ray_that_loses_a_host_prints_its_outputs_and_our_words_only(tmp_path):
    program = sums_program(on_value=DIES_ONCE).replace('"died"', repr(str(tmp_path / "died")))
    plan = sums_plan(payload="amount") + "sinks: [stdout]\ncheckpoint: {every: 100ms}\n"
    data = dict.fromkeys(("left.csv", "right.csv"), "ts,amount\n1,1\n3,10\n")
    write_files(tmp_path, {"program.py": program, "plan.yaml": plan, "barriers.csv": "ts\n2\n4\n", **data})
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            DGS,
            "run",
            "plan.yaml",
            "--runtime",
            "ray",
            "--hosts",
            "2",
            "--optimizer",
            "greedy",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, [json.loads(line) for line in done.stdout.splitlines()]) == (0, [2, 20])
    assert all(line.startswith("dgs: ") for line in done.stderr.splitlines())
    (log,) = tmp_path.glob(".dgs/runs/*/ray.log")
    assert "died" in log.read_text()
    assert "\x1b" not in log.read_text()
