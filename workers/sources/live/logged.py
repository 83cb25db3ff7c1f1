"""Sources that are read from an event log: a log itself, the log of a port, or the log of a Spark query.

>>> config = StreamConfig(id="s", tags={"kind": "n"}, source={"log": {"path": "logs"}})
>>> log_path(config, base_dir=Path("job"))
PosixPath('job/logs')
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import MissingInputError
from dgs.job.schema import SocketSource, StreamConfig
from dgs.workers.event_log.reader import LogReader
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.description import Origin
from dgs.workers.sources.live.decisions import HEARTBEATS
from dgs.workers.sources.live.log import LogArrivals
from dgs.workers.sources.shaping.mapping import Mapping
from dgs.workers.storage.record_file import RecordReader

if TYPE_CHECKING:
    from dgs.workers.sources.live.socket_source import SocketArrivals

LOGGED = ("log", "socket", "spark")
"""Kinds of sources that are read from an event log."""


def logged(
    config: StreamConfig,
    mapping: Mapping,
    context: SourceContext,
    batch_rows: int,
    *,
    follow: bool,
    listen: bool = False,
) -> tuple[LogArrivals | SocketArrivals, Origin]:
    """Return the events of an event log, and their origin. `listen`: open the port of a socket source, which writes the log.

    `follow`: read on until the log is closed; else only up to its current end. Raises MissingInputError, ResourceError.
    """
    details: Any = config.source.details
    path = log_path(config, base_dir=context.base_dir, log_dir=context.log_dir)
    if config.source.kind == "log" and not path.is_dir():
        raise MissingInputError(stream=config.id, path=path)
    is_lenient = config.on_disorder == "drop"
    reading = LogArrivals(
        LogReader(path, config.id),
        mapping,
        batch_rows=batch_rows,
        follow=follow,
        restores_floor=is_lenient,
        heartbeats=lambda: _heartbeats(config, context),
    )
    skip_to = reading.skip_to if config.on_disorder == "error" else reading.allow_deleted
    if not listen or not isinstance(details, SocketSource):
        return reading, Origin(reading.describe, skip_to)
    from dgs.workers.sources.live.socket_source import SocketArrivals

    port = SocketArrivals(details, path, reading, mapping, drops_malformed=is_lenient)
    return port, Origin(port.describe, skip_to, lambda: port.refused)


def heartbeats_path(config: StreamConfig, context: SourceContext) -> Path | None:
    """Return the file for the heartbeats that the run decides on: beside an event log of ours, else in the run directory.

    None if the run has no directory.
    """
    if config.source.kind in ("socket", "spark"):
        log = log_path(config, base_dir=context.base_dir, log_dir=context.log_dir)
        return log / config.id / HEARTBEATS
    return None if context.log_dir is None else context.log_dir / config.id / HEARTBEATS


def _heartbeats(config: StreamConfig, context: SourceContext) -> list[tuple[int, int]]:
    """Return the heartbeats that have been decided so far, each with the row it comes before."""
    path = heartbeats_path(config, context)
    return [] if path is None else RecordReader(path, config.id).poll()


def log_path(config: StreamConfig, *, base_dir: Path, log_dir: Path | None = None) -> Path:
    """Return the directory of the event log of a `log`, `socket` or `spark` source.

    `log_dir`: the default directory for sockets and Spark queries.
    """
    details: Any = config.source.details
    if config.source.kind == "log":
        return base_dir / str(details.path)
    return base_dir / details.log if details.log is not None else log_dir or base_dir / ".dgs" / "logs"
