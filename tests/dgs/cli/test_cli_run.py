"""`dgs run`: outputs, run directory, closing line, exit codes, stdout and stderr."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from dgs.job.document import read
from dgs.workers.sinks.files.owned import locked

SUMS = [3, 110, 220]
"""The outputs of the sequential program: a value at the instant of a barrier belongs to the next window."""


def lines(path: Path) -> list[object]:
    return [
        json.loads(line) for part in sorted(path.glob("*.jsonl")) for line in part.read_text().splitlines()
    ]


def test_run_leaves_outputs_plan_and_results_beside_the_plan_file(project, dgs, run_dirs):
    done = dgs("run plan.yaml")
    assert (done.code, done.out) == (0, "")
    (directory,) = run_dirs()
    assert sorted(lines(directory / "outputs")) == SUMS
    results = json.loads((directory / "results.json").read_text())
    assert (results["status"], results["events_in"], results["outputs"]) == ("done", 9, 3)
    assert not list(directory.rglob("*.partial"))


def test_run_ends_with_one_closing_line_on_stderr(project, dgs, run_dirs):
    done = dgs("run plan.yaml --verify")
    (directory,) = run_dirs()
    place = directory.relative_to(project)
    assert re.fullmatch(
        r"dgs: sums done: 9 events, 3 outputs in [0-9.e-]+ s \([0-9,]+ events/s\), 3 workers on 1 host \(local\), verified; "
        rf"outputs in {place}/outputs; the run is in {place}\n",
        done.err,
    )


def test_json_prints_one_object_with_the_figures(project, dgs, run_dirs):
    done = dgs("run plan.yaml --json --verify")
    report = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert report["verified"] is True
    assert (
        report["events_in"],
        report["outputs"],
        report["runtime"],
        report["hosts"],
        report["workers"],
    ) == (9, 3, "local", 1, 3)
    assert report["seconds"] > 0
    assert report["throughput_eps"] == pytest.approx(9 / report["seconds"])
    assert report["drops"] == {"barriers": 0, "left": 0, "right": 0}
    assert report["streams"]["barriers"] == {"events": 3, "tags": {"barrier": 3}, "others": 0}
    assert [stream["events"] for stream in report["streams"].values()] == [3, 3, 3]
    assert Path(report["run_dir"]) == run_dirs()[0]


def test_results_have_these_fields_in_this_order(project, dgs):
    """Users' scripts read them: a field may be added, but none removed."""
    report = json.loads(dgs("run plan.yaml --json").out)
    assert list(report) == [
        *("status", "name", "program", "machine", "started", "runtime", "plan"),
        *(
            "events_in",
            "events_before",
            "outputs",
            "seconds",
            "throughput_eps",
            "hosts",
            "workers",
            "streams",
            "sinks",
            "drops",
            "skipped",
            "left_out",
        ),
        *("dead_letters", "verified", "differences", "run_dir", "stopped_by", "stopped_at", "epoch"),
        *(
            "start_up_seconds",
            "first_output_seconds",
            "starved_reads",
            "between_hosts",
            "per_worker",
            "waited",
            "checkpoints",
            "restarts",
            "moves",
        ),
    ]
    for worker in report["per_worker"].values():
        assert list(worker)[:3] == ["host", "events", "synchronisations"]
    counts = ["committed", "failed", "seconds", "state_bytes", "outputs", "epoch", "events"]
    assert list(report["checkpoints"])[: len(counts)] == counts


def test_json_is_the_last_line_after_a_stdout_sink(project, dgs):
    done = dgs("run plan.yaml --json --set sinks=[stdout]")
    *outputs, report = done.out.splitlines()
    assert sorted(map(json.loads, outputs)) == SUMS
    assert json.loads(report)["outputs"] == 3


def test_resolved_plan_can_be_run_again_with_the_same_plan_and_outputs(project, dgs, run_dirs):
    dgs("run plan.yaml --set program.args.scale=2")
    (first,) = run_dirs()
    assert dgs(f"run {first / 'plan.yaml'}").code == 0
    again = next(path for path in run_dirs() if path != first)
    assert sorted(lines(again / "outputs")) == [2 * value for value in SUMS]
    assert read(again / "plan.yaml").data["plan"] == read(first / "plan.yaml").data["plan"]


