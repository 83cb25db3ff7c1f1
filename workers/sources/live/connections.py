"""The connections of a port: whether they have shown the token, how long they have been quiet, and which one a full port closes.

A full port closes the connection that has been quiet for longest; connections without the token go before those with it. So unused
connections do not fill a port, and peers without the token take no place from peers with it. This module has no clock and no socket.

>>> clock = [0.0]
>>> table = Connections(most=2, per_peer=2, idle=60.0, needs_token=True, clock=lambda: clock[0])
>>> table.admit(1, "10.0.0.1"), table.admit(2, "10.0.0.2")
([], [])
>>> table.accept(1)                                     # connection 1 has shown the token
>>> clock[0] = 3.0
>>> table.admit(3, "10.0.0.3")
[(2, 'the port is full, and this connection was quiet for longest')]
>>> clock[0] = 9.0
>>> table.overdue()
[(3, 'no token came within 5 s')]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GREETING = 5.0
"""Seconds that a connection has to show the token."""

FULL = "the port is full, and this connection was quiet for longest"
CROWD = "its address has too many connections, and this one was quiet for longest"


@dataclass
class _Connection:
    peer: str
    heard: float
    is_known: bool


class Connections:
    """The table of connections by number. `idle`: seconds without a line, 0 for no bound. Times are seconds by `clock`.

    Laws: at most `most` are open, at most `per_peer` of one address, and a newcomer is always let in.
    """

    def __init__(
        self, *, most: int, per_peer: int, idle: float, needs_token: bool, clock: Callable[[], float]
    ) -> None:
        self._most, self._per_peer, self._idle = most, per_peer, idle
        self._needs_token = needs_token
        self._clock = clock
        self._open: dict[int, _Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, number: int, peer: str) -> list[tuple[int, str]]:
        """Take a newcomer; return the connections to close for it, with the reasons."""
        closed = []
        own = [one for one, connection in self._open.items() if connection.peer == peer]
        if len(own) >= self._per_peer:
            closed.append((self._quietest(own), CROWD))
        elif len(self._open) >= self._most:
            closed.append((self._quietest(list(self._open)), FULL))
        for one, _ in closed:
            self.leave(one)
        self._open[number] = _Connection(peer, self._clock(), is_known=not self._needs_token)
        return closed

    def accept(self, number: int) -> None:
        """Note that a connection has shown the token."""
        if number in self._open:
            self._open[number].is_known = True
            self.hear(number)

    def hear(self, number: int) -> None:
        """Note that a line has come."""
        if number in self._open:
            self._open[number].heard = self._clock()

    def hear_all(self) -> None:
        """Note that silence so far does not count: the port took no lines."""
        now = self._clock()
        for connection in self._open.values():
            connection.heard = now

    def leave(self, number: int) -> None:
        """Forget a connection."""
        self._open.pop(number, None)

    def overdue(self) -> list[tuple[int, str]]:
        """Return the connections to close because they have been quiet for too long, and forget them."""
        now = self._clock()
        found = []
        for number, connection in self._open.items():
            quiet = now - connection.heard
            if not connection.is_known and quiet > GREETING:
                found.append((number, f"no token came within {GREETING:g} s"))
            elif 0 < self._idle < quiet:
                found.append((number, f"no line came for {self._idle:g} s"))
        for number, _ in found:
            self.leave(number)
        return found

    def _quietest(self, numbers: list[int]) -> int:
        return min(numbers, key=lambda one: (self._open[one].is_known, self._open[one].heard, one))
