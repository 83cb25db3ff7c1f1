"""Running a launch: on its runtime, with the comparison to the sequential program, the results, and notes in its directory.

Only this module names all runtimes, and Spark, which may feed a run and take its results. Only the parts that a job needs are imported. The
runtimes know nothing of Spark: they call the `Ports` of their caller.

The directory of a run notes that the run has begun, where its files are, and how it ended, also after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.beginning import has_live_streams
from dgs.api.known_runs import REFUSED, KnownRun, committed_in, held, later_than_all
from dgs.api.outcome import Run
from dgs.api.preparing import Launch
from dgs.api.reports import StartUp, failure, report_of
from dgs.api.steering import Moves
from dgs.api.truncating import check_whole_logs, with_truncation
from dgs.api.verifying import check_answers, check_readable, differences, file_differences
from dgs.errors import (
    CheckpointBusyError,
    CheckpointError,
    DgsError,
    InvalidError,
    OutputUnwritableError,
    PlanFileError,
    UserCodeError,
)
from dgs.job.run_directory import RunDirectory
from dgs.model.declarations import near_misses
from dgs.workers.observing.figures import RunFigures
from dgs.workers.runtime import process
from dgs.workers.runtime.control import deferred
from dgs.workers.runtime.job import Caller, Job, JobResult, Ports

if TYPE_CHECKING:
    from dgs.spark_bridge.ingest.left_out import RowsLeftOut
    from dgs.workers.recovery.checkpoint import CheckpointStore


def execute(launch: Launch, caller: Caller = Caller()) -> Run:
    """Run a launch and write its results into its directory, also when it fails. Raises any DgsError.

    CheckpointBusyError if another process runs in the directory.
    """
    place = launch.directory
    if place is None or not launch.prepared.config.report:
        return _executed(launch, caller)
    from dgs.view.run_reading import reported

    with reported(place, lambda: KnownRun(place).status, caller.notify):
        return _executed(launch, caller)


def _executed(launch: Launch, caller: Caller) -> Run:
    """Run a launch, and write its report into the run directory."""
    options, directory = launch.options, launch.directory
    _before(launch, caller)
    with _served(launch, caller) as served, nullcontext() if directory is None else held(directory.path):
        if directory is not None and not options.resumes:
            directory.check_unused()  # checked again, since now no other process can begin here
        started = process.now()
        start_up = StartUp(started)
        caller = replace(served, ready=start_up.ready)
        before = _events_in(launch.checkpoint_dir) if options.resumes else 0
        moves = Moves(launch)
        with noted(moves, started, notify=caller.notify):
            with fed(launch.job, caller) as left_out:
                result = run_job(
                    launch.job, replace(caller, replanned=moves.replanned, compared=moves.compared)
                )
            found = _differences(launch, result) if options.verify else None
            with deferred():  # a signal must not keep the end from being noted
                report = report_of(
                    moves.launch, start_up, result, found, events_before=before, left_out=left_out()
                )
                if directory is not None:
                    note_end(directory, report)
    return Run(
        launch.prepared.config.name,
        result.outputs if options.collect else (),
        state=result.state,
        plan=moves.launch.prepared.plan,
        report=report,
        run_dir=None if directory is None else directory.path,
        differences=found or (),
        dead_letters=result.dead_letters if options.collect else (),
    )


def _before(launch: Launch, caller: Caller) -> None:
    """Notify of warnings about the program, and check the inputs and outputs that the run has to read from the beginning."""
    options, costs = launch.options, launch.prepared.costs
    for line in near_misses(launch.prepared.program):
        caller.notify(line)
    if costs is not None and costs.warning is not None:
        caller.notify(costs.warning)
    if options.verify and options.resumes:
        check_answers(launch.prepared)
        check_readable(launch.sinks)
    if has_live_streams(launch.job.streams):
        job = launch.job
        check_whole_logs(job.streams, job.source_context, verify=options.verify, resumes=options.resumes)


@contextmanager
def _served(launch: Launch, caller: Caller) -> Iterator[Caller]:
    """Serve the run's metrics if the plan file asks for it; yield a caller that passes the figures on. Raises MetricsPortError."""
    config = launch.job.runtime.metrics
    if config is None:
        yield caller
        return
    from dgs.workers.observing.metrics import serving

    run = "" if launch.directory is None else launch.directory.path.name
    with serving(config, run, clock=process.now, say=caller.notify) as take:

        def progress(figures: RunFigures) -> None:
            take(figures)
            caller.progress(figures)

        yield replace(caller, progress=progress)


