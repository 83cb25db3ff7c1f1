"""`dgs log`: listing, showing and closing an event log; and runs that read one."""

import json
import socket
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from dgs.cli.app import app
from dgs.workers.event_log import LogReader, LogWriter

PROGRAM = """
import dgs

VALUE = dgs.kind("value")


class Total(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state + event.payload)
        return state + event.payload
"""
PLAN = """
version: 1
name: total
program: {ref: "program.py:Total"}
streams:
  - id: values
    tags: {kind: value}
    payload: n
    source: {log: {path: log}}
sinks: [{jsonl: {path: out}}]
runtime: {kind: local}
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for stream in ("values", "others"):
        writer = LogWriter(tmp_path / "log", stream, f"writer of {stream}")
        for batch in range(3):
            writer.append(batch, {"ts": [10 * batch, 10 * batch + 1], "n": [1, 2]}, frontier=10 * batch)
    return tmp_path / "log"


def invoke(*arguments):
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def test_ls_lists_every_stream(log):
    found = json.loads(invoke("ls", log, "--json").stdout)["streams"]
    assert [(s["stream"], s["writer"], s["rows"], s["segments"]) for s in found] == [
        ("others", "writer of others", 6, 3),
        ("values", "writer of values", 6, 3),
    ]
    assert {(s["latest"], s["frontier"], s["is_closed"]) for s in found} == {(21, 20, False)}
    lines = invoke("ls", log).stdout.splitlines()
    assert lines[0].split()[:4] == ["stream", "writer", "rows", "deleted"]
    assert lines[2].split()[-1] == "open"


def test_show_lists_the_segments_of_the_streams_asked_for(log):
    found = json.loads(invoke("show", log, "--stream", "values", "--json").stdout)["segments"]
    assert [(s["stream"], s["batch"], s["first"], s["rows"], s["low"], s["high"]) for s in found] == [
        ("values", batch, 2 * batch, 2, 10 * batch, 10 * batch + 1) for batch in range(3)
    ]
    assert len(invoke("show", log).stdout.splitlines()) == 7


def test_show_finds_damage_and_ls_does_not_look_for_it(log):
    first = min((log / "values" / "0000000").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    assert invoke("ls", log).exit_code == 0
    done = invoke("show", log)
    assert (done.exit_code, first.name in done.stderr) == (6, True)


def test_close_marks_the_end_of_the_streams_asked_for(log):
    assert invoke("close", log, "--stream", "values").exit_code == 0
    closed = {s["stream"]: s["is_closed"] for s in json.loads(invoke("ls", log, "--json").stdout)["streams"]}
    assert closed == {"others": False, "values": True}
    assert invoke("close", log).exit_code == 0
    reader = LogReader(log, "others")
    while reader.poll() is not None:
        pass
    assert reader.has_ended


@pytest.mark.parametrize(("place", "options"), [("nowhere", []), ("log", ["--stream", "views"])])
def test_missing_log_or_stream_is_a_usage_error(log, place, options):
    done = invoke("ls", log.parent / place, *options)
    assert done.exit_code == 2
    assert "is not an event log" in done.stderr or "it has others, values" in done.stderr


def test_run_reads_a_log_to_its_end(log, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert invoke("close", log).exit_code == 0
    done = CliRunner().invoke(app, ["run", "plan.yaml", "--verify", "--json"])
    assert done.exit_code == 0, done.output
    (out,) = tmp_path.rglob("*.jsonl")
    values = [json.loads(line) for line in out.read_text().splitlines()]
    assert [value if isinstance(value, int) else value["value"] for value in values] == [1, 3, 4, 6, 7, 9]


SOCKET = PLAN.replace("{log: {path: log}}", "{socket: {port: 0}}")


def test_run_reads_a_socket_through_a_log_in_its_directory(log, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.yaml").write_text(SOCKET)
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml", "--verify"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 240
        while not (found := list(tmp_path.glob(".dgs/runs/*/logs/values/listening"))):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        host, _, port = found[0].read_text().strip().rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(b'{"ts": 1, "n": 4}\n{"ts": 2, "n": 5}\n{"kind": "end"}\n')
            assert json.loads(client.makefile("rb").readline()) == {"durable": 2}
        assert process.wait(timeout=60) == 0, process.stderr.read()
    (out,) = (tmp_path / "out").rglob("*.jsonl")
    assert len(out.read_text().splitlines()) == 2
