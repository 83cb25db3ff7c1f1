"""A TCP port that takes lines: one thread for all connections, which stops reading while the reader of the log is far behind.

Lines are written to the log when there are many or the first has waited for a moment. A line that is too long is refused, and
its connection closed, because what follows it may be anything.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dgs.errors import DgsError, InternalError, ResourceError
from dgs.workers.sources.live.line_intake import Answer, LineIntake

LONGEST_LINE = 1 << 20
MOST_CONNECTIONS = 256
MOST_UNSENT = 1 << 20
ROWS_PER_SEGMENT = 8192
LINGER = 0.01
"""Seconds that a row may wait for others to share its segment with: an fsync costs about as much."""
TICK = 0.02
RECEIVE_BYTES = 1 << 16


@dataclass(eq=False)
class Connection:
    """One client: what has come of its next line, and what it has not taken yet of its answers."""

    socket: socket.socket
    number: int
    lines: int = 0
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    has_hung_up: bool = False


class LineServer:
    """Serves a port from when it is made until `close`. `is_behind` says that no more lines are to be taken for now.

    `failure` is what ended it, if something did. `address` is where it listens.
    """

    def __init__(
        self, stream: str, host: str, port: int, intake: LineIntake, is_behind: Callable[[], bool]
    ) -> None:
        self.failure: DgsError | None = None
        self._intake = intake
        self._is_behind = is_behind
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self._since: float | None = None
        self._stop = threading.Event()
        self._listener = _listening(stream, host, port)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name=f"dgs-socket-{stream}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what has been taken, and close the port and all connections."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._stop.is_set() and not self._is_over():
                self._step()
            self._answer(self._intake.flush())
            self._send_rest()
        except DgsError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it: the reader raises it
            self.failure = InternalError(problem=f"the socket source failed: {type(error).__name__}: {error}")
        finally:
            for connection in list(self._connections.values()):
                self._drop(connection)
            self._selector.close()
            self._listener.close()

    def _is_over(self) -> bool:
        return self._intake.has_ended or self._intake.failure is not None

    def _step(self) -> None:
        is_behind = self._is_behind()
        ready = self._selector.select(LINGER if self._since is not None else TICK)
        for key, events in ready:
            if key.fileobj is self._listener:
                self._accept()
                continue
            connection: Connection = key.data
            if events & selectors.EVENT_WRITE:
                self._send(connection)
            if events & selectors.EVENT_READ and not is_behind and not self._is_over():
                self._receive(connection)
        if is_behind:
            self._stop.wait(LINGER)  # sockets that may not be read are ready all the time
        now = time.monotonic()
        if self._since is None and len(self._intake):
            self._since = now
        if self._since is not None and (now - self._since >= LINGER or len(self._intake) >= ROWS_PER_SEGMENT):
            self._answer(self._intake.flush())
            self._since = None

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # the client has gone already
            return
        accepted.setblocking(False)
        if len(self._connections) >= MOST_CONNECTIONS:
            with contextlib.suppress(OSError):
                accepted.send(_text({"error": f"there are {MOST_CONNECTIONS} connections already"}))
            accepted.close()
            return
        self._accepted += 1
        connection = Connection(accepted, self._accepted)
        self._connections[connection.number] = connection
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _receive(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.received += data
        *lines, rest = connection.received.split(b"\n")
        if not data and rest.strip():
            lines, rest = [*lines, rest], bytearray()  # the last line needs no line end
        connection.received = rest
        for line in lines:
            self._take(connection, bytes(line))
        if len(rest) > LONGEST_LINE:
            self._take(connection, bytes(rest))
        if not data:
            self._hang_up(connection)

    def _take(self, connection: Connection, line: bytes) -> None:
        connection.lines += 1
        if len(line) > LONGEST_LINE:
            problem = f"the line has more than {LONGEST_LINE} bytes"
            self._answer([self._intake.refuse(connection.number, connection.lines, problem)])
            self._hang_up(connection)
        elif not connection.has_hung_up:
            self._answer(self._intake.take(connection.number, connection.lines, line))

    def _answer(self, answers: Iterable[Answer]) -> None:
        for number, answer in answers:
            connection = self._connections.get(number)
            if connection is not None:
                connection.unsent += _text(answer)
                self._send(connection)

    def _send(self, connection: Connection) -> None:
        try:
            sent = connection.socket.send(connection.unsent) if connection.unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        del connection.unsent[:sent]
        if len(connection.unsent) > MOST_UNSENT or (connection.has_hung_up and not connection.unsent):
            self._drop(connection)
            return
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        wanted = 0 if connection.has_hung_up else selectors.EVENT_READ
        wanted |= selectors.EVENT_WRITE if connection.unsent else 0
        self._selector.modify(connection.socket, wanted or selectors.EVENT_READ, connection)

    def _hang_up(self, connection: Connection) -> None:
        """Close a connection once what is still to be said has been said: answers to its lines may follow."""
        if connection.has_hung_up or connection.number not in self._connections:
            return
        self._answer(self._intake.flush())
        connection.has_hung_up = True
        if connection.number in self._connections:
            self._send(connection)

    def _send_rest(self) -> None:
        for connection in list(self._connections.values()):
            with contextlib.suppress(OSError):
                connection.socket.settimeout(1.0)
                connection.socket.sendall(connection.unsent)

    def _drop(self, connection: Connection) -> None:
        if self._connections.pop(connection.number, None) is None:
            return
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _text(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _listening(stream: str, host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        message = f"stream {stream!r} cannot listen on {host}:{port}: {error.strerror or error}"
        raise ResourceError(message=message) from error
    return listener
