"""What all transports have in common: frames become bytes and are frames again, and both ends count the bytes on the way.

How bytes get to another host is each transport's own: `_post`. What has come it hands to `_taken`, and after each look at what has
come it calls `_acknowledge_owed`.

>>> from dgs.order import BEGIN
>>> class Echo(CountedTransport):
...     def _post(self, host, acknowledged, body):
...         print(f"to {host}: {acknowledged} taken, {len(body)} bytes")
>>> zero, one = Echo(0, 2, bound=100), Echo(1, 2, bound=100)
>>> zero.send(1, Frame(0, 0, 1, (), low=BEGIN, load=0))
to 1: 0 taken, 18 bytes
>>> [frame.sequence for frame in one._taken(0, 0, encoded(Frame(0, 0, 1, (), low=BEGIN, load=0)))]
[1]
>>> zero.in_flight(1), one._acknowledge_owed()         # not worth a message yet
(18, None)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from workers.frames import decoded, encoded
from workers.messages import Frame
from workers.transport import Credits


class CountedTransport(ABC):
    """The part of a `Transport` of host `index` of `hosts` that counts. `bound`: bytes on the way to one host, see `Credits`."""

    def __init__(self, index: int, hosts: int, *, bound: int) -> None:
        self._index, self._hosts = index, hosts
        self._credits = Credits(hosts=hosts, bound=bound)

    @abstractmethod
    def _post(self, host: int, acknowledged: int, body: bytes) -> None:
        """Carry a frame to another host, with how many bytes of that host were taken here so far; empty: only this."""

    def send(self, host: int, frame: Frame) -> None:
        """Send a frame to another host. Raises CodecError naming a type that the codec does not carry."""
        body = encoded(frame)
        self._credits.sent(host, len(body))
        self._post(host, self._credits.acknowledge(host), body)

    def in_flight(self, host: int) -> int:
        """Return how many bytes were sent to a host and are not known to have been taken there."""
        return self._credits.in_flight(host)

    def _taken(self, sender: int, acknowledged: int, body: bytes | memoryview) -> list[Frame]:
        """Return the frame that came from a host, if one did. Raises CodecError for bytes that are none of its frames."""
        self._credits.acknowledged(sender, acknowledged)
        if not len(body):
            return []
        self._credits.received(sender, len(body))
        return [decoded(body, sender)]

    def _acknowledge_owed(self) -> None:
        """Tell the hosts that must hear at once how much of theirs was taken."""
        for host in self._credits.owed():
            self._post(host, self._credits.acknowledge(host), b"")
