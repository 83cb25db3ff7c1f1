"""Truncation of the event log of a stream, and of its heartbeats: what no checkpoint of its run needs is deleted.

The log is opened as a resumed run would open it, and only segments before the one where that run would begin are deleted. Of the heartbeats
before its first row, only the greatest is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dgs.job.schema import SortWithin, StreamConfig
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.event_log.segments import all_names
from dgs.workers.event_log.truncation import truncate
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.custom_source import Bookmarks
from dgs.workers.sources.live.logged import LOGGED, heartbeats_path, log_path
from dgs.workers.sources.opening import log_start
from dgs.workers.sources.pipeline import within
from dgs.workers.storage.record_file import RecordReader, cut


def truncated(config: StreamConfig, context: SourceContext, bases: Iterable[OrderKey], *, rank: int) -> int:
    """Delete the segments of a stream that no run needs if it resumes from one of the keys `bases`; return how many.

    `rank`: the position of the stream in plan.yaml. Raises OutputUnwritableError, CorruptFileError, UnreadableLogError.
    """
    row = _log_start(config, context, bases, rank)
    return truncate(directory_of(config, context), below=row + 1) if row > 0 else 0


def cut_heartbeats(
    config: StreamConfig, context: SourceContext, kept: Sequence[Checkpoint], *, rank: int
) -> None:
    """Cut off the heartbeats of a stream that no run needs if it resumes from one of the checkpoints `kept`.

    `rank`: the position of the stream in plan.yaml. Raises OutputUnwritableError, CorruptFileError.
    """
    path = heartbeats_path(config, context)
    if config.heartbeat is None or path is None or not path.exists():
        return
    if config.source.kind == "custom":
        row = min((_custom_start(config, one, rank) for one in kept), default=0)
    else:
        row = _log_start(config, context, (one.positions.base(config.id) for one in kept), rank)
    if row > 0:
        cut(path, config.id, below=row)


def heartbeats_cut(config: StreamConfig, context: SourceContext) -> int:
    """Return how many heartbeats of a stream were cut off. Raises CorruptFileError."""
    path = heartbeats_path(config, context)
    if config.heartbeat is None or path is None:
        return 0
    reader = RecordReader(path, config.id)
    reader.poll(until=0)
    return reader.count


def _log_start(config: StreamConfig, context: SourceContext, bases: Iterable[OrderKey], rank: int) -> int:
    """Return the first row of a log that a run reads if it resumes from the lowest of these keys; 0 if that cannot be known."""
    lowest = min(bases, default=BEGIN)
    directory = directory_of(config, context)
    if not BEGIN < lowest < END or next(all_names(directory), None) is None:
        return 0
    return log_start(config, context, lowest, rank=rank)


def _custom_start(config: StreamConfig, checkpoint: Checkpoint, rank: int) -> int:
    """Return the first row that a user's source brings to a run that resumes from a checkpoint."""
    about: Mapping[str, Any] = checkpoint.sources.get(config.id, {})
    base = checkpoint.positions.base(config.id)
    is_sorted = isinstance(config.on_disorder, SortWithin)
    return Bookmarks(about.get("bookmarks", ())).before(within(base, rank), in_order=not is_sorted).row


def first_row(config: StreamConfig, context: SourceContext) -> int:
    """Return the first row that the log of a stream still has; 0 for a log that has none yet, or a stream without a log."""
    if config.source.kind not in LOGGED:
        return 0
    first = next(all_names(directory_of(config, context)), None)
    return 0 if first is None else first.first


def directory_of(config: StreamConfig, context: SourceContext) -> Path:
    """Return the directory of a stream in its log."""
    return log_path(config, base_dir=context.base_dir, log_dir=context.log_dir) / config.id
