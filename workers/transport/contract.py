"""The contract of a transport between the hosts of a run: frames as bytes, first in first out per sender, and counted.

There are three implementations: `unix_sockets` (all hosts on one machine), `zeromq` (the network) and `ray_calls` (Ray actors, on
request). None drops a frame or blocks a sender. The bytes in flight are bounded because hosts stop reading their sources.
`CountedTransport` is the common part: it encodes and decodes frames, and both ends count the bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from dgs.workers.protocol.messages import Frame
from dgs.workers.transport.frames import decoded, encoded_with_sizes


class Transport(Protocol):
    """Carries frames between the hosts of a run, numbered from 0.

    Laws: `receive` returns the frames of one sender in the order of sending, each once, and never bytes of any other process. `send`
    neither blocks nor drops. All methods but `wake` and `close` belong to one thread.
    """

    address: str

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to all hosts, given the addresses of all. Raises ChannelUnavailableError."""

    def send(self, host: int, frame: Frame) -> list[int]:
        """Send a frame to another host. Return its bytes, by message: see `dgs.workers.transport.frames.encoded_with_sizes`."""
        ...

    def receive(self, timeout: float) -> list[Frame]:
        """Return frames that have arrived. If none has, wait for a frame, a `wake`, an acknowledgement, or `timeout` seconds.

        Raises WorkerLostError if the connection to a host is lost.
        """

    def in_flight(self, host: int) -> int:
        """Return how many bytes sent to a host it has not acknowledged yet."""

    def wake(self) -> None:
        """End the current or the next wait of `receive`. Any thread may call this."""

    def close(self) -> None:
        """Close sockets; nothing may be sent or received after that. Any thread may call this while no other method runs."""


class Credits:
    """Counts of the bytes on the edges of one host, to and from each other host.

    `bound`: the bytes that a sender may have in flight before it stops reading. A receiver owes an acknowledgement once it has
    taken a quarter of that since the last one. So a sender at its bound always gets one, without a message for each frame.
    Acknowledgements are cumulative and travel with frames.

    >>> ours, theirs = Credits(hosts=2, bound=1000), Credits(hosts=2, bound=1000)
    >>> ours.sent(1, 700)
    >>> theirs.received(0, 700)
    >>> ours.in_flight(1), theirs.owed()            # over a quarter of the bound: host 0 needs an acknowledgement now
    (700, [0])
    >>> ours.acknowledged(1, theirs.acknowledge(0))
    >>> ours.in_flight(1), theirs.owed()
    (0, [])
    """

    def __init__(self, *, hosts: int, bound: int) -> None:
        self._owing = bound // 4
        self._sent = [0] * hosts
        self._acknowledged = [0] * hosts
        self._received = [0] * hosts
        self._told = [0] * hosts

    def sent(self, host: int, size: int) -> None:
        """Note that a frame of `size` bytes went to a host."""
        self._sent[host] += size

    def received(self, host: int, size: int) -> None:
        """Note that a frame of `size` bytes from a host was taken."""
        self._received[host] += size

    def acknowledged(self, host: int, total: int) -> None:
        """Note that a host has taken `total` of our bytes so far. Acknowledgements may come late and out of order."""
        self._acknowledged[host] = max(self._acknowledged[host], total)

    def acknowledge(self, host: int) -> int:
        """Return how many bytes from a host were taken so far. The caller must send it the number."""
        self._told[host] = self._received[host]
        return self._received[host]

    def owed(self) -> list[int]:
        """Return the hosts that need an acknowledgement now, with or without a frame."""
        counts = enumerate(zip(self._received, self._told, strict=True))
        return [host for host, (received, told) in counts if received - told > self._owing]

    def in_flight(self, host: int) -> int:
        """Return how many bytes sent to a host it has not acknowledged yet."""
        return self._sent[host] - self._acknowledged[host]


class CountedTransport(ABC):
    """The common part of a `Transport`, of host `index` of `hosts`, which counts bytes. `bound`: see `Credits`.

    Each transport has its own `_post`, which carries bytes to another host. It gives bytes that arrive to `_taken`, and calls
    `_acknowledge_owed` after each look for new ones.

    >>> from dgs.model.order import BEGIN
    >>> from dgs.workers.transport.frames import encoded
    >>> class Echo(CountedTransport):
    ...     def _post(self, host, acknowledged, body):
    ...         print(f"to {host}: {acknowledged} taken, {len(body)} bytes")
    >>> zero, one = Echo(0, 2, bound=100), Echo(1, 2, bound=100)
    >>> zero.send(1, Frame(0, 0, 1, (), lowest_frontier=BEGIN, load=0))
    to 1: 0 taken, 18 bytes
    [18]
    >>> [frame.sequence for frame in one._taken(0, 0, encoded(Frame(0, 0, 1, (), lowest_frontier=BEGIN, load=0)))]
    [1]
    >>> zero.in_flight(1), one._acknowledge_owed()         # not worth a message yet
    (18, None)
    """

    def __init__(self, index: int, hosts: int, *, bound: int) -> None:
        self._index, self._hosts = index, hosts
        self._credits = Credits(hosts=hosts, bound=bound)

    @abstractmethod
    def _post(self, host: int, acknowledged: int, body: bytes) -> None:
        """Carry a frame, or no bytes, to another host, with the number of bytes taken from that host so far."""

    def send(self, host: int, frame: Frame) -> list[int]:
        """Send a frame to another host; return its bytes by message. Raises CodecError naming a type that the codec does not carry."""
        body, sizes = encoded_with_sizes(frame)
        self._credits.sent(host, len(body))
        self._post(host, self._credits.acknowledge(host), body)
        return sizes

    def in_flight(self, host: int) -> int:
        """Return how many bytes were sent to a host and are not known to have been taken there."""
        return self._credits.in_flight(host)

    def _taken(self, sender: int, acknowledged: int, body: bytes | memoryview) -> list[Frame]:
        """Return the frame from a host, if there is one. Raises CodecError if the bytes are not a frame of that host."""
        self._credits.acknowledged(sender, acknowledged)
        if not len(body):
            return []
        self._credits.received(sender, len(body))
        return [decoded(body, sender)]

    def _acknowledge_owed(self) -> None:
        """Send acknowledgements to the hosts that need one now."""
        for host in self._credits.owed():
            self._post(host, self._credits.acknowledge(host), b"")
