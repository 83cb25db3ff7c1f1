"""Runs that truncate their own event logs, and commands that need removed rows."""

import json
import socket
import threading
import time

import pytest
import yaml
from typer.testing import CliRunner

import dgs
from dgs.api.known_runs import committed_in
from dgs.api.truncating import CutHeartbeatsError, TruncatedLogError
from dgs.cli.app import app
from dgs.errors import UsageError
from dgs.workers.event_log import LogWriter
from dgs.workers.event_log.summary import streams
from dgs.workers.sources.live.decisions import HEARTBEATS
from dgs.workers.storage import record_file
from dgs.workers.storage.record_file import RecordReader

PROGRAM = """
import dgs


class Total(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state + event.payload)
        return state + event.payload
"""
BURSTS = 8


def plan_of(folder, source, **checkpoint):
    (folder / "program.py").write_text(PROGRAM)
    plan = {
        "version": 1, "name": "total", "time": {"unit": "ms"}, "program": {"ref": "program.py:Total"},
        "streams": [{"id": "values", "tags": {"kind": "value"}, "payload": "n", "source": source}],
        "runtime": {"kind": "local"}, "sinks": [{"jsonl": {"path": "out"}}],
        "checkpoint": {"every": "20ms", "keep": 1, **checkpoint},
    }  # fmt: skip
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    return folder / "plan.yaml"


def send(listening):
    patience = time.monotonic() + 240
    while not listening.exists() and time.monotonic() < patience:
        time.sleep(0.01)
    host, _, port = listening.read_text().strip().rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as connection,
        connection.makefile("rwb") as file,
    ):
        for burst in range(BURSTS):
            for line in ({"ts": burst, "n": 1}, {"kind": "ack?"}):
                file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            file.readline()
        file.write(b'{"kind": "end"}\n')
        file.flush()
        file.readline()


def run(folder, *, verify=False, **checkpoint):
    plan = plan_of(folder, {"socket": {"port": 0, "ts": "ts"}}, **checkpoint)
    sending = threading.Thread(target=send, args=(folder / "run" / "logs" / "values" / "listening",))
    sending.start()
    try:
        return dgs.run(plan, run_dir=folder / "run", verify=verify)
    finally:
        sending.join()


def deleted(folder):
    [found] = streams(folder / "run" / "logs")
    assert found.rows == BURSTS
    return found.first


def test_run_truncates_its_own_logs(tmp_path):
    """After the end one checkpoint is kept. It needs only the last row."""
    run(tmp_path)
    written = [file.read_text().splitlines() for file in (tmp_path / "out").glob("part-*.jsonl")]
    assert sorted(json.loads(line) for lines in written for line in lines) == list(range(1, BURSTS + 1))
    assert deleted(tmp_path) == BURSTS - 1


@pytest.mark.parametrize("options", [{"keep_logs": True}, {"verify": True}])
def test_run_keeps_its_logs_where_they_are_wanted(tmp_path, options):
    found = run(tmp_path, **options)
    assert found.verified is options.get("verify")
    assert deleted(tmp_path) == 0


def test_runs_that_need_deleted_rows_are_refused_before_they_begin(tmp_path):
    run(tmp_path)
    with pytest.raises(
        TruncatedLogError, match=f"rows 0 to {BURSTS - 2} of the event log .* `--verify` needs them"
    ):
        dgs.resume(tmp_path / "run", verify=True)
    plan = plan_of(tmp_path, {"log": {"path": "run/logs", "ts": "ts"}})
    for verify in (False, True):
        with pytest.raises(
            TruncatedLogError, match=f"{'--verify' if verify else 'a run from the beginning'}`? needs them"
        ):
            dgs.run(plan, fresh=True, verify=verify)
    assert not (tmp_path / ".dgs").exists()
    dgs.resume(tmp_path / "run")


def test_command_truncates_the_logs_of_a_run_below_its_checkpoints(tmp_path):
    run(tmp_path, keep_logs=True)
    done = CliRunner().invoke(app, ["log", "truncate", str(tmp_path / "run"), "--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"deleted": {"values": BURSTS - 1}})
    assert deleted(tmp_path) == BURSTS - 1
    again = CliRunner().invoke(app, ["log", "truncate", str(tmp_path / "run"), "--json"])
    assert json.loads(again.stdout) == {"deleted": {"values": 0}}
    missing = CliRunner().invoke(app, ["log", "truncate", str(tmp_path / "run"), "--stream", "others"])
    assert missing.exit_code == UsageError.exit_code
    assert "no stream 'others'" in missing.stderr


def test_log_elsewhere_is_truncated_on_request_and_the_run_resumes(tmp_path):
    """The plan is made again when a run is resumed, from the events that the log still has."""
    plan = plan_of(tmp_path, {"log": {"path": "log", "ts": "ts"}})
    writer = LogWriter(tmp_path / "log", "values", "w")
    running = threading.Thread(target=dgs.run, args=[plan], kwargs={"run_dir": tmp_path / "run"})
    for burst in range(BURSTS):
        writer.append(burst, {"ts": [burst], "n": [1]})
    running.start()
    patience = time.monotonic() + 240
    while progress(tmp_path) < BURSTS and time.monotonic() < patience:
        time.sleep(0.01)
    dgs.stop(tmp_path / "run")
    running.join()
    unasked = CliRunner().invoke(app, ["log", "truncate", str(tmp_path / "run")])
    assert "name a --stream" in unasked.stderr
    done = CliRunner().invoke(app, ["log", "truncate", str(tmp_path / "run"), "--stream", "values", "--json"])
    assert json.loads(done.stdout) == {"deleted": {"values": BURSTS - 1}}
    writer.append(BURSTS, {"ts": [BURSTS], "n": [1]})
    writer.close()
    assert dgs.resume(tmp_path / "run").state == BURSTS + 1


def progress(folder):
    committed = committed_in(folder / "run" / "checkpoints")
    return 0 if committed is None else committed.checkpoint.events


def beats_of(folder):
    """Run a job over a log with heartbeats between its rows, each of them committed; return the file of the heartbeats."""
    (folder / "program.py").write_text(PROGRAM)
    plan = yaml.safe_load(plan_of(folder, {"log": {"path": "log", "ts": "ts"}}).read_text())
    plan["streams"][0] |= {"heartbeat": {"every": "1ms", "max_delay": "1ms"}, "on_disorder": "drop"}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    log = LogWriter(folder / "log", "values", "w")
    file = folder / "run" / "logs" / "values" / HEARTBEATS

    def feed():
        patience = time.monotonic() + 240
        for batch in range(3):
            soon = time.time_ns() // 10**6 + 500  # so that it is not late
            log.append(batch, {"ts": [soon], "n": [1]}, keep_order=True)
            before = file.stat().st_size if file.exists() else 0
            while time.monotonic() < patience and (
                progress(folder) <= batch or not file.exists() or file.stat().st_size == before
            ):
                time.sleep(0.01)
        log.close()

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        dgs.run(folder / "plan.yaml", run_dir=folder / "run")
    finally:
        feeding.join()
    return file


def test_heartbeats_of_a_run_are_cut_and_then_missed_by_runs_that_need_them(tmp_path, monkeypatch):
    monkeypatch.setattr(record_file, "_pays", lambda gone, _left, _least: gone > 0)
    file = beats_of(tmp_path)
    dgs.resume(tmp_path / "run")
    reader = RecordReader(file, "values")
    reader.poll()
    assert reader.beginning.gone
    with pytest.raises(CutHeartbeatsError, match=r"the first \d+ heartbeats in .* `--verify` needs them"):
        dgs.resume(tmp_path / "run", verify=True)
