"""The head process of a Ray cluster ends: a run on its own cluster starts another cluster, any other run ends with an error."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dgs.errors import RayLostError
from dgs.workers.ray_runtime.ray_leader import LOOK_SECONDS, MISSED_SECONDS, RayLeader

PROGRAM = """\
import dgs

N = dgs.kind("n", key=range(4))


class Sums(dgs.Program):
    depends = dgs.Dependence((N, N, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        total = state.get(event.tag.key, 0) + event.payload
        emit([event.ts, event.tag.key, total])
        return {**state, event.tag.key: total}

    def fork(self, state, left, right):
        return tuple({k: v for k, v in state.items() if N(k) in side} for side in (left, right))

    def join(self, left, right):
        return {**left, **right}


def values():
    for ts in range(0, 8000, 50):
        yield {"ts": list(range(ts, ts + 50)), "key": [t % 4 for t in range(ts, ts + 50)], "payload": [t % 7 for t in range(ts, ts + 50)]}
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - id: v
    tags: {kind: n, key: {column: key}}
    source: {generator: {ref: "program.py:values", pace: 1000/s}}
    payload: payload
runtime: {kind: ray, hosts: 2}
optimizer: {name: greedy}
checkpoint: {every: 200ms}
sinks: [{jsonl: {path: out}}]
"""


class Clock:
    now = 0.0

    def __call__(self):
        self.now += LOOK_SECONDS
        return self.now


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_leader_of_our_own_cluster_is_lost_at_once():
    with pytest.raises(RayLostError, match=r"GCS, 127.0.0.1:[0-9]+\) has ended"):
        RayLeader(f"127.0.0.1:{closed_port()}", is_own=True, clock=Clock()).check()


def test_leader_of_another_cluster_may_be_away_for_a_while():
    leader = RayLeader(f"127.0.0.1:{closed_port()}", is_own=False, clock=Clock())
    for _ in range(int(MISSED_SECONDS / LOOK_SECONDS) - 1):
        leader.check()
    with pytest.raises(RayLostError, match="has been away for 30 s"):
        leader.check()


def test_run_that_stops_does_not_need_the_leader():
    leader = RayLeader(f"127.0.0.1:{closed_port()}", is_own=True, clock=Clock())
    leader.is_needed = False
    leader.check()


def test_leader_that_accepts_a_connection_is_alive():
    with socket.create_server(("127.0.0.1", 0)) as server:
        leader = RayLeader(f"127.0.0.1:{server.getsockname()[1]}", is_own=True, clock=Clock())
        leader.check()
        leader.check()
    assert RayLeader("somewhere/else", is_own=False).is_there


def processes_below(process):
    """Return the children of a process and their commands."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == process:
                found[int(status.parent.name)] = (status.parent / "cmdline").read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_run_goes_on_in_another_cluster_when_the_leader_of_its_own_is_killed(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.yaml").write_text(PLAN)
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        while not list(tmp_path.glob("out/part-*")) and run.poll() is None:
            time.sleep(0.05)
        (leader,) = (one for one, line in processes_below(run.pid).items() if b"gcs_server" in line)
        os.kill(leader, signal.SIGKILL)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert "Failed to connect to GCS" not in said
    found = [
        json.loads(line) for part in tmp_path.glob("out/part-*") for line in part.read_text().splitlines()
    ]
    totals, expected = dict.fromkeys(range(4), 0), []
    for ts in range(8000):
        totals[ts % 4] += ts % 7
        expected.append([ts, ts % 4, totals[ts % 4]])
    outputs = [one["output"] if isinstance(one, dict) else one for one in found]
    assert sorted(outputs) == expected
