"""The network of a simulated generation: frames between hosts, in order on every edge, and their faults.

Virtual time is the number of steps. A clogged edge is free again at a given step, or when nothing else can move.

>>> network = Network()
>>> network.send((0, 1), b"one")
>>> network.clog((0, 1), until=9)
>>> network.open_edges(now=3), network.open_edges(now=9), network.next_opening(now=3)
([], [(0, 1)], 9)
>>> network.take((0, 1)), list(network.left_behind())
(b'one', [])
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence

Edge = tuple[int, int]

LONGEST_CLOG = 200
"""The most steps for which an edge is clogged."""


class Network:
    """Frames on their way."""

    def __init__(self) -> None:
        self._edges: dict[Edge, deque[bytes]] = {}
        self._clogged: dict[Edge, int] = {}

    def send(self, edge: Edge, frame: bytes) -> None:
        """Append a frame to those of its edge."""
        self._edges.setdefault(edge, deque()).append(frame)

    def take(self, edge: Edge) -> bytes:
        """Remove and return the next frame of an edge."""
        return self._edges[edge].popleft()

    def peek(self, edge: Edge) -> bytes:
        """Return the next frame of an edge without removing it."""
        return self._edges[edge][0]

    def overtake(self, edge: Edge) -> None:
        """Put the second frame of an edge first, if there are two."""
        frames = self._edges[edge]
        if len(frames) > 1:
            frames[0], frames[1] = frames[1], frames[0]

    def repeat_late(self, edge: Edge) -> None:
        """Send the next frame of an edge again, after those that are on their way."""
        self._edges[edge].append(self._edges[edge][0])

    def clog(self, edge: Edge, until: int) -> None:
        """Hold the frames of an edge until a step."""
        self._clogged[edge] = max(until, self._clogged.get(edge, 0))

    def swizzle(self, rnd: random.Random, now: int) -> None:
        """Clog some edges, which become free in any order."""
        for edge in list(self._edges):
            if rnd.random() < 0.5:  # noqa: PLR2004 - half of them
                self.clog(edge, now + rnd.randint(1, LONGEST_CLOG))

    def free(self) -> None:
        """Unclog everything."""
        self._clogged.clear()

    def busy_edges(self) -> list[Edge]:
        """Return the edges with frames on their way."""
        return [edge for edge, frames in self._edges.items() if frames]

    def open_edges(self, now: int) -> list[Edge]:
        """Return the edges from which a frame can come now."""
        clogged = self._clogged
        return [edge for edge, frames in self._edges.items() if frames and clogged.get(edge, 0) <= now]

    def next_opening(self, now: int) -> int | None:
        """Return the next step at which an edge with frames is free again, None if none is clogged."""
        untils = [self._clogged.get(edge, 0) for edge in self.busy_edges()]
        return min((until for until in untils if until > now), default=None)

    def left_behind(self) -> Iterator[tuple[Edge, bytes]]:
        """Yield every frame that is on its way."""
        for edge, frames in self._edges.items():
            yield from ((edge, frame) for frame in frames)


def some_of(rnd: random.Random, frames: Sequence[tuple[Edge, bytes]], most: int) -> list[tuple[Edge, bytes]]:
    """Return at most `most` of the frames, in their order."""
    chosen = sorted(rnd.sample(range(len(frames)), min(most, len(frames))))
    return [frames[i] for i in chosen]
