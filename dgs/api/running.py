"""Running a prepared job: run directory, runtime, comparison with the sequential program, results."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.api.feeding import fed
from dgs.api.moving import Moves
from dgs.api.noting import note_end, noted
from dgs.api.preparing import Prepared
from dgs.api.reports import report_of
from dgs.api.resuming import configured_dir
from dgs.api.runs import committed_in, held
from dgs.api.verifying import check_readable, differences, file_differences
from dgs.config import FileSink, SinkConfig
from dgs.run_directory import RunDirectory
from dgs.run_outcome import Run

if TYPE_CHECKING:
    from workers.job import Caller, Job, JobResult


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
    from workers.job import NOBODY
    from workers.runtime import run_job

    if options.verify and options.resumes:
        check_readable(sinks_of(prepared, directory))
    with nullcontext() if directory is None else held(directory.path):
        if directory is not None and not options.resumes:
            directory.check_unused()  # again: now nobody else can begin here
        started = time.time()
        job = job_of(prepared, directory, collect=options.collect or options.verify)
        job = replace(job, resumes=options.resumes, accepts_duplicates=options.accepts_duplicates)
        before = _events_in(job.checkpoint_dir) if options.resumes else 0
        caller = caller or NOBODY
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
    from workers.job import Job

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
