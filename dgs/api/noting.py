"""What the directory of a run says of it: that it has begun, where everything is, and how it ended, also if it fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.moving import Moves
from dgs.api.reports import failure
from dgs.api.resuming import was_edited
from dgs.api.runs import REFUSED, later_than_all
from dgs.api.starting import is_busy
from dgs.errors import OutputUnwritableError
from dgs.run_directory import RunDirectory

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from workers.job import Job


@contextmanager
def noted(moves: Moves, job: Job, started: float, *, notify: Callable[[str], None]) -> Iterator[None]:
    """Say in the run directory, if there is one, that the job runs while the block lasts, and how it ended if it fails.

    `started`: seconds since 1970. Raises OutputUnwritableError.
    """
    directory = moves.directory
    if directory is None:
        yield
        return
    if job.resumes and was_edited(directory):
        notify(_edited(directory))
    _note_beginning(moves.prepared, directory, job, started)
    try:
        yield
    except BaseException as error:
        was_refused = is_busy(error) and not job.resumes
        with suppress(OutputUnwritableError):  # the first error is the one to tell
            note_end(directory, failure(moves.prepared, started, error), was_refused=was_refused)
        raise


def note_end(directory: RunDirectory, report: dict[str, Any], *, was_refused: bool = False) -> None:
    """Say in the run directory how the run ended. Raises OutputUnwritableError."""
    directory.write_results(report)
    directory.note(status=REFUSED if was_refused else report["status"], process=None)


def _note_beginning(prepared: Prepared, directory: RunDirectory, job: Job, started: float) -> None:
    """Say in the run directory what is run from now on, and remove wishes meant for a process before this one."""
    from workers.control import forget_wishes

    request = prepared.request
    forget_wishes(directory.control)
    directory.forget_results()
    directory.write_plan(prepared.config, prepared.plan_data, request.base_dir)
    here = directory.path.resolve()
    about: dict[str, Any] = (
        {}
        if "name" in directory.about()
        else {
            "name": prepared.config.name,
            "plan_file": None if request.plan_file is None else os.path.relpath(request.plan_file, here),
            "plan_digest": request.plan_digest,
            "base_dir": os.path.relpath(request.base_dir, here),
            "max_events": prepared.max_events,
            "started": later_than_all(request.base_dir, started),
        }
    )
    directory.note(  # last, and at once: what has no such note has not begun
        **about,
        checkpoints=_where(job, here),
        plan_is_made=prepared.is_made,
        status="running",
        process=os.getpid(),
    )


def _edited(directory: RunDirectory) -> str:
    return (
        f"{directory.of} was changed after this run had begun, which goes on as it was: change "
        f"{directory.plan_file} or give --set, or begin anew with --fresh"
    )


def _where(job: Job, here: Path) -> str:
    """Return where checkpoints are, as it is noted in a run directory: so that a project can be moved, with all that is in it."""
    place = job.checkpoint_dir or here / "checkpoints"
    is_within = place.is_relative_to(here) or place.is_relative_to(job.base_dir)
    return os.path.relpath(place, here) if is_within else str(place)
