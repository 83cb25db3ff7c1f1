"""Edges of a host: numbered frames to and from the other hosts (R1), the latest news of each, and the sources that it reads (R11).

>>> from dgs.workers.protocol.messages import Frontiers
>>> zero, one = (Edges(i, hosts=2, generation=0, buffer_bytes=100) for i in range(2))
>>> zero.put(1, "w1", Frontiers(()))
>>> ((host, frame),) = zero.frames(Peer(OrderKey(5, 0, 0), load=20))
>>> host, one.accept(frame), one.accept(frame)                  # the second one is a repeat
(1, True, False)
>>> one.peers[0].load, list(one.frames(Peer()))                 # host 1 has no message and no news
(20, [])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dgs.errors import FrameGapError
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol.messages import Frame, Message


@dataclass(frozen=True, slots=True)
class Peer:
    """The news of a host in every frame: the lowest frontier of its sources, and the bytes that its workers hold."""

    lowest_frontier: OrderKey = BEGIN
    load: int = 0


@dataclass(frozen=True, slots=True)
class Period:
    """The times `origin + n * every` for all integers n, in units of ts.

    >>> Period(10, 3).not_above(22), Period(10, 3).not_below(22)
    (13, 23)
    """

    every: int
    origin: int = 0

    def not_above(self, ts: int) -> int:
        """Return the greatest multiple that is at most `ts`."""
        return ts - (ts - self.origin) % self.every

    def not_below(self, ts: int) -> int:
        """Return the least multiple that is at least `ts`."""
        return ts + (self.origin - ts) % self.every


@dataclass(frozen=True, slots=True)
class TickReader:
    """The host that reads the ticks of a run, and their period: it needs the frontiers of all hosts. Without a period only the last tick comes."""

    host: int
    period: Period | None


class Edge:
    """The frames to one other host and from it. R1: each counts from 1 in every generation."""

    def __init__(self, index: int, other: int, generation: int) -> None:
        self.index, self.other, self.generation = index, other, generation
        self.outgoing: list[tuple[str, Message]] = []
        self.sent = 0
        self.received = 0
        self.peer = Peer()  # the last news of the other host
        self.told = Peer()  # the last news of this host that was sent to it

    def accept(self, frame: Frame) -> bool:
        """Note a frame's number and its sender's news; return whether its messages are new.

        A repeat or a frame of an older generation brings nothing new. Raises FrameGapError if a frame before it is missing.
        """
        if frame.generation != self.generation or frame.sequence <= self.received:
            return False
        expected = self.received + 1
        if frame.sequence != expected:
            raise FrameGapError(host=self.index, sender=self.other, expected=expected, got=frame.sequence)
        self.received = expected
        self.peer = Peer(frame.lowest_frontier, frame.load)
        return True

    def next_frame(self, me: Peer) -> Frame:
        """Remove all waiting messages and return them as the next frame. `me`: the news of this host."""
        messages, self.outgoing = tuple(self.outgoing), []
        self.told = me
        self.sent += 1
        return Frame(self.index, self.generation, self.sent, messages, me.lowest_frontier, me.load)

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        if not self.sent and self.told != Peer():
            yield f"host {self.other} was told {self.told} without a frame"
        if not self.received and self.peer != Peer():
            yield f"{self.peer} came from host {self.other} without a frame"


class Edges:
    """The edges of host `index` to the others; there are `hosts` in all. A host that holds more than `buffer_bytes` is full."""

    def __init__(
        self, index: int, *, hosts: int, generation: int, buffer_bytes: int, ticks: TickReader | None = None
    ) -> None:
        self._buffer_bytes = buffer_bytes
        self._ticks = ticks
        self._to = {other: Edge(index, other, generation) for other in range(hosts) if other != index}

    def put(self, host: int, target: str, message: Message) -> None:
        """Queue a message for a worker behind earlier messages for its host (R2)."""
        self._to[host].outgoing.append((target, message))

    def accept(self, frame: Frame) -> bool:
        """Take a frame; return whether its messages are new: see `Edge.accept`."""
        return self._to[frame.sender].accept(frame)

    @property
    def peers(self) -> Mapping[int, Peer]:
        """The latest news of each other host."""
        return {other: edge.peer for other, edge in self._to.items()}

    def frames(self, me: Peer) -> Iterator[tuple[int, Frame]]:
        """Yield the frames to send to other hosts, with messages or only with news that they need of this host."""
        for other, edge in self._to.items():
            if edge.outgoing or self._is_news(edge.told, me) or self._brings_a_tick(other, edge.told, me):
                yield other, edge.next_frame(me)

    def _is_news(self, told: Peer, me: Peer) -> bool:
        """Return whether a host needs our frontier and load although there is no message for it.

        Frontiers matter only while some host is full (R11), which all hosts know. The root needs the end of all sources.
        """
        if told.lowest_frontier < END <= me.lowest_frontier:
            return True
        if self._is_full(told) != self._is_full(me):
            return True
        is_one_full = self._is_full(me) or any(self._is_full(edge.peer) for edge in self._to.values())
        return is_one_full and told.lowest_frontier != me.lowest_frontier

    def _brings_a_tick(self, other: int, told: Peer, me: Peer) -> bool:
        """Return whether a host reads ticks, and our frontier has passed a multiple of their period."""
        if self._ticks is None or self._ticks.period is None or other != self._ticks.host:
            return False
        period = self._ticks.period
        before, now = (period.not_above(peer.lowest_frontier.ts) for peer in (told, me))
        return before < now

    def broken_invariants(self, home: Mapping[str, int]) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        for other, edge in self._to.items():
            yield from edge.broken_invariants()
            yield from (
                f"a message for {target} is on the way to host {other}"
                for target, _ in edge.outgoing
                if home[target] != other
            )

    def _is_full(self, peer: Peer) -> bool:
        return peer.load > self._buffer_bytes


def always(source: str) -> bool:  # noqa: ARG001 - asked of every source
    """Return True: every source is ready."""
    return True


class ReadGate:
    """The sources of a host with their frontiers. `feeds`: for each source, the other hosts that its events go to.

    The source furthest behind is read next, unless a buffer is full (R11).

    >>> gate = ReadGate({"a": (), "b": ()}, buffer_bytes=100)
    >>> gate.advance("a", OrderKey(5, 0, 0))
    True
    >>> gate.next_source(0, {})
    'b'
    >>> gate.next_source(101, {1: Peer(OrderKey(7, 2, 0))}), gate.next_source(101, {1: Peer()})      # full
    ('b', 'b')
    >>> gate.advance("b", OrderKey(9, 1, 0)), gate.next_source(101, {1: Peer(OrderKey(2, 2, 0))})   # another is behind
    (True, None)
    """

    def __init__(self, feeds: Mapping[str, tuple[int, ...]], buffer_bytes: int) -> None:
        self._feeds = feeds
        self._buffer_bytes = buffer_bytes
        self._frontiers = dict.fromkeys(feeds, BEGIN)
        self.starved_reads = 0
        self._validated: dict[str, OrderKey] = {}

    def advance(self, source: str, frontier: OrderKey) -> bool:
        """Note the frontier of a source; return whether it has advanced."""
        if frontier <= self._frontiers[source]:
            return False
        self._frontiers[source] = frontier
        return True

    @property
    def frontiers(self) -> Mapping[str, OrderKey]:
        """The frontier of each source."""
        return self._frontiers

    @property
    def lowest_frontier(self) -> OrderKey:
        """The lowest frontier of all sources here, END when all have ended."""
        return min(self._frontiers.values(), default=END)

    def next_source(
        self, load: int, peers: Mapping[int, Peer], is_ready: Callable[[str], bool] = always
    ) -> str | None:
        """Return the source to read next: the ready one that is furthest behind. None if no source may be read now.

        A live source without data does not keep others from being read. R11: while this host (`load`) or a host that gets its
        events holds more than `buffer_bytes`, a source waits, unless it is the globally lowest one: events that other hosts
        hold may be waiting for it. If the lowest source is not ready, no source is read.
        """
        frontiers = self._frontiers
        in_turn = sorted(frontiers, key=frontiers.__getitem__)
        source = next((name for name in in_turn if frontiers[name] < END and is_ready(name)), None)
        if source is None:
            return None
        loads = (load, *(peers[host].load for host in self._feeds[source]))
        if max(loads) <= self._buffer_bytes:
            return source
        others = (self.lowest_frontier, *(peer.lowest_frontier for peer in peers.values()))
        if min(others) >= frontiers[source]:
            self.starved_reads += 1
            return source
        return None

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold. No frontier may go back since the last call."""
        for source, frontier in self._frontiers.items():
            if frontier < self._validated.get(source, BEGIN):
                yield f"source {source!r} went back from {self._validated[source]} to {frontier}"
        self._validated = dict(self._frontiers)
