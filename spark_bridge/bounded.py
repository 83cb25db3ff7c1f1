"""What a batch run may read: streams that end. Those that Spark reads are waited for until their logs are closed.

>>> from dgs.config import StreamConfig
>>> live = StreamConfig(id="s", tags=["a"], source={"socket": {"port": 0}})
>>> refuse_live([live])
Traceback (most recent call last):
dgs.errors.UsageError: stream 's' is live, and `runtime: {kind: spark}` is for data that ends: run it with `--runtime local` or `--runtime ray`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dgs.config import SparkSource, StreamConfig
from dgs.errors import UsageError
from workers.event_log import failure, summary
from workers.job import Job
from workers.sources.logged import log_path

LOOK_EVERY = 0.1
"""Seconds between two looks at a log."""


def refuse_live(streams: Iterable[StreamConfig]) -> None:
    """Raise UsageError for a stream that does not end by itself."""
    for config in streams:
        details = config.source.details
        endless = isinstance(details, SparkSource) and details.trigger != "available_now"
        if endless or config.source.kind == "socket" or getattr(details, "pace", None) is not None:
            problem = f"stream {config.id!r} is live, and `runtime: {{kind: spark}}` is for data that ends"
            raise UsageError(message=f"{problem}: run it with `--runtime local` or `--runtime ray`")


def wait_for_queries(job: Job, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until everything that Spark reads for a job is in the logs. Raises what ended a query."""
    for config in job.streams:
        if config.source.kind == "spark":
            path = log_path(config, base_dir=job.base_dir, log_dir=job.log_dir)
            while not _is_complete(path, config.id):
                pause(LOOK_EVERY)


def _is_complete(path: Path, stream: str) -> bool:
    error = failure.found(path / stream)
    if error is not None:
        raise error
    return any(found.is_closed for found in summary.streams(path) if found.stream == stream)
