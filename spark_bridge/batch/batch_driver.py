"""`runtime: {kind: spark}`: the same program and the same plan over bounded data, on Spark alone.

The plan is cut into units that share nothing (`dgs.spark_bridge.batch.plan_units`), and one task computes each. If everything below
a unit's root accumulates, the unit's workers fold in tasks of their own, window by window, and the driver replays the root's events
over the windows. The last states of the units are joined up the plan. Outputs and state are committed in one step, as one epoch: so
a failed run has committed nothing, and a run begun elsewhere can be finished here.

A batch run reads streams that end. For streams that Spark reads, it waits until their logs are closed.

>>> from dgs.job.schema import StreamConfig
>>> live = StreamConfig(id="s", tags=["a"], source={"socket": {"port": 0}})
>>> refuse_live([live], SourceContext(Program()))
Traceback (most recent call last):
dgs.errors.UsageError: stream 's' is live, and `runtime: {kind: spark}` is for data that ends: run it with `--runtime local` or `--runtime ray`
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.errors import InternalError, UsageError, WorkerLostError
from dgs.job.schema import CheckpointConfig, SparkSource, StreamConfig
from dgs.model.order import END
from dgs.model.program import Program, State
from dgs.model.user_code import UserCode
from dgs.spark_bridge.batch import window_joins
from dgs.spark_bridge.batch.schedule import Schedule
from dgs.spark_bridge.batch.task_errors import error_of
from dgs.spark_bridge.batch.tasks import (
    DDL,
    ERROR,
    LETTER,
    OUTPUTS,
    REPORT,
    STATE,
    WINDOWS,
    Report,
    Work,
    batches_of,
)
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.session import session as spark_session
from dgs.workers.event_log import failure, summary
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.epochs import HostReport, RootReport
from dgs.workers.runtime import process
from dgs.workers.runtime.caller_outputs import CallerOutputs
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.figures import HostFigures, WorkerFigures, run_figures
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.supervisor import Ended, Session, supervise
from dgs.workers.sources.context import SourceContext
from dgs.workers.sources.custom_source import is_live
from dgs.workers.sources.live.logged import log_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOOK_EVERY = 0.1
"""Seconds between two checks of a log."""


def run_spark(job: Job, caller: Caller = Caller()) -> JobResult:
    """Run a job on Spark and return its result. Raises UsageError for a live stream, and any other DgsError."""
    refuse_live(job.streams, job.source_context)
    if not job.is_kept:
        job = replace(job, checkpoint=CheckpointConfig(), checkpoint_dir=None)
    return supervise(job, drive, lambda _: 1, caller)


def drive(deployment: Deployment, session: Session) -> Ended:
    """Process all events after the resume point of a deployment, and commit the result."""
    started, job, point = process.now(), deployment.job, deployment.point
    checkpoints = session.checkpointing(deployment)
    wait_for_queries(job)
    schedule = Schedule(job, point, _first_state(job.program, point))
    for sentence in schedule.notices():
        session.caller.notify(sentence)
    answers = Answers(session.caller_outputs, point.epoch + 1)
    collects = CallerOutputs.is_needed(job) or job.on_error == "skip"
    work_dir, notify = job.output_dir.absolute() / "spark", session.caller.notify
    with spark_session(job.spark, work_dir, notify=notify) as spark:
        answers.take(spark, Work.of(job, point, schedule.tasks, collects=collects))
    state, replayed = schedule.finished(answers.states, answers.windows, answers.show)
    reports = [*answers.reports, *replayed]
    session.caller.progress(sum(one.events for one in reports), sum(one.outputs for one in reports))
    checkpoints.take_reports(_as_of_one_host(deployment, state, reports))
    seconds = process.now() - started
    hosts = [_figures(report) for report in reports]
    return Ended(state, run_figures(hosts, checkpoints.last, seconds=seconds, started=started))


@dataclass
class Answers:
    """The answers of tasks: last states and partial states by task number, and reports; outputs go to the caller."""

    caller_outputs: CallerOutputs
    epoch: int
    states: dict[int, State] = field(default_factory=dict)
    windows: dict[int, list[tuple[int, State]]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def take(self, spark: SparkSession, work: Work) -> None:
        """Run the tasks and take their answers. Raises the first DgsError that ended a task."""
        for number, what, data in rows_of(spark, work):
            if what == ERROR:
                raise error_of(data)
            self._take(number, what, codec.decode(data))

    def _take(self, number: int, what: str, answer: Any) -> None:
        if what in (OUTPUTS, LETTER):
            self.show(answer)
        elif what == WINDOWS:
            self.windows.setdefault(number, []).extend(answer)
        elif what == STATE:
            self.states[number] = answer
        elif what == REPORT:
            self.reports.append(answer)

    def show(self, output: Any) -> None:
        """Hand outputs, or the dead letter of a skipped event, to the sinks of the caller."""
        self.caller_outputs.write([(self.epoch, output)])


def rows_of(spark: SparkSession, work: Work) -> Iterator[tuple[int, str, bytes]]:
    """Run one Spark task for each of ours, and yield their rows, with the partial states of windows already joined.

    Raises WorkerLostError if Spark gives a task up: the run then restarts from its last commit.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException, PythonException

    count = len(work.tasks)
    answers = spark.range(0, count, 1, max(count, 1)).mapInArrow(batches_of(work), DDL)
    if window_joins.are_needed(work):
        placed = answers.repartition(count, "unit", "chunk").sortWithinPartitions(
            "unit", "chunk", "task", "number"
        )
        answers = placed.mapInArrow(window_joins.joining(work), DDL)
    try:
        table = answers.toArrow()
    except PythonException as error:
        raise InternalError(problem=f"a task of Spark failed: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise WorkerLostError(host="of Spark", problem=_cause(error)) from error
    for batch in table.to_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in ("task", "what", "data")), strict=True)


