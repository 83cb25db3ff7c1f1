"""Whether a plan file may simply be run: an unfinished run of it is never resumed, or thrown away, behind the user's back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.api.runs import (
    KnownRun,
    committed_in,
    held,
    holds_checkpoints,
    is_unfinished,
    newest_of,
    progress_of,
)
from dgs.errors import UnfinishedRunError, UsageError
from dgs.run_directory import ABOUT, RunDirectory

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared, Request


def begun(request: Request, run_dir: Path | None, *, resume: bool, fresh: bool) -> KnownRun | None:
    """Return the unfinished run to go on with; None if a new one is to begin.

    Raises UnfinishedRunError if there is one and neither `resume` nor `fresh` is asked for, CheckpointBusyError if it is alive,
    UsageError if both are asked for.
    """
    if resume and fresh:
        raise UsageError(message="go on with the unfinished run, or begin anew, not both")
    run = unfinished(request, run_dir)
    place = configured_dir(request)
    if resume or fresh:
        return run if resume else None
    if run is not None:
        raise _refusal(request, f"the run in {_shown(run.directory.path)}", run.progress)
    if place is not None and is_unfinished(place):
        raise _refusal(request, f"a run with its checkpoints in {_shown(place)}", progress_of(place))
    return None


def unfinished(request: Request, run_dir: Path | None = None) -> KnownRun | None:
    """Return the run of a plan file that could be gone on with, None if there is none. Raises CheckpointBusyError.

    It is the one in `run_dir`, if there is one, else the newest.
    """
    run: KnownRun | None = None
    if run_dir is not None and (run_dir / ABOUT).is_file():
        run = KnownRun(RunDirectory(run_dir))
    elif request.plan_file is not None:
        run = newest_of(request.plan_file)
    if run is None or not is_unfinished(run.directory.checkpoints):
        return None
    run.check_not_alive()
    return run


def configured_dir(request: Request) -> Path | None:
    """Return the directory that the plan file names for checkpoints, None if it names none."""
    section = request.settings.config.checkpoint
    return None if section is None or section.dir is None else (request.base_dir / section.dir).resolve()


def make_room(prepared: Prepared, *, resume: bool, fresh: bool) -> bool:
    """Empty the directory that the plan file names for checkpoints, for a run that begins anew; return whether it does not.

    It goes on from what is there, in a run directory of its own, if that is wanted and unfinished. Unless it is to be `fresh`,
    only what is finished and of this program is removed; the rest is for the run to refuse. Raises CheckpointBusyError.
    """
    place = configured_dir(prepared.request)
    if place is None or not holds_checkpoints(place):
        return False
    if resume and is_unfinished(place):
        return True
    committed = committed_in(place)
    if fresh or (committed is not None and committed.identity.name in ("", prepared.program.name)):
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
    from workers.checkpoints.disk import RealDisk
    from workers.checkpoints.saved import RECORDS, epoch_of, is_leftover

    disk = RealDisk()
    with held(place):
        names = disk.names(place)
        states = [name for name in names if epoch_of(name) is not None or is_leftover(name)]
        for name in [*states, *(name for name in reversed(RECORDS) if name in names)]:
            disk.unlink(place / name)
        disk.sync_directory(place)


def _refusal(request: Request, run: str, progress: str) -> UnfinishedRunError:
    if request.is_from_file:
        command = shlex.join(["dgs", "run", _shown(request.plan_file)])
        resume, fresh = f"{command} --resume", f"{command} --fresh"
    else:
        resume, fresh = "dgs.run(..., resume=True)", "dgs.run(..., fresh=True)"
    return UnfinishedRunError(run=run, progress=progress, resume=resume, fresh=fresh)


def _shown(path: Path | None) -> str:
    """Return a path relative to the working directory, if it is below."""
    if path is None:
        return ""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
