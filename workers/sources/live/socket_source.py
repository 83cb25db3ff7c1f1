"""A TCP port as a live source: lines go into an event log first, and are read from there.

So a socket can be replayed like a file: after a crash the log is continued, and it has all rows that were acknowledged as
durable. The host of the stream's first split has the port. Other hosts read the log, so all must reach its directory. It locks the stream
of the log, since two ports that write to it would take each other's rows for their own, sent again.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dgs.errors import CheckpointBusyError
from dgs.job.schema import SocketSource
from dgs.model.order import OrderKey
from dgs.workers.event_log.segments import directory_of
from dgs.workers.event_log.writer import LogWriter
from dgs.workers.sources.live.line_intake import LineIntake
from dgs.workers.sources.live.line_server import LineServer
from dgs.workers.sources.live.log import LogArrivals
from dgs.workers.sources.rows import Arrivals, Live
from dgs.workers.sources.shaping.mapping import Mapping
from dgs.workers.storage.disk import make_directory, refusing, replace_with
from dgs.workers.storage.locks import BusyError, FileLock

MOST_BEHIND = 1 << 18
"""The port takes no more rows while the log has more unread rows than this."""

ADDRESS = "listening"
"""The file in the directory of the stream with the address, as host:port. It is needed if the port is 0."""

LOCK = "port.lock"
"""The file in the directory of the stream that the process with the port has locked."""

LOCKED_SECONDS = 2.0
"""The time for the port of a lost host to be gone."""


class SocketArrivals(Live):
    """Reads the log that a port writes. `drops_malformed`: bad lines are left out instead of ending the run."""

    def __init__(
        self,
        config: SocketSource,
        path: Path,
        reading: LogArrivals,
        mapping: Mapping,
        *,
        drops_malformed: bool = False,
    ) -> None:
        stream = mapping.stream
        self._reading = reading
        with ExitStack() as opened:
            self._lock = _locked(path, stream)
            opened.callback(self._lock.release)
            self._open(config, path, mapping, drops_malformed=drops_malformed)
            opened.pop_all()

    def _open(self, config: SocketSource, path: Path, mapping: Mapping, *, drops_malformed: bool) -> None:
        """Open the log for writing, and the port unless the stream has ended."""
        stream = mapping.stream
        self._writer = LogWriter(path, stream, f"socket:{stream}")
        self._intake = LineIntake(
            mapping,
            self._writer,
            heartbeats=config.heartbeats,
            drops_malformed=drops_malformed,
            may_end=config.token is not None or _is_local(config.host),
        )
        self._server: LineServer | None = None
        if not self._writer.is_closed:
            self._server = LineServer(stream, config, self._intake, self._is_behind)
            host, port = self._server.address
            replace_with(path / stream / ADDRESS, f"{host}:{port}\n".encode())

    @property
    def refused(self) -> int:
        """The number of bad lines."""
        return self._intake.refused

    def begin_at(self, base: OrderKey) -> None:
        """Pass the key on to the reader of the log."""
        self._reading.begin_at(base)

    def wait(self) -> float:
        """Return the seconds until the next look at the log, 0 if there are rows now."""
        return self._reading.wait()

    def __next__(self) -> Arrivals:
        """Return the next rows of the log, if there are any. After the last row, raises the error that ended the port."""
        arrivals = next(self._reading)
        if not len(arrivals) and not arrivals.beats.before and self._reading.row >= self._writer.rows:
            self._raise_failure()
        return arrivals

    def close(self) -> None:
        """Close the port. The lines taken so far are in the log."""
        if self._server is not None:
            self._server.close()
        self._reading.close()
        self._lock.release()

    def describe(self) -> dict[str, Any]:
        """Return the description of the log."""
        return {**self._reading.describe(), "kind": "socket"}

    def _is_behind(self) -> bool:
        return self._writer.rows - self._reading.row > MOST_BEHIND

    def _raise_failure(self) -> None:
        failure = self._intake.failure or (self._server.failure if self._server is not None else None)
        if failure is not None:
            raise failure


def _locked(path: Path, stream: str) -> FileLock:
    """Return the lock of a stream of a log. Raises CheckpointBusyError, which names the process that has it, and OutputUnwritableError."""
    directory, began = directory_of(path, stream), time.monotonic()
    make_directory(directory)
    while True:
        with refusing(directory):
            try:
                return FileLock(directory / LOCK)
            except BusyError as busy:  # its attempt takes a moment
                if time.monotonic() - began > LOCKED_SECONDS:
                    raise CheckpointBusyError(path=directory, holder=busy.holder) from busy


def _is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host in ("localhost", "::1") or host.startswith("127.")
