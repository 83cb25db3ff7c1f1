"""A TCP port as a live source: lines go into an event log first, and are read from there.

So a socket can be replayed like a file: after a crash the log is continued, and rows whose durability was acknowledged are in
it. One host has the port (that of the stream's first split); others read the log, which all must reach.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dgs.job.schema import SocketSource
from dgs.model.order import OrderKey
from dgs.workers.event_log.writer import LogWriter
from dgs.workers.sources.live.line_intake import LineIntake
from dgs.workers.sources.live.line_server import LineServer
from dgs.workers.sources.live.log import LogArrivals
from dgs.workers.sources.live.waiting import Live
from dgs.workers.sources.rows import Arrivals
from dgs.workers.sources.shaping.mapping import Mapping
from dgs.workers.storage.whole_files import replace_with

MOST_BEHIND = 1 << 18
"""Rows that may be in the log and not read yet before the port takes no more."""

ADDRESS = "listening"
"""The file in the directory of the stream that says where it listens, as host:port: needed where the port is 0."""


class SocketArrivals(Live):
    """Reads the log that a port writes. `drops_malformed`: lines that are no rows are left out instead of ending the run."""

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
        self._writer = LogWriter(path, stream, f"socket:{stream}")
        self._intake = LineIntake(
            mapping,
            self._writer,
            heartbeats=config.heartbeats,
            drops_malformed=drops_malformed,
            where=f"{config.host}:{config.port}",
        )
        self._server: LineServer | None = None
        if not self._writer.is_closed:
            self._server = LineServer(stream, config.host, config.port, self._intake, self._is_behind)
            host, port = self._server.address
            replace_with(path / stream / ADDRESS, f"{host}:{port}\n".encode())

    @property
    def refused(self) -> int:
        """The number of lines that were no rows."""
        return self._intake.refused

    def begin_at(self, base: OrderKey) -> None:
        """Pass it on."""
        self._reading.begin_at(base)

    def wait(self) -> float:
        """Return 0 if there are rows in the log, or it is time to look for some; else the seconds until then."""
        return self._reading.wait()

    def __next__(self) -> Arrivals:
        """Return the next rows of the log, none if there are none yet. Raises what ended the port when all before it is read."""
        arrivals = next(self._reading)
        if not len(arrivals) and not arrivals.beats.before and self._reading.row >= self._writer.rows:
            self._raise_failure()
        return arrivals

    def close(self) -> None:
        """Close the port; what has been taken is in the log."""
        if self._server is not None:
            self._server.close()
        self._reading.close()

    def describe(self) -> dict[str, Any]:
        """Return what the log is."""
        return {**self._reading.describe(), "kind": "socket"}

    def _is_behind(self) -> bool:
        return self._writer.rows - self._reading.row > MOST_BEHIND

    def _raise_failure(self) -> None:
        failure = self._intake.failure or (self._server.failure if self._server is not None else None)
        if failure is not None:
            raise failure
