"""Running a prepared job: run directory, runtime, comparison with the sequential program, results.

What the directory of a run says of it: that it has begun, where everything is, and how it ended, also if it fails.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.beginning import is_busy
from dgs.api.known_runs import REFUSED, committed_in, held, later_than_all
from dgs.api.outcome import Run
from dgs.api.preparing import Prepared
from dgs.api.reports import failure, report_of
from dgs.api.resuming import configured_dir, was_edited
from dgs.api.runtimes import fed
from dgs.api.steering import Moves
from dgs.api.verifying import check_readable, differences, file_differences
from dgs.errors import OutputUnwritableError
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import FileSink, SinkConfig

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from dgs.workers.runtime.job import Caller, Job, JobResult


@dataclass(frozen=True)
class Options:
    """How a prepared job is run. `collect`: bring the outputs to the caller. `resumes`: go on from what is committed.

    `accepts_duplicates`: also if the record of it is lost. `tolerance` is for `verify`.
    """

    collect: bool = False
    verify: bool = False
    tolerance: float | None = None
    resumes: bool = False
    accepts_duplicates: bool = False


def execute(
    prepared: Prepared, directory: RunDirectory | None, options: Options, caller: Caller | None = None
) -> Run:
    """Run a prepared job and write its results into its directory, also when it fails. Raises any DgsError.

    CheckpointBusyError if another process runs in the directory.
    """
    from dgs.api.runtimes import run_job
    from dgs.workers.runtime.job import Caller

    if options.verify and options.resumes:
        check_readable(sinks_of(prepared, directory))
    with nullcontext() if directory is None else held(directory.path):
        if directory is not None and not options.resumes:
            directory.check_unused()  # again: now nobody else can begin here
        started = time.time()
        job = job_of(prepared, directory, collect=options.collect or options.verify)
        job = replace(job, resumes=options.resumes, accepts_duplicates=options.accepts_duplicates)
        before = _events_in(job.checkpoint_dir) if options.resumes else 0
        caller = caller or Caller()
        moves = Moves(prepared, directory)
        with noted(moves, job, started, notify=caller.notify):
            with fed(job, prepared.config, notify=caller.notify):
                result = run_job(job, replace(caller, replanned=moves.replanned))
            found = _differences(prepared, job, result, options) if options.verify else None
        place = None if directory is None else directory.path
        report = report_of(moves.prepared, place, started, result, found, events_before=before)
        if directory is not None:
            note_end(directory, report)
    return Run(
        prepared.config.name,
        result.outputs if options.collect else (),
        state=result.state,
        plan=moves.prepared.plan,
        report=report,
        run_dir=place,
        differences=found or (),
        dead_letters=result.dead_letters if options.collect else (),
    )


def sinks_of(prepared: Prepared, directory: RunDirectory | None) -> tuple[SinkConfig, ...]:
    """Return the sinks of the plan file; without any, JSON lines in the run directory."""
    if prepared.config.sinks or directory is None:
        return tuple(prepared.config.sinks)
    return (SinkConfig(jsonl=FileSink(path=str(directory.outputs.absolute()))),)


def job_of(prepared: Prepared, directory: RunDirectory | None, *, collect: bool) -> Job:
    """Return what a runtime is asked to do."""
    from dgs.workers.runtime.job import Job

    config, request = prepared.config, prepared.request
    return Job(
        program=prepared.program,
        plan=prepared.plan,
        streams=tuple(config.streams),
        base_dir=request.base_dir,
        output_dir=directory.path.absolute() if directory is not None else Path(tempfile.gettempdir()),
        runtime=config.runtime,
        sinks=sinks_of(prepared, directory),
        program_ref=config.program if request.is_from_file else None,
        unit=config.time.unit,
        memory=request.memory,
        collect=collect,
        until=prepared.until,
        rates={stream.id: stream.rates for stream in prepared.topology.streams},
        checkpoint=config.checkpoint,
        checkpoint_dir=checkpoint_dir(prepared, directory),
        control_dir=None if directory is None else directory.control.absolute(),
        on_error=config.on_error,
        delivery=config.delivery,
        spark=config.spark,
    )


def checkpoint_dir(prepared: Prepared, directory: RunDirectory | None) -> Path | None:
    """Return where checkpoints go: as the plan file says, else into the run directory; None without either."""
    configured = configured_dir(prepared.request)
    if configured is not None or directory is None:
        return configured
    return (directory.path / "checkpoints").resolve()


def _events_in(place: Path | None) -> int:
    committed = None if place is None else committed_in(place)
    return 0 if committed is None else committed.checkpoint.events


def _differences(prepared: Prepared, job: Job, result: JobResult, options: Options) -> Sequence[str] | None:
    """Return the differences to the sequential program; None if the run has not come to its end."""
    if result.stopped_by is not None:
        return None
    if options.resumes:
        return file_differences(prepared, job, result, options.tolerance)
    return differences(prepared, job, result, options.tolerance)


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
    """Say in the run directory what is run from now on, and remove requests that were posted for a process before this one."""
    from dgs.workers.runtime.control import forget_requests

    request = prepared.request
    forget_requests(directory.control)
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
