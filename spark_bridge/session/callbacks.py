"""Calls from Java back into Python, for `foreachBatch`, from processes of this user only.

Java proves itself to nobody there: PySpark opens a port on the loopback interface without a token, and whoever connects can call the
functions that Java may call. So the other end of each connection is looked up in the system's table of connections, which has its user.

>>> import socket
>>> with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
...     with server.accept()[0] as accepted:
...         is_of_this_user(accepted), is_of_this_user(accepted, user=os.geteuid() + 1) and has_table()
(True, False)
"""

from __future__ import annotations

import io
import os
import socket as sockets
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Connections by their two ends, with the user of the near end. Other systems than Linux have no such table."""

TRIES, PAUSE = 5, 0.01
"""How often a connection is looked for: a table that changes while it is read may lack a row. The pause is in seconds."""

LOCAL, REMOTE, STATE, USER = 1, 2, 3, 7
OPEN = "01"
"""The state of a connection that neither end has closed. One that is closed no longer has its user: it seems to be root's."""


def only_from_this_user(gateway: Any) -> None:
    """Let the server that a gateway may start later take connections of this user only."""
    make = gateway._create_callback_server  # noqa: SLF001 - it has no public name

    def made(parameters: Any) -> Any:
        server = make(parameters)
        connected = server._create_connection  # noqa: SLF001

        def checked(socket: sockets.socket, stream: Any) -> Any:
            if is_of_this_user(socket):
                return connected(socket, stream)
            with suppress(OSError):
                socket.shutdown(sockets.SHUT_RDWR)
            return connected(socket, io.BytesIO())  # it ends at once, and nothing of it is read

        server._create_connection = checked  # noqa: SLF001
        return server

    gateway._create_callback_server = made  # noqa: SLF001


def has_table() -> bool:
    """Whether this system tells the users of connections."""
    return TABLES[0].exists()


def is_of_this_user(socket: sockets.socket, user: int | None = None) -> bool:
    """Whether the process at the other end of a connection on this machine belongs to a user, by default ours; True if the system does not tell."""
    if not has_table():
        return True
    with suppress(OSError):  # it has gone
        ends = _written(*socket.getpeername()[:2]), _written(*socket.getsockname()[:2])
        for _ in range(TRIES):
            if owners := {int(row[USER]) for row in _rows(*ends) if row[STATE] == OPEN}:
                return owners == {os.geteuid() if user is None else user}
            time.sleep(PAUSE)
        return not _rows(*reversed(ends))  # a table that lacks our own end, too, tells nothing
    return False


def _rows(near: str, far: str) -> list[list[str]]:
    """Return the rows of the connections between two ends."""
    return [
        row
        for table in TABLES
        if table.exists()
        for row in map(str.split, table.read_text().splitlines()[1:])
        if row[LOCAL].endswith(near) and row[REMOTE].endswith(far)
    ]


def _written(address: str, port: int) -> str:
    """Return an end of a connection as the tables have it; in that of version 6 more stands before it."""
    (number,) = struct.unpack("=I", sockets.inet_aton(address))
    return f"{number:08X}:{port:04X}"
