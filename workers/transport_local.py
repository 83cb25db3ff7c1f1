"""Frames over Unix sockets, for hosts on one machine: no thread in between, nothing to encrypt, and large frames by reference.

Every host listens in a directory of its own that only its user may enter; and who connects there must begin with a token of
the run. Once all the others have connected, listening ends and the directory is removed. The thread that calls `receive` does
all the reading and writing; it looks for frames a while before it sleeps, because a frame that is taken while looking costs
5 us there and back, one that must wake a process ten times that.

>>> from dgs.order import BEGIN
>>> zero, one = (LocalTransport(i, 2, b"token", bound=1000) for i in range(2))
>>> zero.connect([zero.address, one.address])
>>> zero.send(1, Frame(0, 0, 1, (), low=BEGIN, load=0))
>>> [frame.sender for frame in one.receive(5.0)]
[0]
>>> zero.close(), one.close()
(None, None)
"""

from __future__ import annotations

import errno
import hmac
import math
import os
import select
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from struct import Struct

from dgs.errors import ChannelUnavailableError, CodecError, WorkerLostError
from workers.frames import decoded, encoded
from workers.memory_files import from_memory, in_memory
from workers.messages import Frame
from workers.transport import Credits

HELLO = Struct("<I")
"""The first record of a connection: who connects. The token of the run follows."""

HEADER = Struct("<QQ")
"""How many bytes of the addressee the sender has taken in all, and the size of the frame; 0 if it only acknowledges."""

INLINE_BYTES = 64 * 2**10
"""Up to here a frame is in the record, behind its header. A larger one is in memory that both map (`memory_files`)."""

KERNEL_BYTES = 2**20
"""What the kernel should hold of each edge. What it has no room for waits in the sender."""

SHORT = "/tmp"  # noqa: S108 - a name in it is made by mkdtemp
"""Where directories are made if those for temporary files have too long a path."""

LONGEST_PATH = 100
"""Of a Unix socket: the kernel allows 108 bytes."""

LOOKING_SECONDS = 100e-6
"""How long to look for a frame before sleeping."""

MOST_RECORDS = 64
"""So many records of one sender are taken at a time."""

_ANCILLARY = socket.CMSG_SPACE(4)
_CUT = socket.MSG_TRUNC | socket.MSG_CTRUNC
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS)


