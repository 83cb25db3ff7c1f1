"""The process that leads a Ray cluster (GCS): a run checks that it is there, since Ray ends a driver that loses it.

Ray tries for a minute to reach it, and then ends our process with exit code 1 and a message of its own. Hosts go on meanwhile, but no
process can be started or killed. In a cluster of our own it never comes back, so the run starts a new cluster. In other clusters somebody
may restart it.

>>> leader = RayLeader("127.0.0.1:1", is_own=True)
>>> try: leader.check()
... except RayLostError as error: print(error.facts["problem"])
the process that leads the Ray cluster (GCS, 127.0.0.1:1) has ended
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from dgs.errors import RayLostError

LOOK_SECONDS = 0.5
"""Seconds between two looks."""

CONNECT_SECONDS = 0.5

MISSED_SECONDS = 30.0
"""Seconds for which the process of a cluster that is not ours may be away. Ray ends our process after 60 s."""


class RayLeader:
    """Watches the process at `address`, HOST:PORT; any other address is not watched."""

    def __init__(self, address: str, *, is_own: bool, clock: Callable[[], float] = time.monotonic) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._place = (host.strip("[]"), int(port)) if host and port.isdigit() else None
        self._patience = 0.0 if is_own else MISSED_SECONDS
        self._clock = clock
        self.is_needed = True  # a run that stops can commit without it
        self._next_look = self._seen = clock()

    @property
    def is_there(self) -> bool:
        """Whether it takes a connection now."""
        if self._place is None:
            return True
        try:
            socket.create_connection(self._place, CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            return False
        except OSError:  # the machine is busy, or the network is down
            return self._patience == 0
        return True

    def check(self) -> None:
        """Look now and then. Raises RayLostError if it has ended, or has been away for too long."""
        now = self._clock()
        if now < self._next_look or not self.is_needed:
            return
        self._next_look = now + LOOK_SECONDS
        if self.is_there:
            self._seen = now
        elif now - self._seen >= self._patience:
            away = f"has been away for {self._patience:g} s" if self._patience else "has ended"
            raise RayLostError(problem=f"the process that leads the Ray cluster (GCS, {self.address}) {away}")
