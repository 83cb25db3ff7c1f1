"""The processes of a run, from `/proc`: its driver, Ray's, and its hosts."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

PROC = Path("/proc")
HOST = "HostActor"
"""What Ray puts into the name of the process of a host."""


def family(root: int) -> dict[int, str]:
    """Return the command of a process and of all that descend from it."""
    parents, names = {}, {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            process = int(stat.parent.name)
            parents[process] = int(stat.read_text().rpartition(")")[2].split()[1])
            names[process] = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
    mine = {root} & parents.keys()
    while found := {process for process, parent in parents.items() if parent in mine} - mine:
        mine |= found
    return {process: names.get(process, "") for process in mine}


def hosts_of(driver: int, count: int) -> list[int]:
    """Return the processes of the hosts of a driver that are at work: the oldest, as those that wait were started after them."""
    return sorted(process for process, name in family(driver).items() if HOST in name)[:count]


def is_any_alive(processes: Collection[int]) -> bool:
    """Return whether one of these processes has not ended."""
    return any(map(_is_alive, processes))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
