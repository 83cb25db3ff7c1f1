"""The door of a host to the others on its machine: a Unix socket in a directory that only its user may enter, and a token.

Who connects must begin with the token of the run. Once all the others are in, the door is closed and the directory removed.

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
"""The first record of a connection: who connects. The token of the run follows."""

SHORT = "/tmp"  # noqa: S108 - a name in it is made by mkdtemp
"""Where directories are made if those for temporary files have too long a path."""

LONGEST_PATH = 100
"""Of a Unix socket: the kernel allows 108 bytes."""


class Door:
    """The door of host `index` of `hosts`, which listens at `address`. Raises ChannelUnavailableError if it cannot."""

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
        """Return the descriptor to wait for: when it can be read, there is somebody to `accept`."""
        return self._listener.fileno()

    def accept(self) -> socket.socket:
        """Return the connection of somebody who is not `known` yet."""
        stranger, _ = self._listener.accept()
        stranger.setblocking(False)
        return stranger

    def known(self, stranger: socket.socket) -> int | None:
        """Return which of the other hosts this is, None if it does not know the token. Nothing else that it sends is looked at."""
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
    """Return what host `index` says at the door of another one."""
    return HELLO.pack(index) + token


def unix_socket() -> socket.socket:
    """Return a socket that keeps the bounds of what is sent, and never waits."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    return made


def directories_of(token: bytes) -> list[Path]:
    """Return the directories that hosts with this token have made: one that is killed before the others connect cannot remove its own."""
    return [found for top in {tempfile.gettempdir(), SHORT} for found in Path(top).glob(f"{_prefix(token)}*")]


def _prefix(token: bytes) -> str:
    return f"dgs-{sha256(token).hexdigest()[:12]}-"


def _directory(prefix: str) -> str:
    """Make a directory that only this user may enter, with a path that is short enough for a socket in it."""
    made = tempfile.mkdtemp(prefix=prefix)
    if len(made) <= LONGEST_PATH:
        return made
    Path(made).rmdir()
    return tempfile.mkdtemp(prefix=prefix, dir=SHORT)