def _cause(error: Exception) -> str:
    """Return Spark's outermost cause in a Java trace; the error's first line without one."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: org.apache.spark")]
    return causes[0].removeprefix("Caused by: ") if causes else first_line(error)


def _as_of_one_host(
    deployment: Deployment, state: State, reports: Sequence[Report]
) -> tuple[HostReport, RootReport]:
    """Return the reports that a single host would send at the end of this run."""
    epoch = deployment.point.epoch + 1
    sources: dict[str, Mapping[str, Any]] = {}
    for report in reports:
        sources |= report.sources
    host = HostReport(
        0,
        epoch,
        tuple(file for report in reports for file in report.files),
        tuple(batch for report in reports for batch in report.unaccepted),
        {name: about["end"] for name, about in sources.items() if about.get("end") is not None},
        sources,
        events=sum(report.events for report in reports),
        outputs=sum(report.outputs for report in reports),
    )
    ends = {lane.id: END for lane in deployment.lanes.all}
    return host, RootReport(epoch, codec.encode(state, keeps_order=True), ends, is_final=True)


def _figures(report: Report) -> HostFigures:
    return HostFigures(
        report.events,
        report.outputs,
        report.drops,
        report.began,
        report.ended,
        report.first_output,
        per_worker={name: WorkerFigures(**worker) for name, worker in report.per_worker.items()},
    )


def _first_state(program: Program, point: ResumePoint) -> State:
    if point.state is not None:
        return codec.decode(point.state)
    return UserCode(program).call("init", program.init)


def refuse_live(streams: Iterable[StreamConfig], context: SourceContext) -> None:
    """Raise UsageError for a stream that does not end by itself."""
    for config in streams:
        details = config.source.details
        endless = isinstance(details, SparkSource) and details.trigger != "available_now"
        is_paced = getattr(details, "pace", None) is not None
        if endless or is_paced or config.source.kind == "socket" or is_live(config, context):
            problem = f"stream {config.id!r} is live, and `runtime: {{kind: spark}}` is for data that ends"
            raise UsageError(message=f"{problem}: run it with `--runtime local` or `--runtime ray`")


def wait_for_queries(job: Job) -> None:
    """Wait until the logs of all streams that Spark reads are complete. Raises the error that ended a query."""
    for config in job.streams:
        if config.source.kind == "spark":
            path = log_path(config, base_dir=job.base_dir, log_dir=job.log_dir)
            while not _is_complete(path, config.id):
                time.sleep(LOOK_EVERY)


def _is_complete(path: Path, stream: str) -> bool:
    error = failure.found(path / stream)
    if error is not None:
        raise error
    return any(found.is_closed for found in summary.streams(path) if found.stream == stream)
