"""Frames as one-way calls of Ray actors: needs no port of its own, and is slower (see `workers.transport_direct`).

Ray may start one-way calls of one caller out of order, so frames are put back in order by their sequence number. Strangers
are kept out by Ray: only who has the cluster's token can call an actor.

>>> from dgs.order import BEGIN
>>> posted = []
>>> one = RayTransport(1, [lambda *letter: posted.append(letter), None], bound=100)
>>> one.send(0, Frame(1, 0, 1, (), low=BEGIN, load=0))
>>> zero = RayTransport(0, [None, None], bound=100)
>>> zero.deliver(*posted[0])
>>> [frame.sequence for frame in zero.receive(1.0)]
[1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from workers.frames import decoded, encoded
from workers.messages import Frame
from workers.transport import Credits

Letter = tuple[int, int, int, bytes]
"""Sender, bytes it has taken of the addressee's, sequence number (0: only the acknowledgement), frame."""


class RayTransport:
    """Host `index`; `posts[host](*letter)` makes the one-way call that ends in `deliver` there."""

    address = ""

    def __init__(self, index: int, posts: Sequence[Callable[..., Any] | None], *, bound: int) -> None:
        self._index = index
        self._posts = posts
        self._credits = Credits(hosts=len(posts), bound=bound)
        self._arrived: SimpleQueue[Letter | None] = SimpleQueue()
        self._early: dict[tuple[int, int], Frame] = {}
        self._next = [1] * len(posts)

    def connect(self, addresses: Sequence[str]) -> None:
        """Do nothing: Ray knows the way."""

    def send(self, host: int, frame: Frame) -> None:
        """Send a frame to another host."""
        body = encoded(frame)
        self._credits.sent(host, len(body))
        self._post(host, frame.sequence, body)

    def _post(self, host: int, sequence: int, body: bytes) -> None:
        post = self._posts[host]
        if post is not None:
            post(self._index, self._credits.acknowledge(host), sequence, body)

    def deliver(self, sender: int, acknowledged: int, sequence: int, body: bytes) -> None:
        """Take a letter of another host, from any thread."""
        self._arrived.put((sender, acknowledged, sequence, body))

    def receive(self, timeout: float) -> list[Frame]:
        """Return what has arrived; if nothing has, wait up to `timeout` seconds."""
        frames: list[Frame] = []
        wait = timeout > 0
        try:
            while (letter := self._arrived.get(block=wait, timeout=timeout if wait else None)) is not None:
                frames += self._in_order(*letter)
                wait = False
        except Empty:
            pass
        for host in self._credits.owed():
            self._post(host, 0, b"")
        return frames

    def _in_order(self, sender: int, acknowledged: int, sequence: int, body: bytes) -> list[Frame]:
        """Return the frames of a sender whose turn has come."""
        self._credits.acknowledged(sender, acknowledged)
        if not sequence:
            return []
        self._credits.received(sender, len(body))
        self._early[sender, sequence] = decoded(body, sender)
        ready: list[Frame] = []
        while (frame := self._early.pop((sender, self._next[sender]), None)) is not None:
            ready.append(frame)
            self._next[sender] += 1
        return ready

    def in_flight(self, host: int) -> int:
        """Return how many bytes were sent to a host and are not known to have been taken there."""
        return self._credits.in_flight(host)

    def wake(self) -> None:
        """End the wait of `receive`, from any thread."""
        self._arrived.put(None)

    def close(self) -> None:
        """Do nothing: there is no socket."""
