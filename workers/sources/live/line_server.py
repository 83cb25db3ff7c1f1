"""A TCP port that takes lines: one thread for all connections. It stops reading while the reader of the log is far behind.

Lines are written to the log when there are many or the first has waited for a moment. A line that is too long is refused, and
its connection is closed, because nothing after it can be trusted to be a line. A client that dies in the middle of a line loses
that line and no other.

If there is a token, the first line of a connection must be `{"kind": "token", "token": ...}`; nothing else is read before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dgs.errors import DgsError, InternalError, ResourceError
from dgs.job.schema import SocketSource
from dgs.workers.sources.live.connections import Connections
from dgs.workers.sources.live.line_intake import Answer, LineIntake
from dgs.workers.sources.rows import SECOND

LONGEST_LINE = 1 << 20
MOST_CONNECTIONS = 256
MOST_UNSENT = 1 << 20
ROWS_PER_SEGMENT = 8192
LINGER = 0.01
"""Seconds that a row may wait for others to share its segment. An fsync takes about as long."""
GOODBYE = 1.0
"""Seconds for clients to take the last answers when the port closes."""


class LineServer:
    """Serves a port from its creation until `close`. While `is_behind` returns True, no lines are taken.

    `failure`: the error that ended it, if any. `address`: host and port. Raises ResourceError if it cannot listen.
    """

    def __init__(
        self, stream: str, config: SocketSource, intake: LineIntake, is_behind: Callable[[], bool]
    ) -> None:
        self.failure: DgsError | None = None
        self._intake = intake
        self._is_behind = is_behind
        self._token = None if config.token is None else config.token.encode()
        self._connections = Connections(
            most=MOST_CONNECTIONS,
            per_peer=config.per_peer,
            idle=config.idle / SECOND,
            needs_token=self._token is not None,
            clock=time.monotonic,
        )
        self._clients: dict[int, asyncio.StreamWriter] = {}
        self._accepted = 0
        self._stop = threading.Event()
        self._listener = _listening(stream, config.host, config.port)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        intake.where = "{}:{}".format(*self.address)
        self._thread = threading.Thread(target=self._run, name=f"dgs-socket-{stream}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the lines taken so far, and close the port and all connections."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._noting_failure(), self._listener:
            asyncio.run(self._serve())

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Keep an error, which would be lost in this thread, for the reader of the log to raise."""
        try:
            yield
        except DgsError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 - see above
            self.failure = InternalError(problem=f"the socket source failed: {type(error).__name__}: {error}")

    def _is_over(self) -> bool:
        is_ended = self._intake.has_ended or self._intake.failure is not None
        return is_ended or self.failure is not None or self._stop.is_set()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(_Lines(limit=LONGEST_LINE), self._converse),
            sock=self._listener,
        )
        try:
            while not self._is_over():
                await asyncio.sleep(LINGER)
                self._answer(self._intake.flush())
                if self._is_behind():
                    self._connections.hear_all()
                self._let_go(self._connections.overdue())
        finally:
            server.close()
            await self._say_goodbye()

    async def _converse(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Take the lines of one client until it hangs up or sends a line that is too long."""
        self._accepted += 1
        number = self._accepted
        client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._let_go(self._connections.admit(number, str(client.get_extra_info("peername")[0])))
        self._clients[number] = client
        with self._noting_failure(), contextlib.suppress(OSError):
            await self._take_lines(number, reader)
        client.close()
        with contextlib.suppress(OSError):
            await client.wait_closed()
        self._clients.pop(number, None)
        self._connections.leave(number)

    def _let_go(self, closed: Iterable[tuple[int, str]]) -> None:
        """Close connections, and say why."""
        for number, reason in closed:
            self._answer([(number, {"error": f"this connection is closed: {reason}"})])
            if (client := self._clients.pop(number, None)) is not None:
                client.close()

    async def _take_lines(self, number: int, reader: asyncio.StreamReader) -> None:
        count, is_at_end, is_known = 0, False, self._token is None
        while not is_at_end and not self._is_over():
            while self._is_behind():  # noqa: ASYNC110 - what it waits for happens in another thread
                await asyncio.sleep(LINGER)
            try:
                line = await reader.readuntil()
            except asyncio.IncompleteReadError as error:
                line, is_at_end = error.partial, True  # the last line needs no newline
            except asyncio.LimitOverrunError:
                if is_known:
                    problem = f"the line has more than {LONGEST_LINE} bytes"
                    self._answer([self._intake.refuse(number, count + 1, problem)])
                break
            if not is_known:
                is_known = self._shows_token(number, line)
                if not is_known:
                    break
                continue
            self._connections.hear(number)
            count += 1
            self._answer(self._intake.take(number, count, line, is_whole=not is_at_end))
            if len(self._intake) >= ROWS_PER_SEGMENT:
                self._answer(self._intake.flush())
        self._answer(self._intake.flush())

    def _shows_token(self, number: int, line: bytes) -> bool:
        """Return whether the first line of a connection has the token. The comparison takes the same time for any wrong token."""
        try:
            said = json.loads(line)
            found = str(said["token"]) if said["kind"] == "token" else ""
        except (ValueError, TypeError, KeyError, RecursionError):
            found = ""
        if not hmac.compare_digest(found.encode(errors="replace"), self._token or b""):
            self._answer(
                [
                    (
                        number,
                        {
                            "error": 'the first line must be {"kind": "token", "token": ...} with the right token'
                        },
                    )
                ]
            )
            return False
        self._connections.accept(number)
        self._answer([(number, {"token": "accepted"})])
        return True

    def _answer(self, answers: Iterable[Answer]) -> None:
        for number, answer in answers:
            client = self._clients.get(number)
            if client is not None and not client.is_closing():
                client.write(_text(answer))
                if client.transport.get_write_buffer_size() > MOST_UNSENT:
                    client.transport.abort()

    async def _say_goodbye(self) -> None:
        """Close all connections. Clients that do not take the last answers in time lose them."""
        clients = list(self._clients.values())
        for client in clients:
            client.close()
        closed = asyncio.gather(*(client.wait_closed() for client in clients), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closed, GOODBYE)
        for client in clients:
            client.transport.abort()


class _Lines(asyncio.StreamReader):
    """The lines of one client. A client that dies has ended: its earlier lines are taken."""

    def set_exception(self, exc: Exception) -> None:  # noqa: ARG002 - as in the base
        """Treat an error of the connection as its end."""
        self.feed_eof()


def _text(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _listening(stream: str, host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:  # a host name that is invalid in IDNA is a UnicodeError
        problem = getattr(error, "strerror", None) or error
        message = f"stream {stream!r} cannot listen on {host}:{port}: {problem}"
        raise ResourceError(message=message) from error
