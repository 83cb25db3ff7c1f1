"""A network namespace of this machine, used as a second machine. Needs root."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its link to this side: the names of both ends, and the address of each."""

    name: str
    outside: str
    inside: str
    here: str
    there: str

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the namespace; at the end, kill its processes and delete it."""
        ip("netns", "add", self.name)
        try:
            ip("link", "add", self.outside, "type", "veth", "peer", "name", self.inside, "netns", self.name)
            ip("addr", "add", f"{self.here}/24", "dev", self.outside)
            ip("link", "set", self.outside, "up")
            ip("-n", self.name, "addr", "add", f"{self.there}/24", "dev", self.inside)
            ip("-n", self.name, "link", "set", self.inside, "up")
            ip("-n", self.name, "link", "set", "lo", "up")
            ip("-n", self.name, "route", "add", "default", "via", self.here)
            yield
        finally:
            self.kill_all()
            # First the link: the kernel deletes the namespace with a delay.
            subprocess.run(["ip", "link", "delete", self.outside], check=False)  # noqa: S603, S607
            ip("netns", "delete", self.name)

    def kill_all(self) -> None:
        """Kill all processes in the namespace."""
        command = ["ip", "netns", "pids", self.name]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        for process in map(int, listed.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def ip(*arguments: str) -> None:
    """Run the command `ip`."""
    subprocess.run(["ip", *arguments], check=True)  # noqa: S603, S607
