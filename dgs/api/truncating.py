"""Truncation of the event logs of a run: what no kept checkpoint of it needs is deleted.

A run truncates the logs that are its own, those in its directory, after its commits; `dgs log truncate` does it for a run that has
ended, or for logs elsewhere. What a truncated log lacks, a run from the beginning and the sequential program would need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dgs.errors import RunError, UsageError

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.job.schema import StreamConfig
    from dgs.workers.recovery.checkpoint import CheckpointStore
    from dgs.workers.recovery.positions import Positions
    from dgs.workers.runtime.job import Job, Ports
    from dgs.workers.sources.context import SourceContext


class TruncatedLogError(RunError):
    """The first rows of an event log were deleted, and something needs them."""

    code = "DGS541"
    template = (
        "stream {stream!r}: rows 0 to {last} of the event log {log} were deleted, and {purpose} needs them"
    )
    fix = (
        "Resume the run without `--verify`, or restore the log from a copy; a run with `checkpoint: {{keep_logs: true}}`, or one "
        "that begins with `--verify`, keeps its logs"
    )


def with_truncation(ports: Ports, job: Job, notify: Callable[[str], None]) -> Ports:
    """Return ports whose store of checkpoints also truncates the job's own logs; the same ports if there are none, or they are kept."""
    own = [stream for stream in job.streams if is_own(stream)]
    place = job.checkpoint_dir
    if job.keeps_logs or not own or place is None or job.log_dir is None:
        return ports
    from dgs.workers.checkpoints.truncating_store import TruncatingStore

    def truncate(kept: Sequence[Positions]) -> None:
        _truncated(job.streams, own, job.source_context, kept)

    def store(inner: CheckpointStore, job: Job) -> CheckpointStore:
        return TruncatingStore(ports.store(inner, job), place, truncate, notify)

    return replace(ports, store=store)


def is_own(stream: StreamConfig) -> bool:
    """Return whether the log of a stream is in the directory of its run, where no other run reads it."""
    return stream.source.kind in ("socket", "spark") and getattr(stream.source.details, "log", None) is None


def truncate_run(run: KnownRun, names: Sequence[str] = ()) -> dict[str, int]:
    """Truncate the run's own logs, or those of the streams `names`; return how many segments are deleted, by stream.

    Raises UsageError for a stream without a log, and what loading the plan file and program of the run raises.
    """
    from dgs.api.preparing import context_of, load
    from dgs.api.resuming import requested_again
    from dgs.workers.checkpoints.truncating_store import kept_positions
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
    kept = kept_positions(run.directory.checkpoints)
    return _truncated(streams, chosen, context, list(kept.values()))


def _truncated(
    streams: Iterable[StreamConfig],
    chosen: Iterable[StreamConfig],
    context: SourceContext,
    kept: Sequence[Positions],
) -> dict[str, int]:
    from dgs.workers.sources.log_truncation import truncated

    ranks = {stream.id: rank for rank, stream in enumerate(streams)}
    return {
        stream.id: truncated(
            stream, context, [positions.base(stream.id) for positions in kept], rank=ranks[stream.id]
        )
        for stream in chosen
    }


def check_whole_logs(job: Job, purpose: str) -> None:
    """Raise TruncatedLogError if rows of a log of a job have been deleted. `purpose`: what needs them."""
    from dgs.workers.sources.log_truncation import directory_of, first_row

    for stream in job.streams:
        if (first := first_row(stream, job.source_context)) > 0:
            log = directory_of(stream, job.source_context)
            raise TruncatedLogError(stream=stream.id, last=first - 1, log=log, purpose=purpose)
