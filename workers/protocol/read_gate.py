"""The read gate: the local source that is furthest behind is read next, unless too much is held (R11).

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
    """Every source is ready."""
    return True


class ReadGate:
    """The sources of a host, and how far each has come. `feeds`: by source, the other hosts that its events go to."""

    def __init__(self, feeds: Mapping[str, tuple[int, ...]], buffer_bytes: int) -> None:
        self._feeds = feeds
        self._buffer_bytes = buffer_bytes
        self._frontiers = dict.fromkeys(feeds, BEGIN)
        self.starved_reads = 0
        self._validated: dict[str, OrderKey] = {}

    def advance(self, source: str, frontier: OrderKey) -> bool:
        """Note how far a source has come; return whether that is further than before."""
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
        """Return the source to read from: of those that are ready the one that is furthest behind; None for none now.

        A live source that has nothing does not keep others from being read. R11: over `buffer_bytes`, here (`load`) or where
        its events go, a source has to wait, unless it is the globally lowest one: what the others hold may be waiting for it.
        If that one is not ready, nobody reads.
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
        """Yield what is not as it is between steps. Frontiers are compared with those of the last time."""
        for source, frontier in self._frontiers.items():
            if frontier < self._validated.get(source, BEGIN):
                yield f"source {source!r} went back from {self._validated[source]} to {frontier}"
        self._validated = dict(self._frontiers)
