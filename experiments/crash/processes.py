"""The processes of a run: its driver, Ray's, Spark's, and its hosts."""

from __future__ import annotations

from collections.abc import Collection

import psutil

HOST = "HostActor"
"""The part of a process name by which Ray marks our hosts."""


def family(root: int) -> dict[int, str]:
    """Return the commands of a process and all its descendants, by process id."""
    try:
        top = psutil.Process(root)
        return {process.pid: _command(process) for process in (top, *top.children(recursive=True))}
    except psutil.NoSuchProcess:
        return {}


def hosts_of(driver: int, count: int) -> list[int]:
    """Return the processes of a driver's working hosts: the oldest ones, because idle hosts are started later."""
    return sorted(process for process, name in family(driver).items() if HOST in name)[:count]


def is_any_alive(processes: Collection[int]) -> bool:
    """Return whether one of these processes has not ended."""
    return any(map(_is_alive, processes))


def _command(process: psutil.Process) -> str:
    """Return the command of a process; nothing if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _is_alive(process: int) -> bool:
    try:
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
