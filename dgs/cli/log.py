"""`dgs log`: lists, checks and closes the streams of an event log, and truncates the logs of a run."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.reporting import Ending, print_json, print_table, say, verb

if TYPE_CHECKING:
    from dgs.workers.event_log import Segment
    from dgs.workers.event_log.summary import StreamSummary


class Action(StrEnum):
    """The actions on a log."""

    LS = "ls"
    SHOW = "show"
    CLOSE = "close"
    TRUNCATE = "truncate"


# fmt: off
What = Annotated[Action, typer.Argument(
    help="ls: list the streams. show: check and list every segment. close: mark the end of the streams. truncate: delete what no kept checkpoint of a run needs.",
    show_default=False)]
Directory = Annotated[Path, typer.Argument(metavar="DIR | RUN_DIR | PLAN",
    help="The directory of the log; for truncate that of a run, or the plan.yaml whose newest run is meant.",
    show_default=False)]
Streams = Annotated[list[str] | None, typer.Option("--stream", metavar="ID",
    help="Only this stream. Repeatable. truncate needs it for a log outside the run directory.")]
# fmt: on


@verb
def log(ending: Ending, action: What, directory: Directory, *, stream: Streams = None) -> None:
    """List, check, close or truncate an event log."""
    if action is Action.TRUNCATE:
        _truncate(directory, stream or [], as_json=ending.as_json)
        return
    from dgs.workers.event_log import close_stream
    from dgs.workers.event_log.summary import segments, streams

    names = _chosen(directory, stream or [])
    if action is Action.CLOSE:
        for name in names:
            close_stream(directory, name)
        say(f"dgs: closed {', '.join(names)}")
    if action is Action.SHOW:
        found = {name: list(segments(directory, name)) for name in names}
        _print_segments(found, as_json=ending.as_json)
    else:
        summaries = [summary for summary in streams(directory) if summary.stream in names]
        _print_streams(summaries, as_json=ending.as_json)


def _truncate(target: Path, names: list[str], *, as_json: bool) -> None:
    from dgs.api.known_runs import run_at
    from dgs.api.truncating import truncate_run

    run = run_at(target)
    deleted = truncate_run(run, names)
    each = ", ".join(f"{count} of {name}" for name, count in deleted.items())
    say(
        f"dgs: deleted segments: {each or 'none, since the run has no event log of its own: name a --stream'}"
    )
    if as_json:
        print_json({"deleted": deleted})


def _chosen(directory: Path, wanted: list[str]) -> list[str]:
    """Return the streams to look at. Raises UsageError if the directory is not a log or has no such stream."""
    from dgs.errors import UsageError
    from dgs.workers.event_log.summary import stream_names

    names = stream_names(directory)
    if not names:
        raise UsageError(message=f"{directory} is not an event log: no stream was ever written there")
    for name in wanted:
        if name not in names:
            raise UsageError(message=f"{directory} has no stream {name!r}; it has {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]


def _print_streams(summaries: list[StreamSummary], *, as_json: bool) -> None:
    if as_json:
        print_json({"streams": [asdict(summary) for summary in summaries]})
        return
    head = ("stream", "writer", "rows", "deleted", "segments", "bytes", "latest", "frontier", "state")
    print_table(
        head,
        [
            (
                s.stream,
                s.writer,
                s.rows,
                s.first,
                s.segments,
                s.size,
                s.latest,
                s.frontier,
                "closed" if s.is_closed else "open",
            )
            for s in summaries
        ],
    )


def _print_segments(found: dict[str, list[Segment]], *, as_json: bool) -> None:
    if as_json:
        print_json({"segments": [asdict(segment) for segments in found.values() for segment in segments]})
        return
    head = ("stream", "segment", "batch", "first row", "rows", "from", "to", "frontier", "digest")
    print_table(
        head,
        [
            (s.stream, s.number, s.batch, s.first, s.rows, s.low, s.high, s.frontier, s.digest[:8])
            for segments in found.values()
            for s in segments
        ],
    )
