"""Calls from Java into Python: another user of this machine, who finds the port, calls nothing."""

import socket
import time

import pytest

from dgs.spark_bridge.session import callbacks
from dgs.spark_bridge.session.callbacks import is_of_this_user, only_from_this_user
from tests.other_users import as_nobody

clientserver = pytest.importorskip("py4j.clientserver")

NOBODY = 65534
CALL = b"c\nbatch\ncall\ne\n"


class Batch:
    """A function for Java."""

    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1


@pytest.fixture
def batch():
    return Batch()


@pytest.fixture
def port(batch, monkeypatch):
    """The port of a server for calls, as PySpark starts it, without any Java."""
    gateway = clientserver.ClientServer(
        python_parameters=clientserver.PythonParameters(port=0, eager_load=False)
    )
    only_from_this_user(gateway)
    gateway.gateway_property.pool.put(batch, "batch")
    gateway.start_callback_server(gateway.python_parameters)
    port = gateway._callback_server.get_listening_port()
    while is_closed(port):  # it begins in a thread of its own
        time.sleep(0.01)
    yield port
    gateway._callback_server.shutdown()


def is_closed(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def call(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(CALL)
        return client.recv(100)


def test_processes_of_this_user_call(batch, port):
    assert call(port).startswith(b"!y")
    assert batch.calls == 1


def test_another_user_calls_nothing_and_the_server_goes_on(batch, port):
    def work():
        try:
            answer = call(port)
        except OSError:
            return
        assert answer == b""

    for _ in range(3):
        assert as_nobody(work)
    time.sleep(0.2)
    assert batch.calls == 0
    assert call(port).startswith(b"!y")


def test_a_connection_whose_other_end_has_gone_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            accepted, _ = server.accept()
        with accepted:
            assert not is_of_this_user(accepted)


@pytest.mark.parametrize("table", [None, "", "  sl  local_address\n"], ids=["none", "empty", "without rows"])
def test_without_a_table_of_connections_all_are_accepted(monkeypatch, tmp_path, table):
    if table is not None:
        (tmp_path / "tcp").write_text(table)
    monkeypatch.setattr(callbacks, "TABLES", (tmp_path / "tcp",))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as accepted,
    ):
        assert is_of_this_user(accepted)