class LocalTransport:
    """Host `index` of `hosts` on this machine; all of them have the same `token`, nobody else has.

    What the kernel has no room for waits here, unbounded, so that `send` never waits and nothing is dropped; what bounds it is
    `in_flight`. Raises ChannelUnavailableError if it cannot listen.
    """

    def __init__(self, index: int, hosts: int, token: bytes, *, bound: int) -> None:
        self._index, self._hosts, self._token = index, hosts, token
        self._credits = Credits(hosts=hosts, bound=bound)
        self._outgoing: dict[int, socket.socket] = {}
        self._waiting: dict[int, deque[tuple[bytes, bytes]]] = {}
        self._strangers: dict[int, socket.socket] = {}
        self._incoming: dict[int, tuple[int, socket.socket]] = {}
        self._lost: list[int] = []
        self._poll = select.poll()
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._waker, select.POLLIN)
        self._is_closed = False
        self._directory = Path(_directory(_prefix(token)))
        self.address = str(self._directory / "host")
        self._listener: socket.socket | None = self._listening()

    def _listening(self) -> socket.socket:
        made = _socket()
        try:
            made.bind(self.address)
            made.listen(self._hosts)
        except OSError as error:
            made.close()
            self._listener = None
            self.close()
            raise self._unavailable(f"it cannot listen at {self.address}: {error}") from error
        self._poll.register(made, select.POLLIN)
        return made

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to all other hosts, given the addresses of all. Raises ChannelUnavailableError."""
        for host, address in enumerate(addresses):
            if host == self._index:
                continue
            self._outgoing[host] = outgoing = _socket()
            self._waiting[host] = deque()
            try:
                outgoing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
                outgoing.connect(address)
                outgoing.send(HELLO.pack(self._index) + self._token)
            except OSError as error:
                raise self._unavailable(f"host {host} does not answer at {address}: {error}") from error

    def _unavailable(self, problem: str) -> ChannelUnavailableError:
        return ChannelUnavailableError(host=self._index, problem=problem)

    def send(self, host: int, frame: Frame) -> None:
        """Send a frame to another host."""
        body = encoded(frame)
        self._credits.sent(host, len(body))
        self._post(host, body)

    def _post(self, host: int, body: bytes) -> None:
        header = HEADER.pack(self._credits.acknowledge(host), len(body))
        record = (header, body)
        if self._waiting[host] or not self._wrote(host, record):
            self._waiting[host].append(record)
            self._poll.register(self._outgoing[host], select.POLLOUT)

    def _wrote(self, host: int, record: tuple[bytes, bytes]) -> bool:
        """Write a record unless the kernel has no room for it. Of a host that is gone, `receive` will tell."""
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
        """Write what has been waiting, as far as there is room."""
        for host, records in self._waiting.items():
            if records:
                while records and self._wrote(host, records[0]):
                    records.popleft()
                if not records:
                    self._poll.unregister(self._outgoing[host])

    def receive(self, timeout: float) -> list[Frame]:
        """Return what has arrived; if nothing has, wait up to `timeout` seconds.

        Raises WorkerLostError if nothing has come and the connection to a host is lost.
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
        for host in self._credits.owed():
            self._post(host, b"")
        return frames

    def _attend(self, descriptor: int) -> bool:
        """Do what anything but a frame asks for. Return whether it ends a wait for frames."""
        if descriptor == self._waker:
            os.eventfd_read(self._waker)
            return True
        if descriptor in self._strangers:
            self._identify(self._strangers.pop(descriptor))
        elif self._listener is not None and descriptor == self._listener.fileno():
            self._accept(self._listener)
        else:
            self._write_on()
        return False

    def _look(self) -> list[tuple[int, int]]:
        """Look for a while for something to do."""
        until = time.perf_counter() + LOOKING_SECONDS
        while not (ready := self._poll.poll(0)) and time.perf_counter() < until:
            pass
        return ready

    def _accept(self, listener: socket.socket) -> None:
        stranger, _ = listener.accept()
        stranger.setblocking(False)
        self._strangers[stranger.fileno()] = stranger
        self._poll.register(stranger, select.POLLIN)

    def _identify(self, stranger: socket.socket) -> None:
        """Let in who knows the token and is a host that is not in yet. Nothing else that it sends is looked at."""
        hello = stranger.recv(HELLO.size + len(self._token) + 1)
        knows = hmac.compare_digest(hello[HELLO.size :], self._token)
        host = HELLO.unpack_from(hello)[0] if knows else self._index
        is_in = host in {known for known, _ in self._incoming.values()}
        if host >= self._hosts or host == self._index or is_in:
            self._poll.unregister(stranger)
            stranger.close()
            return
        self._incoming[stranger.fileno()] = (host, stranger)
        if len(self._incoming) == self._hosts - 1:
            self._stop_listening()

    def _read(self, sender: int, incoming: socket.socket) -> list[Frame]:
        """Return the frames of the records that have come from a host."""
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
            self._credits.acknowledged(sender, acknowledged)
            body = from_memory(ancillary, size) if ancillary else memoryview(record)[HEADER.size :]
            if len(body) != size:
                raise CodecError(problem=f"a frame of {len(body)} bytes between hosts should have {size}")
            if size:
                self._credits.received(sender, size)
                frames.append(decoded(body, sender))
        return frames

    def in_flight(self, host: int) -> int:
        """Return how many bytes were sent to a host and are not known to have been taken there."""
        return self._credits.in_flight(host)

    def wake(self) -> None:
        """End the wait of `receive`, from any thread."""
        if not self._is_closed:
            os.eventfd_write(self._waker, 1)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._poll.unregister(self._listener)
            self._listener.close()
            self._listener = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        """Close all sockets; what waits for room is lost."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_listening()
        incoming = [known for _, known in self._incoming.values()]
        for one in (*self._outgoing.values(), *self._strangers.values(), *incoming):
            one.close()
        os.close(self._waker)


def _socket() -> socket.socket:
    """Return a socket that keeps the bounds of what is sent, and never waits."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    return made


def remove_directories(token: bytes) -> None:
    """Remove the directories that hosts with this token made: one that is killed before the others connect cannot."""
    for directory in {tempfile.gettempdir(), SHORT}:
        for left in Path(directory).glob(f"{_prefix(token)}*"):
            shutil.rmtree(left, ignore_errors=True)


def _prefix(token: bytes) -> str:
    return f"dgs-{sha256(token).hexdigest()[:12]}-"


def _directory(prefix: str) -> str:
    """Make a directory that only this user may enter, with a path that is short enough for a socket in it."""
    made = tempfile.mkdtemp(prefix=prefix)
    if len(made) <= LONGEST_PATH:
        return made
    Path(made).rmdir()
    return tempfile.mkdtemp(prefix=prefix, dir=SHORT)
