"""The door of a host for the others on its machine: a Unix socket in a directory that only its user may enter, and a token.

Every connection must begin with the token of the run. Once all other hosts are in, the door is closed and the directory removed.

>>> door = Door(0, 2, b"token")
>>> one = unix_socket()
>>> one.connect(door.address)
>>> one.send(hello(1, b"token"))
9
>>> stranger = door.accept()
>>> door.known(stranger)
1
>>> door.close(), one.close(), stranger.close(), Path(door.address).parent.exists()
(None, None, None, False)
"""

from __future__ import annotations

import hmac
import shutil
import socket
import tempfile
from hashlib import sha256
from pathlib import Path
from struct import Struct

from dgs.errors import ChannelUnavailableError

HELLO = Struct("<I")
"""The first record of a connection begins with the number of the host. The token of the run follows."""

SHORT = "/tmp"  # noqa: S108 - a name in it is made by mkdtemp
"""The place for directories if the usual one for temporary files has too long a path."""

LONGEST_PATH = 100
"""The longest path for a directory with a socket: the kernel allows 108 bytes for the socket's own path."""


class Door:
    """The door of host `index` of `hosts`, listening at `address`. Raises ChannelUnavailableError if it cannot listen."""

    def __init__(self, index: int, hosts: int, token: bytes) -> None:
        self._index, self._hosts, self._token = index, hosts, token
        self._directory = Path(_directory(_prefix(token)))
        self.address = str(self._directory / "host")
        self._listener = unix_socket()
        try:
            self._listener.bind(self.address)
            self._listener.listen(hosts)
        except OSError as error:
            self.close()
            problem = f"it cannot listen at {self.address}: {error}"
            raise ChannelUnavailableError(host=index, problem=problem) from error

    def fileno(self) -> int:
        """Return the descriptor to wait for. It becomes readable when there is a connection to `accept`."""
        return self._listener.fileno()

    def accept(self) -> socket.socket:
        """Return a new connection, whose host is not `known` yet."""
        stranger, _ = self._listener.accept()
        stranger.setblocking(False)
        return stranger

    def known(self, stranger: socket.socket) -> int | None:
        """Return the number of the host that connects, None if it does not have the token. Only the first record is read."""
        said = stranger.recv(HELLO.size + len(self._token) + 1)
        if not hmac.compare_digest(said[HELLO.size :], self._token):
            return None
        host: int = HELLO.unpack_from(said)[0]
        return host if host < self._hosts and host != self._index else None

    def close(self) -> None:
        """Stop listening, and remove the directory."""
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def hello(index: int, token: bytes) -> bytes:
    """Return the first record that host `index` sends to another host."""
    return HELLO.pack(index) + token


def unix_socket() -> socket.socket:
    """Return a socket that keeps records apart, and never waits."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    return made


def directories_of(token: bytes) -> list[Path]:
    """Return the directories of hosts with this token. A host that is killed before all have connected leaves its own behind."""
    return [found for top in {tempfile.gettempdir(), SHORT} for found in Path(top).glob(f"{_prefix(token)}*")]


def _prefix(token: bytes) -> str:
    return f"dgs-{sha256(token).hexdigest()[:12]}-"


def _directory(prefix: str) -> str:
    """Make a directory that only this user may enter, with a path short enough for a socket in it."""
    made = tempfile.mkdtemp(prefix=prefix)
    if len(made) <= LONGEST_PATH:
        return made
    Path(made).rmdir()
    return tempfile.mkdtemp(prefix=prefix, dir=SHORT)
