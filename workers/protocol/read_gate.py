"""The read gate: it chooses the local source to read next, the one furthest behind, unless a buffer is full (R11).

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

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol.edges import Peer


def always(source: str) -> bool:  # noqa: ARG001 - asked of every source
    """Return True: every source is ready."""
    return True


class ReadGate:
    """The sources of a host with their frontiers. `feeds`: for each source, the other hosts that its events go to."""

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