def _events_in(place: Path | None) -> int:
    committed = None if place is None else committed_in(place)
    return 0 if committed is None else committed.checkpoint.events


def _epoch_in(place: Path | None) -> int:
    committed = None if place is None else committed_in(place)
    return 0 if committed is None else committed.checkpoint.epoch


def _differences(launch: Launch, result: JobResult) -> Sequence[str] | None:
    """Return the differences to the sequential program, None if the run has not reached its end."""
    if result.stopped_by is not None:
        return None
    compare = file_differences if launch.options.resumes else differences
    return compare(launch, result)


@contextmanager
def noted(moves: Moves, started: float, *, notify: Callable[[str], None]) -> Iterator[None]:
    """Note in the run directory, if there is one, that the run goes on inside this context, and how it ended if it fails.

    `started`: seconds since 1970. Raises OutputUnwritableError.
    """
    launch = moves.launch
    directory, resumes = launch.directory, launch.options.resumes
    if directory is None:
        yield
        return
    if resumes and _was_edited(directory):
        notify(
            f"{directory.of} was changed after this run had begun; the run ignores the changes: change "
            f"{directory.plan_file} or give --set, or start from the beginning with --fresh"
        )
    if resumes and "code" not in directory.about():
        notify(
            "the run was begun without a record of its program's code, so changes in the code cannot be noticed"
        )
    before = (directory.settings(), _epoch_in(launch.checkpoint_dir)) if resumes else None
    _note_beginning(launch, directory, started)
    try:
        yield
    except BaseException as error:
        # the first error is the one to report
        with deferred(all_of_them=True), suppress(OutputUnwritableError):
            if not directory.results():  # otherwise a signal came after the end
                _note_failure(moves.launch, directory, started, error, before)
        raise


def _note_failure(
    launch: Launch,
    directory: RunDirectory,
    started: float,
    error: BaseException,
    before: tuple[tuple[str, dict[str, Any]], int] | None,
) -> None:
    """Note how a run failed. `before`: the settings and the committed epoch of a resumed run."""
    if directory.is_taken_over:
        return
    if before is not None and _is_busy(error):  # a run that is alive goes on there
        directory.take_back(before[0])
        return
    if before is not None and _has_refused(error, launch, before[1]):
        directory.take_back(before[0])
    was_refused = _is_busy(error) and not launch.options.resumes
    note_end(directory, failure(launch, started, error), was_refused=was_refused)


def _has_refused(error: BaseException, launch: Launch, epoch: int) -> bool:
    """Return whether a resume was refused before it committed anything. The next resume should not begin with its settings."""
    is_refusal = isinstance(error, (CheckpointError, InvalidError))
    return is_refusal and _epoch_in(launch.checkpoint_dir) == epoch


def with_file(error: UserCodeError, job: Job) -> UserCodeError:
    """Return an error of user code with the file and the place of its row, if they can be found."""
    from dgs.workers.sources.opening import place_of

    row = error.facts.get("row")
    config = next((one for one in job.streams if one.id == error.facts.get("stream")), None)
    if row is None or config is None:
        return error
    with suppress(DgsError):  # the first error is the one to report
        place = place_of(config, job.source_context, row)
        if place.file:
            where = f"{error.where}{place}"
            return type(error)(**{**error.facts, "where": where, "file": place.file, "line": place.number})
    return error


def note_end(directory: RunDirectory, report: dict[str, Any], *, was_refused: bool = False) -> None:
    """Note in the run directory how the run ended, whatever signals come, unless another process goes on with it. Raises OutputUnwritableError."""
    with deferred(all_of_them=True):
        if directory.is_taken_over:
            return
        directory.write_results(report)
        directory.note(status=REFUSED if was_refused else report["status"], process=None)


