"""User code that does not return: `dgs stop` ends a local run anyway, and it can be resumed from its last commit."""

import json
import signal
import threading
import time
from pathlib import Path

import pytest

import dgs
from dgs.workers.runtime import local
from dgs.workers.runtime.control import OverdueStop, OverdueStopError

PROGRAM = """\
import time
from pathlib import Path

import dgs

HERE, VALUE = Path(__file__).parent, dgs.kind("value")


def wait(place):
    (HERE / "begun").touch()
    while place == "sleep" and not (HERE / "go").exists():
        time.sleep(60)


class Echo(dgs.Program):
    depends = dgs.Dependence((VALUE, VALUE, dgs.ALWAYS))

    def __init__(self, where):
        self.where = where

    def init(self):
        if self.where == "init":
            wait("sleep")
        return 0

    def update(self, state, event, emit):
        if self.where == "update" and event.ts == 2:
            wait("sleep")
        emit({"ts": event.ts})
        return state


def called(batch, waits):
    try:
        if waits:
            wait("sleep")
    except Exception:
        raise AssertionError("no error of the user's")
"""
PLAN = """\
version: 1
name: echo
program: {ref: "program.py:Echo", args: {where: WHERE}}
streams:
  - id: values
    tags: {kind: value}
    source: {jsonl: {path: values.jsonl}}
runtime: {kind: local, stop_timeout: 1ms, batch_rows: 1}
checkpoint: {every: 1ms}
sinks: [{jsonl: {path: out}}, {callable: {ref: "program.py:called", args: {waits: SINK}}}]
"""


def stop_once_begun(run_dir):
    patience = time.monotonic() + 120
    while not Path("begun").exists() and time.monotonic() < patience:
        time.sleep(0.01)
    dgs.stop(run_dir, timeout=120)


@pytest.mark.parametrize("where", ["init", "update", "sink"])
def test_a_call_that_does_not_return_is_interrupted_by_a_stop(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "STOP_GRACE", 0.1)
    Path("program.py").write_text(PROGRAM)
    Path("values.jsonl").write_text("".join(f'{{"ts": {ts}}}\n' for ts in range(4)))
    Path("plan.yaml").write_text(PLAN.replace("WHERE", where).replace("SINK", str(where == "sink").lower()))
    before = signal.getsignal(signal.SIGURG)
    stopping = threading.Thread(target=stop_once_begun, args=["there"])
    stopping.start()
    run = dgs.run("plan.yaml", run_dir="there")
    stopping.join()
    assert (run.report["status"], run.report["stopped_at"]) == ("stopped", None)
    assert signal.getsignal(signal.SIGURG) is before
    Path("go").touch()
    assert dgs.resume("there").report["status"] == "done"
    written = [
        json.loads(line) for path in Path("out").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sorted(row["ts"] for row in written) == [0, 1, 2, 3]


def test_work_in_another_thread_ends_between_two_calls():
    calls, raised = [], []
    overdue = OverdueStop(lambda: bool(calls), patience=0.0)

    def work():
        try:
            with overdue.watching(), overdue.work():
                while True:
                    calls.append("returned")
                    time.sleep(0.001)
                    overdue.check()
        except OverdueStopError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(raised) == 1


def test_a_signal_outside_of_work_does_nothing():
    overdue = OverdueStop(lambda: True, patience=0.0)
    with overdue.watching():
        signal.raise_signal(signal.SIGURG)
        with pytest.raises(OverdueStopError), overdue.work():
            time.sleep(60)
        signal.raise_signal(signal.SIGURG)