def test_set_and_flags_win_over_the_file(project, dgs, monkeypatch):
    monkeypatch.setenv("DGS_RUNTIME", "ray")
    report = json.loads(
        dgs("run plan.yaml --runtime local --set program.args.scale=2 --optimizer sequential --json").out
    )
    assert (report["runtime"], report["workers"]) == ("local", 1)


@pytest.mark.parametrize(
    ("count", "outputs"), [(0, []), (2, []), (3, [3]), (6, [3, 110]), (9, SUMS), (100, SUMS)]
)
def test_max_events_takes_the_first_in_the_total_order(project, dgs, run_dirs, count, outputs):
    report = json.loads(dgs(f"run plan.yaml --max-events {count} --verify --json").out)
    assert report["verified"]
    assert report["events_in"] == min(count, 9)
    assert sorted(lines(run_dirs()[0] / "outputs")) == outputs


def test_sinks_are_relative_to_the_plan_file(project, dgs, monkeypatch):
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")
    assert dgs("run ../plan.yaml --set 'sinks=[{jsonl: {path: out}}]'").code == 0
    assert sorted(lines(project / "out")) == SUMS


def test_plan_from_a_file_is_used(project, dgs):
    assert dgs("plan plan.yaml --optimizer sequential --save one.yaml").code == 0
    assert json.loads(dgs("run plan.yaml --plan one.yaml --json --verify").out)["workers"] == 1


def test_optimizer_flag_replaces_the_plan_of_the_file(project, dgs, run_dirs):
    dgs("run plan.yaml")
    report = json.loads(dgs(f"run {run_dirs()[0]}/plan.yaml --optimizer sequential --json").out)
    assert report["workers"] == 1


def test_plan_and_optimizer_together_are_refused(project, dgs):
    dgs("plan plan.yaml --save one.yaml")
    done = dgs("run plan.yaml --plan one.yaml --optimizer greedy")
    assert (done.code, done.err) == (2, "error[DGS201]: give a plan or an optimizer to make one, not both\n")


def test_verify_finds_an_inconsistent_program(project, dgs, edit):
    edit("program.py", "return left + right", "return max(left, right)")
    done = dgs("run plan.yaml --verify --json")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["verified"] is False
    assert "the outputs differ from those of the sequential program" in done.err
    assert "missing:    3" in done.err
    assert "repeat with: dgs run plan.yaml --verify --json" in done.err


@pytest.mark.parametrize("named", ["--run-dir there", "--run-dir=there"])
def test_the_command_that_repeats_a_failed_comparison_is_not_refused(project, dgs, edit, named):
    edit("program.py", "return left + right", "return max(left, right)")
    told = dgs(f"run plan.yaml --verify {named}").err.strip()
    again = told.rpartition("repeat with: dgs ")[2]
    assert again == "run plan.yaml --verify"
    assert dgs(again).code == 1
    assert dgs("run plan.yaml --verify --resume --run-dir there").code == 0  # it is done


def test_tolerance_allows_for_floats(project, dgs, edit):
    edit("program.py", "return left + right", "return left + right + 1e-12")
    edit("program.py", "return 0\n\n    def update", "return 0.0\n\n    def update")
    assert dgs("run plan.yaml --verify").code == 1
    assert dgs("run plan.yaml --verify --tolerance 1e-9").code == 0


def test_failed_run_does_not_name_the_outputs_of_a_run_that_is_alive(project, dgs, edit):
    edit("program.py", "        emit(state)\n", "        raise ValueError\n")
    edit("plan.yaml", "runtime: {kind: local}", "runtime: {kind: local}\nsinks: [{jsonl: {path: out}}]")
    (project / "out").mkdir()
    with locked(project / "out/part-7.jsonl.partial", of=project):
        done = dgs("run plan.yaml")
    assert done.code == 1
    assert "part-7" not in done.err


