"""A run on this machine is reachable from this machine only: what the processes of a run listen on, Ray's included."""

from __future__ import annotations

import ipaddress
import os
import signal
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dgs
from tests.programs import BARRIER, VALUE, EventWindow

PROC = Path("/proc")
LISTENS = "0A"

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.skipif(not (PROC / "net/tcp").exists(), reason="reads /proc/net"),
]


class Pauses(EventWindow):
    """Event windows that take long enough for a look at their processes."""

    update_batch = dgs.Program.update_batch

    def update(self, state, event, emit):
        if event.ts in {1, 5}:
            time.sleep(0.4)
        return super().update(state, event, emit)


STREAMS = {
    "barriers": [(BARRIER(), 26, 0), (BARRIER(), 30, 0)],
    "a": [(VALUE(0), ts, 1) for ts in range(1, 25)],
    "b": [(VALUE(1), ts, 100) for ts in range(1, 25)],
}


def address(text):
    """Return the address that the kernel writes as 32-bit words in the machine's order."""
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))


def listening():
    """Return the address of every listening TCP socket of this machine, by its inode."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in (PROC / "net" / table).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == LISTENS:
                found[parts[9]] = address(parts[1].partition(":")[0])
    return found


def family():
    """Return the command of every process that descends from this one, and this one."""
    parents, names = {}, {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            pid = int(stat.parent.name)
            parents[pid] = int(stat.read_text().rpartition(")")[2].split()[1])
            names[pid] = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
    mine = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= found
    return {pid: names.get(pid, "") for pid in mine}


def sockets(pid):
    """Return the inodes of the sockets that a process has open."""
    inodes = set()
    try:
        descriptors = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return inodes  # it has ended
    for descriptor in descriptors:
        try:
            target = descriptor.readlink().name
        except OSError:
            continue  # it was closed
        inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    return inodes


def look(seen):
    """Note the addresses that processes of the run listen on: by process, by socket."""
    tables = listening()
    for pid, name in family().items():
        for inode in sockets(pid) & tables.keys():
            seen[pid, name][inode] = tables[inode]


class Dies(Pauses):
    """Its first host that sees the event at 5 is killed."""

    def __init__(self, dead):
        self.dead = dead

    def update(self, state, event, emit):
        state = super().update(state, event, emit)
        if event.ts == 5 and not self.dead.exists():
            self.dead.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return state


def watched(transport, program=None):
    """Run, and return what `look` saw meanwhile."""
    seen, ended = defaultdict(dict), threading.Event()

    def watch():
        while not ended.wait(0.1):
            look(seen)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            runtime = {"kind": "ray", "hosts": 2, "transport": transport}
            run = dgs.run(program or Pauses(), streams=STREAMS, runtime=runtime)
        finally:
            ended.set()
        watching.result()
    assert run.report["hosts"] == 2
    assert sorted(run.outputs) == [0, 24 + 2400]
    return seen


def of_hosts(seen):
    """Return on how many sockets each of the two hosts of a run listens (some of an earlier run may not have ended)."""
    inodes = defaultdict(set)
    for (pid, name), found in seen.items():
        if "HostActor" in name:
            inodes[pid] |= found.keys()
    return sorted(map(len, inodes.values()))[-2:]


def are_all_on_loopback(seen):
    """Return whether no process can be reached from another machine."""
    addresses = {ip for inodes in seen.values() for ip in inodes.values()}
    assert addresses
    return all((getattr(ip, "ipv4_mapped", None) or ip).is_loopback for ip in addresses)


def test_hosts_that_take_the_place_of_dead_ones_listen_on_loopback_only(tmp_path):
    seen = watched("direct", Dies(tmp_path / "dead"))
    assert len({pid for pid, name in seen if "HostActor" in name}) >= 3
    assert are_all_on_loopback(seen)


def test_all_processes_of_a_run_listen_on_loopback_only_and_hosts_on_no_port_of_their_own():
    through_ray, direct = watched("ray"), watched("direct")
    assert are_all_on_loopback(through_ray)
    assert are_all_on_loopback(direct)
    assert len(of_hosts(direct)) == 2
    assert of_hosts(direct) == of_hosts(through_ray)
