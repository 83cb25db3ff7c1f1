"""Frames as one-way calls of Ray actors: they need no further port, but are slower than `dgs.workers.transport.zeromq`.

Ray may start one-way calls of one caller out of order, so frames are put back in order by their sequence number. Ray keeps
strangers out: a caller of an actor needs the cluster's token.

>>> from dgs.model.order import BEGIN
>>> posted = []
>>> one = RayTransport(1, [lambda *letter: posted.append(letter), None], bound=100)
>>> sizes = one.send(0, Frame(1, 0, 1, (), lowest_frontier=BEGIN, load=0))
>>> zero = RayTransport(0, [None, None], bound=100)
>>> zero.deliver(*posted[0])
>>> [frame.sequence for frame in zero.receive(1.0)]
[1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from dgs.workers.protocol.messages import Frame
from dgs.workers.transport.contract import CountedTransport

Letter = tuple[int, int, bytes]
"""The sender, the bytes that it has taken from the receiver so far, and the frame (empty: an acknowledgement only)."""


class RayTransport(CountedTransport):
    """The transport of host `index`. `posts[host](*letter)` makes the one-way call of `deliver` at another host."""

    address = ""

    def __init__(self, index: int, posts: Sequence[Callable[..., Any] | None], *, bound: int) -> None:
        super().__init__(index, len(posts), bound=bound)
        self._posts = posts
        self._arrived: SimpleQueue[Letter | None] = SimpleQueue()
        self._early: dict[tuple[int, int], Frame] = {}
        self._next = [1] * len(posts)

    def connect(self, addresses: Sequence[str]) -> None:
        """Do nothing: Ray has the connections."""

    def _post(self, host: int, acknowledged: int, body: bytes) -> None:
        post = self._posts[host]
        if post is not None:
            post(self._index, acknowledged, body)

    def deliver(self, sender: int, acknowledged: int, body: bytes) -> None:
        """Take a letter of another host. Any thread may call this."""
        self._arrived.put((sender, acknowledged, body))

    def receive(self, timeout: float) -> list[Frame]:
        """Return frames that have arrived. If none has, wait up to `timeout` seconds."""
        frames: list[Frame] = []
        wait = timeout > 0
        try:
            while (letter := self._arrived.get(block=wait, timeout=timeout if wait else None)) is not None:
                frames += self._in_order(letter[0], self._taken(*letter))
                wait = False
        except Empty:
            pass
        self._acknowledge_owed()
        return frames

    def _in_order(self, sender: int, taken: Sequence[Frame]) -> list[Frame]:
        """Return the frames of a sender that come next in order."""
        self._early |= {(sender, frame.sequence): frame for frame in taken}
        ready: list[Frame] = []
        while (frame := self._early.pop((sender, self._next[sender]), None)) is not None:
            ready.append(frame)
            self._next[sender] += 1
        return ready

    def wake(self) -> None:
        """End the wait of `receive`. Any thread may call this."""
        self._arrived.put(None)

    def close(self) -> None:
        """Do nothing: there is no socket."""