def test_failed_run_keeps_partial_outputs_and_says_how_to_repeat(project, dgs, edit, run_dirs):
    edit(
        "program.py",
        "        emit(state)\n",
        "        emit(state)\n        assert event.ts < 6, 'too late'\n",
    )
    done = dgs("run plan.yaml --json")
    (directory,) = run_dirs()
    assert done.code == 1
    assert [path.suffix for path in (directory / "outputs").iterdir()] == [".partial"]
    assert (
        f"outputs so far are kept as {directory.relative_to(project)}/outputs/part-0.jsonl.partial"
        in done.err
    )
    assert done.err.endswith("repeat with: dgs run plan.yaml --json\n")
    results = json.loads((directory / "results.json").read_text())
    assert (results["status"], results["error"]["code"]) == ("failed", "DGS101")
    told = json.loads(done.out)
    assert told["error"]["code"] == "DGS101"
    assert "AssertionError: too late" in told["error"]["message"]


def test_show_config_prints_values_with_their_origins(project, dgs, monkeypatch, run_dirs):
    monkeypatch.setenv("DGS_RUNTIME__LINGER", "10ms")
    done = dgs("run plan.yaml --show-config --runtime ray --set streams.left.rate=3/h")
    assert done.code == 0
    assert "  kind: ray  # --runtime\n" in done.out
    assert "  linger: 10ms  # environment variable DGS_RUNTIME__LINGER\n" in done.out
    assert "name: sums  # plan.yaml:2:7\n" in done.out
    assert "  buffer_bytes: 256MiB  # default\n" in done.out
    assert "# --set streams.left.rate\n" in done.out
    assert not run_dirs()
    (project / "shown.yaml").write_text(done.out)
    assert dgs("run shown.yaml --runtime local --verify").code == 0
    rows = json.loads(dgs("run plan.yaml --show-config --json").out)["values"]
    assert {"path": "optimizer.max_leaves", "value": 2, "origin": "plan.yaml:16:25"} in rows


@pytest.mark.parametrize(
    "line",
    [
        "resume plan.yaml --nonsense",
        "run plan.yaml --nonsense",
        "run plan.yaml --max-events x",
        "nonsense",
        "run plan.yaml --tolerance 1",
    ],
)
def test_usage_errors_exit_2_and_leave_stdout_alone(project, dgs, line):
    done = dgs(line)
    assert (done.code, done.out) == (2, "")
    assert done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --json --nonsense", "--nonsense"),
        ("run plan.yaml --max-events x --json", "--max-events"),
        ("rum --json", "rum"),
        ("--json", "--json"),
        ("run plan.yaml --tolerance 1 --json", "--tolerance is for --verify"),
    ],
)
def test_usage_errors_are_an_object_with_json(project, dgs, line, said):
    done = dgs(line)
    assert done.code == 2
    error = json.loads(done.out)["error"]
    assert error["code"] == "DGS201"
    assert said in error["message"]
    assert error["message"] in " ".join(done.err.split())


def test_run_dir_says_where_and_is_not_used_twice(project, dgs, run_dirs):
    assert dgs("run plan.yaml --run-dir there").code == 0
    assert sorted(lines(project / "there" / "outputs")) == SUMS
    assert not run_dirs()
    done = dgs("run plan.yaml --run-dir there")
    assert done.code == 4
    assert "it holds the results of an earlier run" in done.err


