"""A run on this machine listens only on this machine, with Ray's processes."""

from __future__ import annotations

import ipaddress
import os
import signal
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

import dgs
from experiments.crash.processes import family
from tests.programs import BARRIER, VALUE, EventWindow

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("ray_cluster"),
]


PATIENCE = 60.0
"""The longest wait of a host for the test, in seconds."""


class Shows(EventWindow):
    """Event windows whose hosts wait until the test has looked at their processes. `folder` has a file for each of them."""

    update_batch = dgs.Program.update_batch

    def __init__(self, folder):
        self.folder = folder

    def update(self, state, event, emit):
        if event.ts in {1, 5}:
            self.show()
        return super().update(state, event, emit)

    def show(self):
        process = self.folder / str(os.getpid())
        process.touch()
        deadline = time.monotonic() + PATIENCE
        while process.exists() and time.monotonic() < deadline:
            time.sleep(0.01)


STREAMS = {
    "barriers": [(BARRIER(), 26, 0), (BARRIER(), 30, 0)],
    "a": [(VALUE(0), ts, 1) for ts in range(1, 25)],
    "b": [(VALUE(1), ts, 100) for ts in range(1, 25)],
}


def look(seen):
    """Note the addresses that processes of the run listen on: by process, by port."""
    for pid, name in family(os.getpid()).items():
        with suppress(psutil.NoSuchProcess):
            for found in psutil.Process(pid).net_connections("tcp"):
                if found.status == psutil.CONN_LISTEN:
                    seen[pid, name][found.laddr] = ipaddress.ip_address(found.laddr.ip)


def look_at_hosts(folder, seen):
    """Look, and let the hosts go on whose files were there before. Return these hosts."""
    shown = list(folder.iterdir())
    look(seen)
    for process in shown:
        process.unlink()
    return {int(process.name) for process in shown}


class Dies(Shows):
    """Its first host that sees the event at 5 is killed."""

    def update(self, state, event, emit):
        state = super().update(state, event, emit)
        if event.ts == 5:
            with suppress(FileExistsError):
                self.folder.with_name("dead").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return state


def watched(transport, tmp_path, make=Shows):
    """Run, and return the findings of `look`, and the hosts."""
    seen, hosts, ended = defaultdict(dict), set(), threading.Event()
    folder = tmp_path / transport
    folder.mkdir()

    def watch():
        while not ended.wait(0.05):
            hosts.update(look_at_hosts(folder, seen))

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            runtime = {"kind": "ray", "hosts": 2, "transport": transport}
            run = dgs.run(make(folder), streams=STREAMS, runtime=runtime, optimizer="greedy")
        finally:
            ended.set()
        watching.result()
    assert run.report["hosts"] == 2
    assert sorted(run.outputs) == [0, 24 + 2400]
    return seen, hosts


def of_hosts(seen, hosts):
    """Return the number of ports on which each host of a run listens."""
    ports = {pid: set() for pid in hosts}
    for (pid, _), found in seen.items():
        if pid in hosts:
            ports[pid] |= found.keys()
    return sorted(map(len, ports.values()))


def are_all_on_loopback(seen):
    """Return whether no process can be reached from another machine."""
    addresses = {ip for found in seen.values() for ip in found.values()}
    assert addresses
    return all((getattr(ip, "ipv4_mapped", None) or ip).is_loopback for ip in addresses)


@pytest.mark.slow
def test_hosts_that_take_the_place_of_dead_ones_listen_on_loopback_only(tmp_path):
    seen, hosts = watched("direct", tmp_path, Dies)
    assert (tmp_path / "dead").exists()
    assert len(hosts) >= 3
    assert min(of_hosts(seen, hosts)) > 0
    assert are_all_on_loopback(seen)


def test_all_processes_of_a_run_listen_on_loopback_only_and_hosts_on_no_port_of_their_own(tmp_path):
    through_ray, direct = watched("ray", tmp_path), watched("direct", tmp_path)
    for seen, hosts in (through_ray, direct):
        assert len(hosts) == 2
        assert are_all_on_loopback(seen)
    assert of_hosts(*direct) == of_hosts(*through_ray)
