"""Clusters that a run starts: only its user can enter the directory of their sockets and logs."""

import os
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import product
from pathlib import Path

import psutil
import pytest

from dgs.errors import RayRefusedError, RayUnreachableError
from dgs.workers.ray_runtime import cluster as cluster_module
from dgs.workers.storage.locks import FileLock


def test_a_cluster_of_our_own_keeps_its_files_where_only_this_user_may_enter(ray_cluster):
    session = Path(ray_cluster._private.worker._global_node.get_session_dir_path())
    private = session.parent.parent
    assert private.name.startswith("dgs-ray-")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert private.stat().st_uid == os.getuid()


def test_a_cluster_of_our_own_has_no_server_that_sends_statistics_of_usage(ray_cluster):
    started = [" ".join(process.cmdline()) for process in psutil.Process().children()]
    assert any("gcs_server" in command for command in started)
    assert not any("UsageStats" in command for command in started)


def test_directories_of_killed_processes_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "SHORT", str(tmp_path))
    made = {name: tmp_path / f"dgs-ray-{name}" for name in ("held", "killed", "begun", "late", "bare")}
    for directory in (*made.values(), tmp_path / "other"):
        directory.joinpath("r").mkdir(parents=True)
    held = FileLock(made["held"] / "lock")
    for name in ("killed", "begun"):
        FileLock(made[name] / "lock").release()
    for path in (made["held"] / "lock", made["killed"] / "lock", made["late"], tmp_path / "other"):
        os.utime(path, (0, 0))
    cluster_module.remove_left_directories()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "dgs-ray-bare",
        "dgs-ray-begun",
        "dgs-ray-held",
        "other",
    ]
    held.release()


SIGNALLED = """
import os, signal, threading, time
from dgs.workers.ray_runtime.cluster import cluster

def note(number, frame):
    print("got", number, flush=True)

def send(number):
    os.kill(os.getpid(), number)

def is_caught():
    status = open("/proc/self/status").read().splitlines()
    return int(next(line for line in status if line.startswith("SigCgt")).split()[1], 16) >> signal.SIGTERM - 1 & 1

def send_late(*args, **options):
    deadline = time.monotonic() + 5
    while not is_caught() and time.monotonic() < deadline:
        time.sleep(0.001)
    send(signal.SIGTERM)
    return kill_all_processes(*args, **options)

signal.signal(signal.SIGTERM, note)
threading.Timer(0.5, send, [signal.SIGTERM]).start()  # while Ray starts
with cluster("local", 1) as ray:
    print("started", flush=True)
    kill_all_processes = ray._private.worker._global_node.kill_all_processes
    ray._private.worker._global_node.kill_all_processes = send_late  # which is the last that Ray does
    for _ in range(2):
        send(signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(4)  # longer than Ray's own handler leaves a process alive
print("ended", flush=True)
"""


def test_ray_takes_no_signal_from_a_process_that_waits_for_it():
    """Ray's handlers, one in Python and one in C++, would end the process with their own exit codes."""
    command = [sys.executable, "-c", SIGNALLED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["got 15", "started", "got 15", "got 15", "got 15", "ended"]
    assert (done.returncode, done.stderr) == (0, "")


HTTP2_SERVER = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("form", "greeting"),
    [
        *product(
            ["{}", "ray://{}", "ray://{}/?namespace=a", "auto"], [None, b"SSH-2.0-OpenSSH_9.2\r\n", b""]
        ),
        ("{}", HTTP2_SERVER),
    ],
)
def test_address_without_a_ray_cluster_is_refused_at_once(greeting, form, monkeypatch):
    """No listener, another service, a silent one, or one that only speaks HTTP/2."""
    monkeypatch.setattr(cluster_module, "ADDRESS_SECONDS", 0.5)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)

        def greet():
            with suppress(OSError):  # the listener is closed
                while True:
                    peer = listener.accept()[0]
                    peer.sendall(greeting)
                    peers.append(peer)

        peers = []
        server = threading.Thread(target=greet)
        if greeting is not None:
            listener.listen()
            server.start()
        with (
            pytest.raises(RayUnreachableError, match=address),
            cluster_module.cluster(form.format(address), 2),
        ):
            pass
        if greeting is not None:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
        for peer in peers:
            peer.close()


def test_name_that_is_not_found_in_time_is_no_cluster(monkeypatch):
    """The system decides how long a look-up of a name takes."""
    asked = threading.Event()

    def late(*_, **__):
        asked.wait(60)
        raise OSError

    monkeypatch.setattr(cluster_module, "ADDRESS_SECONDS", 0.05)
    monkeypatch.setattr(socket, "create_connection", late)
    assert not cluster_module.answers("head:6379")
    asked.set()


def test_address_of_a_ray_cluster_answers(ray_cluster):
    assert cluster_module.answers(ray_cluster.get_runtime_context().gcs_address)


def test_client_address_without_a_port_has_the_port_of_ray_clients(monkeypatch):
    asked = []
    monkeypatch.setattr(cluster_module, "answers", asked.append)
    for address in ("ray://[::1]", "ray://head/?namespace=a", "ray://head:7"):
        with pytest.raises(RayUnreachableError):
            cluster_module.found_at(address)
    assert asked == ["[::1]:10001", "head:10001", "head:7"]


def test_auto_without_a_cluster_says_where_it_looked(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", frozenset)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda _: None)
    with pytest.raises(RayUnreachableError, match="RAY_ADDRESS is not set, and none runs on this machine"):
        cluster_module.found_at("auto")


OF_ANOTHER = """
import os, sys
os.environ["RAY_AUTH_TOKEN"] = "0" * 64
from dgs.workers.ray_runtime.cluster import cluster
try:
    with cluster(sys.argv[1], 1):
        pass
except Exception as error:
    print(error.code)
"""


def test_cluster_with_another_token_is_refused_and_not_taken_for_a_dead_one(ray_cluster):
    command = [sys.executable, "-c", OF_ANOTHER, ray_cluster.get_runtime_context().gcs_address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == (f"{RayRefusedError.code}\n", "")