def _note_beginning(launch: Launch, directory: RunDirectory, started: float) -> None:
    """Note in the run directory that the run has begun, and remove requests to earlier processes of the run."""
    from dgs.workers.runtime.control import forget_requests

    prepared, request = launch.prepared, launch.prepared.request
    directory.make()
    forget_requests(directory.control)
    directory.forget_results()
    directory.write_plan(request.settings, prepared.plan_data, request.base_dir)
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
    directory.note(  # last, in one step: a run without this note has not begun
        **about,
        checkpoints=_where(launch, here),
        plan_is_made=prepared.is_made,
        code={"version": prepared.program.version, "digests": prepared.code},
        status="running",
        process=os.getpid(),
    )


def _where(launch: Launch, here: Path) -> str:
    """Return the directory of checkpoints as a run directory notes it, so that the whole project can be moved."""
    place = launch.checkpoint_dir or here / "checkpoints"
    is_within = place.is_relative_to(here) or place.is_relative_to(launch.prepared.request.base_dir)
    return os.path.relpath(place, here) if is_within else str(place)


def _was_edited(directory: RunDirectory) -> bool:
    """Return whether the plan file has changed since its run began. A file that cannot be read counts as unchanged."""
    from dgs.job.document import read

    noted = directory.about().get("plan_digest")
    if noted is None or directory.of is None:
        return False
    with suppress(PlanFileError):
        return bool(read(directory.of).digest != noted)
    return False


def _is_busy(error: BaseException) -> bool:
    """Return whether a run failed because another one holds the places that it writes to."""
    from dgs.workers.sinks.files.owned import ANOTHER_RUN

    if isinstance(error, OutputUnwritableError):
        return error.facts.get("problem") == ANOTHER_RUN
    return isinstance(error, CheckpointBusyError)


def run_job(job: Job, caller: Caller = Caller()) -> JobResult:
    """Run a job on `job.runtime.kind`: `local`, `ray` or `spark`. Raises any DgsError."""
    try:
        ports = spark_ports(job, caller)
        ports = with_truncation(ports, job, caller.notify) if has_live_streams(job.streams) else ports
        return _run_on(job, replace(caller, ports=ports))
    except UserCodeError as error:
        raise with_file(error, job) from error.__cause__


def _run_on(job: Job, caller: Caller) -> JobResult:
    if job.runtime.kind == "ray":
        from dgs.workers.ray_runtime.ray_driver import run_ray

        return run_ray(job, caller)
    if job.runtime.kind == "spark":
        from dgs.spark_bridge.batch.batch_driver import run_spark

        return run_spark(job, caller)
    from dgs.workers.runtime.local import run_local

    return run_local(job, caller)


def fed(job: Job, caller: Caller = Caller()) -> AbstractContextManager[Callable[[], list[RowsLeftOut]]]:
    """Return a context that runs the Spark queries of a job's sources, and reports on them. It yields a function that returns the rows left out.

    Entering raises ResourceError, PlanFileError.
    """
    if not any(stream.source.kind == "spark" for stream in job.streams):
        return nullcontext(list)
    from dgs.spark_bridge.ingest.ingest import feeding

    return feeding(job, job.spark, caller)


def spark_ports(job: Job, caller: Caller) -> Ports:
    """Return the ports for a job's Spark tables, of checkpoints and of outputs; `Ports()` if it names none."""
    ports = Ports()
    if job.checkpoint is not None and job.checkpoint.spark is not None:
        ports = replace(ports, store=lambda store, job: _with_table(store, job, caller))
    if any(sink.kind == "spark" and sink.details.table is not None for sink in job.sinks):
        ports = replace(ports, outputs=lambda: _registering(job, caller))
    return ports


def _with_table(store: CheckpointStore, job: Job, caller: Caller) -> CheckpointStore:
    """Return a store that also writes each commit into the table of `checkpoint: {spark: ...}`."""
    from dgs.spark_bridge.tables.checkpoint_table import following

    return following(store, job, caller.notify)


def _registering(job: Job, caller: Caller) -> AbstractContextManager[None]:
    """Return a context that adds the tables of `sinks: [{spark: {table: ...}}]` to Spark's catalog."""
    from dgs.spark_bridge.tables.output_tables import registering

    return registering(job, caller.notify)