def test_bug_in_dgs_exits_70_and_leaves_the_traceback(project, dgs, monkeypatch, run_dirs):
    def broken(job, caller):
        raise KeyError("lost")

    monkeypatch.setattr("dgs.api.running.run_job", broken)
    done = dgs("run plan.yaml")
    assert done.code == 70
    assert (
        "error[DGS901]: internal error: KeyError: 'lost'. This is a bug in dgs: please report it" in done.err
    )
    assert "Traceback" not in done.err
    assert "KeyError: 'lost'" in (run_dirs()[0] / "traceback.txt").read_text()
    assert "Traceback" in dgs("run plan.yaml --debug").err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_stops_the_run_and_keeps_partial_outputs(project, edit, run_dirs, number, code):
    marker = project / "started"
    # short sleeps: a signal just before a long sleep would wait until its end
    naps = "[time.sleep(0.05) for _ in range(6000)]"
    wait = f"import pathlib, time; pathlib.Path({str(marker)!r}).touch(); {naps}"
    edit("program.py", "        emit(state)\n", f"        emit(state)\n        {wait}\n")
    with subprocess.Popen(
        [sys.executable, "-m", "dgs", "run", "plan.yaml", "--set", "runtime.stop_timeout=100ms"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            deadline = time.monotonic() + 240
            while not marker.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(process.pid, number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (code, "")
    assert err.startswith("dgs: sums was stopped; outputs so far are kept as .dgs/runs/")
    assert err.count("\n") == 1
    assert json.loads((run_dirs()[0] / "results.json").read_text())["status"] == "interrupted"


def test_closed_stdout_ends_the_run_quietly(project):
    (project / "barriers.csv").write_text("ts\n" + "".join(f"{ts}\n" for ts in range(100_000)))
    line = f"{sys.executable} -m dgs run plan.yaml --set 'sinks=[stdout]' | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
    assert done.stderr.startswith("dgs: sums: the plan has one worker: ")
    assert done.stderr.count("\n") == 1


def shown_next(master):
    """Return the next text on a terminal, nothing at its end. A terminal must be read, because its buffer is small."""
    try:
        return os.read(master, 1 << 16)
    except OSError:
        return b""


def test_terminal_shows_progress_without_colours_when_asked(project):
    master, slave = pty.openpty()
    environ = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=slave, env=environ) as process:
        os.close(slave)
        shown = b"".join(iter(partial(shown_next, master), b"")).decode()
        assert process.stdout.read() == b""
    os.close(master)
    assert process.returncode == 0
    assert "dgs: sums done: 9 events, 3 outputs" in shown
    assert not re.search(r"\x1b\[[0-9;]*m", shown.replace("\x1b[0m", ""))


@pytest.mark.ray
def test_run_on_ray_gives_the_same(project, dgs):
    done = dgs("run plan.yaml --runtime ray --hosts 2 --optimizer greedy --verify --json")
    report = json.loads(done.out)
    assert re.search(r" on 2 hosts \(ray\), [0-9.]+ k?B between hosts, verified", done.err)
    assert (report["verified"], report["runtime"], report["hosts"]) == (True, "ray", 2)
    between, workers = report["between_hosts"], report["per_worker"]
    assert between["edges"]
    for child, edge in between["edges"].items():
        assert workers[child]["host"] != workers[edge["parent"]]["host"]
        assert min(edge["down"], edge["up"]) > 0
    named = sum(edge["down"] + edge["up"] for edge in between["edges"].values())
    assert named + sum(between["inputs"].values()) <= between["bytes"]


SPEAKS = """\
        import logging
        print("prints", event.payload)
        logging.getLogger("sums").warning("logs %s\\nin two lines", event.payload)
        if event.tag.kind == VALUE:
"""
RUNTIMES = [
    pytest.param("local", id="local"),
    pytest.param("ray --hosts 2", marks=pytest.mark.ray, id="ray"),
]


def said(directory):
    """Return the level, origin, host and text of the program's messages in the log of a run."""
    return re.findall(r" UTC (\w+) (\w+) on host (\d) \(\S+\): (.*)", (directory / "run.log").read_text())


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_prints_and_logs_of_an_update_are_in_the_log_of_the_run(project, dgs, edit, run_dirs, runtime):
    edit("program.py", "        if event.tag.kind == VALUE:\n", SPEAKS)
    assert dgs(f"run plan.yaml --runtime {runtime}").code == 0
    (directory,) = run_dirs()
    events, lines = json.loads((directory / "results.json").read_text())["events_in"], said(directory)
    assert len({host for _, _, host, _ in lines}) == (1 if runtime == "local" else 2)
    printed = [text for level, origin, _, text in lines if (level, origin) == ("INFO", "stdout")]
    logged = [text for level, origin, _, text in lines if (level, origin) == ("WARNING", "sums")]
    assert (len(printed), len(logged), logged.count("in two lines")) == (events, 2 * events, events)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_last_words_of_a_program_that_fails_are_in_the_log_of_the_run(
    project, dgs, edit, run_dirs, runtime
):
    edit("program.py", "        emit(", "        print('about to fail', end='')\n        emit(1 / 0 or ")
    assert dgs(f"run plan.yaml --runtime {runtime}").code != 0
    assert ("INFO", "stdout", "about to fail") in {
        (level, origin, text) for level, origin, _, text in said(*run_dirs())
    }
