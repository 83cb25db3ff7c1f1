"""The start of a run of a plan file. An unfinished run of it is resumed or dropped only if the user says so."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.api.known_runs import (
    KnownRun,
    committed_in,
    held,
    holds_checkpoints,
    is_unfinished,
    newest_of,
    progress_of,
)
from dgs.api.preparing import Launch, Options, Prepared, Request, context_of
from dgs.api.resuming import requested_again
from dgs.api.truncating import check_whole_logs, is_own
from dgs.api.verifying import check_answers, check_readable
from dgs.errors import DgsError, UnfinishedRunError, UsageError
from dgs.job.run_directory import ABOUT, RunDirectory
from dgs.workers.sources.live.logged import LOGGED

if TYPE_CHECKING:
    from dgs.job.schema import StreamConfig


def begun(request: Request, run_dir: Path | None, *, resume: bool, fresh: bool) -> KnownRun | None:
    """Return the run to resume, also one in `run_dir` that has committed nothing; None if a new run begins.

    Raises UnfinishedRunError if there is an unfinished run, or one without a commit in `run_dir`, and neither `resume` nor `fresh` is
    given, CheckpointBusyError if the run to resume is alive or another live run writes to the same places, UsageError if both are given.
    """
    if resume and fresh:
        raise UsageError(message="give resume or fresh, not both")
    if resume and run_dir is not None and (run := _run_in(run_dir, request)) is not None:
        run.check_not_alive()
        return run
    run = unfinished(request, run_dir, is_wanted=resume)
    place = request.checkpoint_dir
    if resume or fresh:
        return run if resume else None
    if run is None and run_dir is not None:
        run = _without_commit(run_dir)
    if run is not None:
        raise _refusal(
            request, f"the run in {_shown(run.directory.path)}", f"{run.progress}{run.ending}", run_dir
        )
    if place is not None and is_unfinished(place):
        raise _refusal(request, f"a run with its checkpoints in {_shown(place)}", progress_of(place))
    return None


def unfinished(request: Request, run_dir: Path | None = None, *, is_wanted: bool = False) -> KnownRun | None:
    """Return the run of a plan file that could be resumed, None if there is none.

    It is the run in `run_dir`, if there is one, else the newest run. Raises CheckpointBusyError if it is alive, unless it is not wanted
    (`is_wanted`) and a new run could run beside it.
    """
    run: KnownRun | None = None
    if run_dir is not None and (run_dir / ABOUT).is_file():
        run = KnownRun(RunDirectory(run_dir))
    elif request.plan_file is not None:
        run = newest_of(request.plan_file)
    if run is None:
        return None
    checkpoints = run.directory.checkpoints
    has_progress = is_unfinished(checkpoints)
    if is_wanted or has_progress or (run.is_alive and _shares(run, request)):
        run.check_not_alive()
    # it may already have outputs in a database
    has_begun = not run.is_done and holds_checkpoints(checkpoints)
    return run if has_progress or (is_wanted and has_begun) else None


def _without_commit(run_dir: Path) -> KnownRun | None:
    """Return the run in a directory that was cut before it committed anything, None if there is none. Raises CheckpointBusyError."""
    run = KnownRun(RunDirectory(run_dir))
    if not (run_dir / ABOUT).is_file() or run.is_done:
        return None
    run.check_not_alive()
    return run


def _run_in(run_dir: Path, request: Request) -> KnownRun | None:
    """Return the run of this plan file in a directory, None if there is none."""
    directory = RunDirectory(run_dir)
    return KnownRun(directory) if (run_dir / ABOUT).is_file() and directory.of == request.plan_file else None


def _shares(run: KnownRun, request: Request) -> bool:
    """Return whether a run writes to a place that the new one would write to."""
    try:
        other = requested_again(run, {})
    except DgsError:  # its plan file cannot be read; locks still keep two writers apart
        return False
    return bool(_written_by(other) & _written_by(request))


def _written_by(request: Request) -> set[Path]:
    """Return the places to which a run of a plan file writes, besides the run directory."""
    sinks = request.settings.config.sinks
    paths = [path for sink in sinks if (path := getattr(sink.details, "path", None)) is not None]
    places = {(request.base_dir / path).resolve() for path in paths}
    place = request.checkpoint_dir
    return places if place is None else places | {place}


def launch(
    prepared: Prepared, run_dir: Path | None, options: Options, *, resume: bool, fresh: bool
) -> Launch:
    """Return the launch of a new run, in its own directory, after making room for its checkpoints.

    Raises what `begun`, `make_room` and `new_directory` do, and UsageError if it cannot be verified, before anything is made or removed.
    """
    _check_inputs(prepared, verify=options.verify, resumes=_goes_on(prepared.request, resume=resume))
    resumes = make_room(prepared, resume=resume, fresh=fresh)
    return Launch(prepared, new_directory(prepared.request, run_dir), replace(options, resumes=resumes))


def _check_inputs(prepared: Prepared, *, verify: bool, resumes: bool) -> None:
    """Check that the run can read all that it needs of what is there before it."""
    if verify:
        check_answers(prepared)
    if verify and resumes:
        check_readable(prepared.config.sinks)
    if has_live_streams(prepared.config.streams):
        streams = [stream for stream in prepared.config.streams if not is_own(stream)]
        context = context_of(prepared.request, prepared.program)
        check_whole_logs(streams, context, verify=verify, resumes=resumes)


def has_live_streams(streams: Iterable[StreamConfig]) -> bool:
    """Return whether there are streams that are read from logs, or that have heartbeats."""
    return any(stream.source.kind in LOGGED or stream.heartbeat is not None for stream in streams)


def _goes_on(request: Request, *, resume: bool) -> bool:
    """Return whether a new run directory goes on with the checkpoints that the plan file names."""
    place = request.checkpoint_dir
    return resume and place is not None and holds_checkpoints(place) and is_unfinished(place)


def make_room(prepared: Prepared, *, resume: bool, fresh: bool) -> bool:
    """Empty the directory for checkpoints in the plan file, for a new run. Return True if the run resumes from it instead.

    It resumes, in a new run directory, if that is wanted and the checkpoints there are unfinished. Without `fresh`, only finished
    checkpoints of this program are removed; the run itself refuses others. Raises the errors of `begun` if another run has
    begun while this one was prepared.
    """
    request = prepared.request
    if (run := begun(request, None, resume=resume, fresh=fresh)) is not None:
        raise _refusal(request, f"the run in {_shown(run.directory.path)}", run.progress)
    place = request.checkpoint_dir
    if place is None or not holds_checkpoints(place):
        return False
    if _goes_on(request, resume=resume):
        return True
    with held(place):
        committed = committed_in(place)
        is_own = committed is not None and committed.identity.name in ("", prepared.program.name)
        if fresh or (is_own and not is_unfinished(place)):
            _empty(place)
    return False


def new_directory(request: Request, run_dir: Path | None) -> RunDirectory | None:
    """Make the directory of a new run: `run_dir`, else one beside the plan file; None for a program over streams from Python.

    Raises OutputUnwritableError.
    """
    if run_dir is not None:
        return RunDirectory.create(run_dir)
    return RunDirectory.beside(request.base_dir) if request.is_from_file else None


def _empty(place: Path) -> None:
    from dgs.workers.checkpoints.saved import RECORDS, epoch_of, is_leftover
    from dgs.workers.storage.disk import RealDisk, refusing

    disk = RealDisk()
    with refusing(place):
        names = disk.names(place)
        states = [name for name in names if epoch_of(name) is not None or is_leftover(name)]
        for name in [*states, *(name for name in reversed(RECORDS) if name in names)]:
            disk.unlink(place / name)
        disk.sync_directory(place)


def _refusal(request: Request, run: str, progress: str, run_dir: Path | None = None) -> UnfinishedRunError:
    """Return the refusal of a new run beside an unfinished one. `run_dir`: the directory of that run, if the new one was to use it."""
    if request.is_from_file:
        command = shlex.join(["dgs", "run", _shown(request.plan_file)])
        # the new run makes a run directory of its own
        resume, fresh = f"{command} --resume", f"{command} --fresh"
        if run_dir is not None:
            resume = shlex.join(["dgs", "resume", _shown(run_dir)])
    else:
        resume, fresh = "dgs.run(..., resume=True)", "dgs.run(..., fresh=True)"
    return UnfinishedRunError(run=run, progress=progress, resume=resume, fresh=fresh)


def _shown(path: Path | None) -> str:
    """Return a path relative to the working directory, if it is below."""
    if path is None:
        return ""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
