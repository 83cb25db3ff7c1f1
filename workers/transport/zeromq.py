"""Frames over ZeroMQ: every host listens on one socket, and has one more to each other host.

CURVE authenticates and encrypts every connection, with a key pair that the driver makes for this run and Ray ships to the
hosts. A process without the key pair cannot connect, whatever it sends. ZeroMQ does the framing, the key exchange, the queues
and the input and output in its own thread. We add a header that acknowledges bytes.

>>> from dgs.model.order import BEGIN
>>> secret = new_secret()
>>> zero, one = (DirectTransport(i, 2, secret, interface="127.0.0.1", bound=1000) for i in (0, 1))
>>> zero.connect([zero.address, one.address])
>>> sizes = zero.send(1, Frame(0, 0, 1, (), lowest_frontier=BEGIN, load=0))
>>> [frame.sender for frame in one.receive(5.0)]
[0]
>>> zero.close(), one.close()
(None, None)
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from struct import Struct

import zmq
from zmq import Event
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from dgs.errors import ChannelUnavailableError, CodecError, WorkerLostError
from dgs.workers.protocol.messages import Frame
from dgs.workers.transport.contract import CountedTransport

HEADER = Struct("<IQ")
"""The sender, and the bytes that it has taken from the receiver so far. The frame follows, except in an acknowledgement."""

SMALL_BYTES = 64 * 2**10
"""A frame up to this size is copied after its header: a message of several parts costs 20 us more each way."""

PART_BYTES = 16 * 2**20
"""Longer frames travel in parts, so that the length of messages on the wire can be bounded."""

LONGEST_MESSAGE = PART_BYTES + 1024

WAKES = "inproc://wakes"
"""The address to which `wake` sends an empty message. `receive` waits on one socket only, which is faster than on several."""

CONNECT_SECONDS = 20.0
HEARTBEAT_MS = 10_000
SILENCE_MS = 60_000
"""A machine whose ZeroMQ thread is silent for this long counts as cut off."""

_FAILED = Event.HANDSHAKE_FAILED_AUTH | Event.HANDSHAKE_FAILED_PROTOCOL | Event.HANDSHAKE_FAILED_NO_DETAIL


@dataclass(frozen=True, slots=True)
class Secret:
    """The key pair of a run. Only its hosts have it."""

    public: bytes
    private: bytes = field(repr=False)

    @property
    def token(self) -> bytes:
        """The proof that a host has this secret, for channels without encryption. The secret cannot be computed from it."""
        return sha256(self.private).digest()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - the signature is ZeroMQ's
        """Return whether a host with this public key may connect."""
        return key == self.public


def new_secret() -> Secret:
    """Make the key pair of a run."""
    return Secret(*zmq.curve_keypair())


class DirectTransport(CountedTransport):
    """The transport of host `index` of `hosts`, which listens on the address `interface`.

    ZeroMQ's queues have no limit, so that `send` never waits and nothing is dropped; `in_flight` bounds them. Raises
    ChannelUnavailableError if it cannot listen there.
    """

    def __init__(self, index: int, hosts: int, secret: Secret, *, interface: str, bound: int) -> None:
        super().__init__(index, hosts, bound=bound)
        self._secret = secret
        self._context = zmq.Context()
        self._gate = ThreadAuthenticator(self._context)
        self._gate.start()
        self._gate.configure_curve_callback(credentials_provider=secret)
        self._outgoing: dict[int, zmq.Socket[bytes]] = {}
        self._monitors: dict[zmq.Socket[bytes], int] = {}
        self._incoming = self._socket(zmq.PULL)
        self._incoming.curve_server = True
        self.address = self._listen(interface)
        self._waker: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        self._waker.connect(WAKES)
        self._waking = threading.Lock()

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        made: zmq.Socket[bytes] = self._context.socket(kind)
        made.set_hwm(0)
        made.linger = 0
        made.maxmsgsize = LONGEST_MESSAGE
        made.heartbeat_ivl, made.heartbeat_timeout = HEARTBEAT_MS, SILENCE_MS
        made.curve_publickey, made.curve_secretkey = self._secret.public, self._secret.private
        return made

    def _listen(self, interface: str) -> str:
        try:
            self._incoming.bind(f"tcp://{interface}:*")
            address = self._incoming.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
            self._incoming.bind(WAKES)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelUnavailableError(
                host=self._index, problem=f"it cannot listen on {interface}: {error}"
            ) from error
        return address

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to all other hosts, given the addresses of all, and wait until they accept.

        Raises ChannelUnavailableError if one does not.
        """
        for host, address in enumerate(addresses):
            if host != self._index:
                self._outgoing[host] = outgoing = self._socket(zmq.PUSH)
                outgoing.curve_serverkey = self._secret.public
                events = Event.HANDSHAKE_SUCCEEDED | Event.DISCONNECTED | _FAILED
                self._monitors[outgoing.get_monitor_socket(events)] = host
                outgoing.connect(address)
        deadline = time.monotonic() + CONNECT_SECONDS
        for monitor, host in self._monitors.items():
            left = math.ceil(max(0.0, deadline - time.monotonic()) * 1000)
            if not monitor.poll(left):
                problem = f"host {host} does not answer at {addresses[host]}"
            elif (event := recv_monitor_message(monitor)["event"]) != Event.HANDSHAKE_SUCCEEDED:
                problem = f"host {host} at {addresses[host]} refuses: {Event(event).name}"
            else:
                continue
            raise ChannelUnavailableError(host=self._index, problem=problem)

    def _post(self, host: int, acknowledged: int, body: bytes) -> None:
        header = HEADER.pack(self._index, acknowledged)
        if len(body) <= SMALL_BYTES:
            self._outgoing[host].send(header + body)
            return
        view = memoryview(body)
        parts = [view[i : i + PART_BYTES] for i in range(0, len(body), PART_BYTES)]
        self._outgoing[host].send_multipart([header, *parts], copy=False)

    def receive(self, timeout: float) -> list[Frame]:
        """Return frames that have arrived. If none has, wait up to `timeout` seconds.

        Raises WorkerLostError if the connection to a host is lost and no frame is left to return.
        """
        frames: list[Frame] = []
        self._incoming.rcvtimeo = math.ceil(timeout * 1000)
        flags = 0 if timeout > 0 else zmq.NOBLOCK
        try:
            while True:
                frames += self._opened(*self._incoming.recv_multipart(flags))
                flags = zmq.NOBLOCK
        except zmq.Again:
            if timeout > 0 and not flags:
                self._look_for_losses()
        self._acknowledge_owed()
        return frames

    def _look_for_losses(self) -> None:
        for monitor, host in self._monitors.items():
            while monitor.poll(0):
                if recv_monitor_message(monitor)["event"] != Event.HANDSHAKE_SUCCEEDED:
                    raise WorkerLostError(host=host, problem=f"host {self._index} lost its connection to it")

    def _opened(self, first: bytes, *rest: bytes) -> list[Frame]:
        """Return the frame of a message, if it has one, after reading its header."""
        if not first:
            return []  # a wake
        if len(first) < HEADER.size:
            raise CodecError(problem=f"a message between hosts has a header of {len(first)} bytes")
        sender, acknowledged = HEADER.unpack_from(first)
        if sender >= self._hosts or sender == self._index:
            raise CodecError(problem=f"a message between hosts says that it comes from host {sender}")
        body = rest[0] if len(rest) == 1 else first[HEADER.size :] + b"".join(rest)
        return self._taken(sender, acknowledged, body)

    def wake(self) -> None:
        """End the wait of `receive`. Any thread may call this."""
        with self._waking:
            self._waker.send(b"")

    def close(self) -> None:
        """Close all sockets. Frames that have not left are lost."""
        if self._context.closed:
            return
        for outgoing in self._outgoing.values():
            outgoing.disable_monitor()
        self._gate.stop()
        self._context.destroy(linger=0)
