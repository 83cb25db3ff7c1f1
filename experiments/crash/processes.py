"""The processes of a run: its driver, Ray's, Spark's, and its hosts."""

from __future__ import annotations

from collections.abc import Collection

import psutil

HOST = "HostActor"
"""The part of a process name by which Ray marks our hosts."""


def family(root: int) -> dict[int, str]:
    """Return the commands of a process and all its descendants, by process id."""
    return {process.pid: _command(process) for process in _family(root)}


def _family(root: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(root)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def hosts_of(driver: int, count: int) -> list[int]:
    """Return the processes of a driver's working hosts: those with the most CPU time, because a spare host is idle."""
    hosts = [process for process in _family(driver) if HOST in _command(process)]
    return [process.pid for process in sorted(hosts, key=_computed, reverse=True)[:count]]


def is_any_alive(processes: Collection[int]) -> bool:
    """Return whether one of these processes has not ended."""
    return any(map(_is_alive, processes))


def _command(process: psutil.Process) -> str:
    """Return the command of a process; nothing if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _computed(process: psutil.Process) -> float:
    """Return the seconds of CPU that a process has used; 0 if it has ended."""
    try:
        return sum(process.cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0.0


def _is_alive(process: int) -> bool:
    try:
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
