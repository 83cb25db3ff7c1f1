"""Frames over Unix sockets, for hosts on one machine: no thread in between, nothing to encrypt, and large frames by reference.

`unix_door` decides who may connect. The thread that calls `receive` does all the reading and writing. It looks for frames for a
while before it sleeps: a round trip costs 5 us while both sides look, and ten times that if a process must be woken.

>>> from dgs.model.order import BEGIN
>>> zero, one = (LocalTransport(i, 2, b"token", bound=1000) for i in range(2))
>>> zero.connect([zero.address, one.address])
>>> sizes = zero.send(1, Frame(0, 0, 1, (), lowest_frontier=BEGIN, load=0))
>>> [frame.sender for frame in one.receive(5.0)]
[0]
>>> zero.close(), one.close()
(None, None)
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from struct import Struct

from dgs.errors import ChannelUnavailableError, CodecError, WorkerLostError
from dgs.workers.protocol.messages import Frame
from dgs.workers.transport.contract import CountedTransport
from dgs.workers.transport.shared_memory import from_memory, in_memory
from dgs.workers.transport.unix_door import Door, hello, unix_socket

HEADER = Struct("<QQ")
"""The bytes that the sender has taken from the receiver so far, and the size of the frame (0: an acknowledgement only)."""

INLINE_BYTES = 64 * 2**10
"""A frame up to this size is in the record, after its header. A larger one is in memory that both map (`shared_memory`)."""

KERNEL_BYTES = 2**20
"""The bytes that the kernel should buffer for each edge. Further frames wait in the sender."""

LOOKING_SECONDS = 100e-6
"""The time to look for a frame before sleeping."""

MOST_RECORDS = 64
"""At most this many records of one sender are taken at a time."""

_ANCILLARY = socket.CMSG_SPACE(4)
_CUT = socket.MSG_TRUNC | socket.MSG_CTRUNC
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS)


class LocalTransport(CountedTransport):
    """The transport of host `index` of `hosts` on this machine. Only these hosts have the `token`.

    Frames for which the kernel has no room wait here, so that `send` never waits and nothing is dropped. This queue is bounded
    by `in_flight` only. Raises ChannelUnavailableError if it cannot listen.
    """

    def __init__(self, index: int, hosts: int, token: bytes, *, bound: int) -> None:
        super().__init__(index, hosts, bound=bound)
        self._token = token
        self._door: Door | None = Door(index, hosts, token)
        self.address = self._door.address
        self._outgoing: dict[int, socket.socket] = {}
        self._waiting: dict[int, deque[tuple[bytes, bytes]]] = {}
        self._strangers: dict[int, socket.socket] = {}
        self._incoming: dict[int, tuple[int, socket.socket]] = {}
        self._lost: list[int] = []
        self._poll = select.poll()
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._waker, select.POLLIN)
        self._poll.register(self._door, select.POLLIN)
        self._is_closed = False

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to all other hosts, given the addresses of all. Raises ChannelUnavailableError."""
        for host, address in enumerate(addresses):
            if host == self._index:
                continue
            self._outgoing[host] = outgoing = unix_socket()
            self._waiting[host] = deque()
            try:
                outgoing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
                outgoing.connect(address)
                outgoing.send(hello(self._index, self._token))
            except OSError as error:
                problem = f"host {host} does not answer at {address}: {error}"
                raise ChannelUnavailableError(host=self._index, problem=problem) from error

    def _post(self, host: int, acknowledged: int, body: bytes) -> None:
        record = (HEADER.pack(acknowledged, len(body)), body)
        if self._waiting[host] or not self._wrote(host, record):
            self._waiting[host].append(record)
            self._poll.register(self._outgoing[host], select.POLLOUT)

    def _wrote(self, host: int, record: tuple[bytes, bytes]) -> bool:
        """Write a record if the kernel has room for it; return whether it had. A lost host is reported by `receive`."""
        header, body = record
        outgoing = self._outgoing[host]
        try:
            if len(body) <= INLINE_BYTES:
                outgoing.send(header + body)
            else:
                with in_memory(body) as descriptor:
                    socket.send_fds(outgoing, [header], [descriptor])
        except OSError as error:
            if error.errno in _NO_ROOM:
                return False
            self._lost.append(host)
        return True

    def _write_on(self) -> None:
        """Write waiting records, as far as there is room."""
        for host, records in self._waiting.items():
            if records:
                while records and self._wrote(host, records[0]):
                    records.popleft()
                if not records:
                    self._poll.unregister(self._outgoing[host])

    def receive(self, timeout: float) -> list[Frame]:
        """Return frames that have arrived. If none has, wait up to `timeout` seconds.

        Raises WorkerLostError if the connection to a host is lost and no frame is left to return.
        """
        frames: list[Frame] = []
        is_settled = False
        while not is_settled:
            ready = self._poll.poll(0)
            if not ready and timeout > 0:
                ready = self._look() or self._poll.poll(math.ceil(timeout * 1000))
            is_settled = not ready
            for descriptor, _ in ready:
                taken = self._incoming.get(descriptor)
                if taken is not None:
                    frames += self._read(*taken)
                    is_settled = True
                else:
                    is_settled |= self._attend(descriptor)
        if self._lost and not frames:
            problem = f"host {self._index} lost its connection to it"
            raise WorkerLostError(host=self._lost[0], problem=problem)
        self._acknowledge_owed()
        return frames

    def _attend(self, descriptor: int) -> bool:
        """Handle a descriptor that brings no frame. Return whether it ends the wait for frames."""
        if descriptor == self._waker:
            os.eventfd_read(self._waker)
            return True
        if descriptor in self._strangers:
            self._let_in(self._strangers.pop(descriptor))
        elif self._door is not None and descriptor == self._door.fileno():
            stranger = self._door.accept()
            self._strangers[stranger.fileno()] = stranger
            self._poll.register(stranger, select.POLLIN)
        else:
            self._write_on()
        return False

    def _look(self) -> list[tuple[int, int]]:
        """Return descriptors that become ready within a short time, without sleeping."""
        until = time.perf_counter() + LOOKING_SECONDS
        while not (ready := self._poll.poll(0)) and time.perf_counter() < until:
            pass
        return ready

    def _let_in(self, stranger: socket.socket) -> None:
        """Let in a host that is not in yet. Once all are in, close the door."""
        host = None if self._door is None else self._door.known(stranger)
        if host is None or host in {known for known, _ in self._incoming.values()}:
            self._poll.unregister(stranger)
            stranger.close()
            return
        self._incoming[stranger.fileno()] = (host, stranger)
        if len(self._incoming) == self._hosts - 1:
            self._close_door()

    def _read(self, sender: int, incoming: socket.socket) -> list[Frame]:
        frames: list[Frame] = []
        for _ in range(MOST_RECORDS):
            try:
                record, ancillary, flags, _ = incoming.recvmsg(
                    HEADER.size + INLINE_BYTES, _ANCILLARY, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except ConnectionError:
                record, ancillary, flags = b"", [], 0
            if not record:
                self._lost.append(sender)
                self._poll.unregister(incoming)
                break
            if len(record) < HEADER.size or flags & _CUT:
                raise CodecError(problem=f"a record of {len(record)} bytes between hosts is cut off")
            acknowledged, size = HEADER.unpack_from(record)
            body = from_memory(ancillary, size) if ancillary else memoryview(record)[HEADER.size :]
            if len(body) != size:
                raise CodecError(problem=f"a frame of {len(body)} bytes between hosts should have {size}")
            frames += self._taken(sender, acknowledged, body)
        return frames

    def wake(self) -> None:
        """End the wait of `receive`. Any thread may call this."""
        if not self._is_closed:
            os.eventfd_write(self._waker, 1)

    def _close_door(self) -> None:
        if self._door is not None:
            self._poll.unregister(self._door)
            self._door.close()
            self._door = None

    def close(self) -> None:
        """Close all sockets. Frames that still wait for room are lost."""
        if self._is_closed:
            return
        self._is_closed = True
        self._close_door()
        incoming = [known for _, known in self._incoming.values()]
        for one in (*self._outgoing.values(), *self._strangers.values(), *incoming):
            one.close()
        os.close(self._waker)
