"""Truncation of the event logs of a run, and of its heartbeats: what no kept checkpoint of it needs is deleted.

After a commit, a run truncates the logs in its own directory; `dgs log truncate` does it for a run that has ended, and for logs
elsewhere. A run from the beginning, and the sequential program, would need the deleted rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dgs.errors import RunError, UsageError

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.job.schema import StreamConfig
    from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore
    from dgs.workers.runtime.job import Job, Ports
    from dgs.workers.sources.contract import SourceContext


class TruncatedLogError(RunError):
    """The first rows of an event log are needed and were deleted."""

    code = "DGS541"
    template = (
        "stream {stream!r}: rows 0 to {last} of the event log {log} were deleted, and {purpose} needs them"
    )
    fix = (
        "Resume the run without `--verify`, or restore the log from a copy; a run with `checkpoint: {{keep_logs: true}}`, or one "
        "that begins with `--verify`, keeps its logs"
    )


class CutHeartbeatsError(RunError):
    """The first heartbeats of a stream are needed and were cut off."""

    code = "DGS450"
    template = (
        "stream {stream!r}: the first {count} heartbeats in {path} were cut off, and {purpose} needs them"
    )
    fix = (
        "Resume the run without `--verify`; a run with `checkpoint: {{keep_logs: true}}`, or one that begins with `--verify`, "
        "keeps its heartbeats"
    )


def with_truncation(ports: Ports, job: Job, notify: Callable[[str], None]) -> Ports:
    """Return ports whose store also truncates the job's own logs and heartbeats; the same ports if these are kept, or there are none."""
    own = [stream for stream in job.streams if is_own(stream)]
    beating = [stream for stream in job.streams if has_own_heartbeats(stream)]
    place = job.checkpoint_dir
    if job.keeps_logs or not (own or beating) or place is None or job.log_dir is None:
        return ports
    from dgs.workers.checkpoints.truncating_store import TruncatingStore

    def truncate(kept: Sequence[Checkpoint]) -> None:
        _truncated(job.streams, own, job.source_context, kept)
        _cut(job.streams, beating, job.source_context, kept)

    def store(inner: CheckpointStore, job: Job) -> CheckpointStore:
        return TruncatingStore(ports.store(inner, job), place, truncate, notify)

    return replace(ports, store=store)


def is_own(stream: StreamConfig) -> bool:
    """Return whether the log of a stream is in the directory of its run, where no other run reads it."""
    return stream.source.kind in ("socket", "spark") and getattr(stream.source.details, "log", None) is None


def has_own_heartbeats(stream: StreamConfig) -> bool:
    """Return whether the heartbeats of a stream are in the directory of its run."""
    is_live = stream.source.kind in ("log", "custom") or is_own(stream)
    return is_live and stream.heartbeat is not None


def truncate_run(run: KnownRun, names: Sequence[str] = ()) -> dict[str, int]:
    """Truncate the run's own logs, or those of the streams `names`; return how many segments are deleted, by stream.

    Raises UsageError for a stream without a log, and what loading the plan file and program of the run raises.
    """
    from dgs.api.preparing import context_of, load
    from dgs.api.resuming import requested_again
    from dgs.workers.checkpoints.truncating_store import kept_checkpoints
    from dgs.workers.sources.live.logged import LOGGED

    request = requested_again(run, {})
    streams = request.settings.config.streams
    logged = {stream.id: stream for stream in streams if stream.source.kind in LOGGED}
    for name in names:
        if name not in logged:
            known = ", ".join(logged) or "none"
            raise UsageError(message=f"the run has no stream {name!r} with an event log; with one: {known}")
    chosen = [stream for stream in logged.values() if stream.id in names or (not names and is_own(stream))]
    context = context_of(request, load(request), run.directory.path.absolute() / "logs")
    kept = list(kept_checkpoints(run.directory.checkpoints).values())
    deleted = _truncated(streams, chosen, context, kept)
    beating = {stream.id: stream for stream in streams if has_own_heartbeats(stream)} if not names else {}
    _cut(streams, [*({one.id: one for one in chosen} | beating).values()], context, kept)
    return deleted


def _truncated(
    streams: Iterable[StreamConfig],
    chosen: Iterable[StreamConfig],
    context: SourceContext,
    kept: Sequence[Checkpoint],
) -> dict[str, int]:
    from dgs.workers.sources.log_truncation import truncated

    ranks = {stream.id: rank for rank, stream in enumerate(streams)}
    return {
        stream.id: truncated(
            stream, context, [one.positions.base(stream.id) for one in kept], rank=ranks[stream.id]
        )
        for stream in chosen
    }


def _cut(
    streams: Iterable[StreamConfig],
    chosen: Iterable[StreamConfig],
    context: SourceContext,
    kept: Sequence[Checkpoint],
) -> None:
    from dgs.workers.sources.log_truncation import cut_heartbeats

    ranks = {stream.id: rank for rank, stream in enumerate(streams)}
    for stream in chosen:
        cut_heartbeats(stream, context, kept, rank=ranks[stream.id])


def check_whole_logs(
    streams: Iterable[StreamConfig], context: SourceContext, *, verify: bool, resumes: bool
) -> None:
    """Raise an error if rows or heartbeats of live streams were deleted, and the run needs them: all but a resumed run that is not verified.

    TruncatedLogError for rows of a log, CutHeartbeatsError for heartbeats.
    """
    from dgs.workers.sources.live.logged import heartbeats_path
    from dgs.workers.sources.log_truncation import directory_of, first_row, heartbeats_cut

    purpose = "`--verify`" if verify else "a run from the beginning"
    for stream in streams if verify or not resumes else ():
        if (first := first_row(stream, context)) > 0:
            log = directory_of(stream, context)
            raise TruncatedLogError(stream=stream.id, last=first - 1, log=log, purpose=purpose)
        if (count := heartbeats_cut(stream, context)) > 0:
            path = heartbeats_path(stream, context)
            raise CutHeartbeatsError(stream=stream.id, count=count, path=path, purpose=purpose)
