"""Another user of the machine beside a run with a secret, a socket and metrics: he finds no secret, writes nothing and changes nothing."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.other_users import as_nobody, openings

SECRET = "swordfish-and-zebra"
PROGRAM = """\
import dgs


class Sum(dgs.Program):
    kinds = (dgs.kind("value"),)
    depends = dgs.Dependence((dgs.kind("value"), dgs.kind("value"), dgs.ALWAYS))

    def __init__(self, password):
        self.password = password

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.payload < 0:
            raise ValueError(f"not with {self.password}")
        emit(state + event.payload)
        return state + event.payload
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sum", args: {password: "${env:DGS_TEST_PASSWORD}"}}
streams:
  - id: values
    tags: {kind: value}
    source: {socket: {port: PORT, token: "${env:DGS_TEST_PASSWORD}"}}
    payload: amount
runtime: {kind: local, metrics: {port: METRICS, token: "${env:DGS_TEST_PASSWORD}"}}
checkpoint: {every: 100ms}
on_error: skip
"""


def line(**row):
    return json.dumps(row).encode() + b"\n"


def free_ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


@pytest.fixture
def folder():
    """A project in a place that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="dgs-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "program.py").write_text(PROGRAM)
        yield folder


@pytest.fixture
def ports(folder):
    found = free_ports(2)
    plan = PLAN.replace("PORT", str(found[0])).replace("METRICS", str(found[1]))
    (folder / "plan.yaml").write_text(plan)
    return found


@pytest.fixture
def running(folder, ports):
    command = [sys.executable, "-m", "dgs", "run", "plan.yaml", "--run-dir", "run"]
    environ = os.environ | {"DGS_TEST_PASSWORD": SECRET}
    process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
    for port in ports:
        while process.poll() is None and not answers(port):
            time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def said_to(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(text)
        return client.recv(1000)


def look_around(folder, ports, process):
    """What the other user does while the run goes on."""
    assert not list(openings(folder, SECRET.encode(), process))
    for text in (line(ts=1, amount=1000), line(kind="end"), line(kind="token", token="guess-and-guess")):
        assert b"the right token" in said_to(ports[0], text)
    assert b"401" in said_to(ports[1], b"GET /metrics HTTP/1.0\r\n\r\n")


def look_at(folder):
    """What the other user does after the run."""
    assert not list(openings(folder, SECRET.encode()))


def test_what_is_open_to_another_user_is_found(folder):
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "file").write_text(f"it is {SECRET}")
    (folder / "file").chmod(0o644)
    (folder / "private").write_text(SECRET)
    (folder / "private").chmod(0o600)

    def look():
        found = set(openings(folder, SECRET.encode()))
        assert found == {f"{folder / 'open'} can be written", f"{folder / 'file'} has the secret"}

    assert as_nobody(look)


def test_another_user_finds_no_secret_and_changes_nothing(folder, ports, running):
    assert as_nobody(lambda: look_around(folder, ports, running.pid))
    with socket.create_connection(("127.0.0.1", ports[0]), timeout=10) as client:
        client.sendall(line(kind="token", token=SECRET))
        assert b"accepted" in client.recv(100)
        for ts, amount in ((1, 1), (2, -1), (3, 2)):
            client.sendall(line(ts=ts, amount=amount))
        client.sendall(line(kind="end"))
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert SECRET not in said
    rows = [
        row for file in (folder / "run" / "outputs").glob("part-*") for row in file.read_text().splitlines()
    ]
    assert sorted(map(json.loads, rows)) == [1, 3]
    assert "not with ${env:DGS_TEST_PASSWORD}" in next((folder / "run").glob("dead-letter-*")).read_text()
    assert as_nobody(lambda: look_at(folder))
