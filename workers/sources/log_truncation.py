"""Truncation of the event log of a stream: what no checkpoint of its run needs is deleted.

The log is opened as a resumed run opens it, and nothing before the segment is deleted at which that run would begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dgs.job.schema import StreamConfig
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.event_log.segments import all_names
from dgs.workers.event_log.truncation import truncate
from dgs.workers.sources.context import SourceContext
from dgs.workers.sources.live.logged import LOGGED, log_path
from dgs.workers.sources.opening import log_start


def truncated(config: StreamConfig, context: SourceContext, bases: Iterable[OrderKey], *, rank: int) -> int:
    """Delete the segments of a stream that no run needs which resumes from one of the keys `bases`; return how many.

    `rank`: the position of the stream in plan.yaml. Raises OutputUnwritableError, CorruptFileError, UnreadableLogError.
    """
    lowest = min(bases, default=BEGIN)
    directory = directory_of(config, context)
    if not BEGIN < lowest < END or next(all_names(directory), None) is None:
        return 0
    return truncate(directory, below=log_start(config, context, lowest, rank=rank) + 1)


def first_row(config: StreamConfig, context: SourceContext) -> int:
    """Return the first row that the log of a stream still has; 0 for a log that has none yet, or a stream without a log."""
    if config.source.kind not in LOGGED:
        return 0
    first = next(all_names(directory_of(config, context)), None)
    return 0 if first is None else first.first


def directory_of(config: StreamConfig, context: SourceContext) -> Path:
    """Return the directory of a stream in its log."""
    return log_path(config, base_dir=context.base_dir, log_dir=context.log_dir) / config.id
