"""`runtime: {kind: spark}`: the same program and the same plan over bounded data, on Spark alone.

The plan is cut into units that share nothing (`dgs.spark_bridge.batch.plan_units`), and one task computes each. If everything below
a unit's root accumulates, tasks fold its events window by window, each some row groups of a stream or the streams of a worker; then
one task replays the root's events over the windows (`dgs.spark_bridge.batch.replays`). Only last states, reports and errors come to
the driver, which joins the states up the plan. Outputs and state are committed in one step, as one epoch: so a failed run has
committed nothing, and a run begun elsewhere can be finished here.

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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dgs import codec
from dgs.errors import InternalError, UsageError, WorkerLostError
from dgs.job.schema import CheckpointConfig, SparkSource, StreamConfig
from dgs.model.order import END
from dgs.model.program import Program, State
from dgs.model.user_code import UserCode
from dgs.spark_bridge.batch import window_joins
from dgs.spark_bridge.batch.replays import replaying
from dgs.spark_bridge.batch.schedule import Schedule
from dgs.spark_bridge.batch.task_inputs import Edges, check_order
from dgs.spark_bridge.batch.task_outputs import error_of
from dgs.spark_bridge.batch.tasks import (
    DDL,
    ERROR,
    LETTER,
    OUTPUTS,
    REPORT,
    STATE,
    Answer,
    Report,
    Work,
    batches_of,
    read_answers,
)
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.running_jobs import conf
from dgs.spark_bridge.session.session import check_python
from dgs.spark_bridge.session.session import session as spark_session
from dgs.workers.event_log import failure, summary
from dgs.workers.observing.figures import HostFigures, StreamFigures, WorkerFigures
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.coordinator import HostReport, RootReport
from dgs.workers.runtime import process
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.host_outputs import CallerOutputs
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.supervisor import Ended, Session, supervise
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.custom_source import is_live
from dgs.workers.sources.live.logged import log_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


LOOK_EVERY = 0.1
"""Seconds between two checks of a log."""

PLACES_A_CORE = 2
"""Spark tasks for each core that replay units; each may replay several."""


IN_ONE_JOB = {"spark.sql.adaptive.enabled": "false"}
"""A setting with which the steps are one job, planned once: the number of tasks is ours in any case."""


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
    answers = Answers(session.caller_outputs, point.epoch + 1)
    work_dir, notify = job.output_dir.absolute() / "spark", session.caller.notify
    with spark_session(job.spark, work_dir, notify=notify) as spark, _directory(work_dir) as directory:
        check_python()
        state = _first_state(job.program, point)
        schedule = Schedule(job, point, state, directory=directory, cores=cores_of(spark))
        for sentence in schedule.notices():
            notify(sentence)
        collects = CallerOutputs.is_needed(job)
        answers.take(spark, Work.of(job, point, schedule.tasks, schedule.replays, collects=collects))
    reports = answers.reports
    state, sources = schedule.joined(answers.states), _sources(reports)
    checkpoints.take_reports(_as_of_one_host(deployment, state, reports, sources))
    session.caller_outputs.skipped += sum(report.skipped for report in reports)
    seconds = process.now() - started
    figures = session.observer.generation(
        _figures(reports, sources), checkpoints.last, seconds=seconds, started=started
    )
    return Ended(state, figures)


@contextmanager
def _directory(work_dir: Path) -> Iterator[Path]:
    """Yield a new directory for the events of roots that tasks can reach, and remove it afterwards."""
    directory = work_dir / f"roots-{uuid4().hex}"
    try:
        yield directory
    finally:
        rmtree(directory, ignore_errors=True)


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time, as far as it is known."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has no context
    if context is not None:
        return max(1, int(context.defaultParallelism))
    return max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


@dataclass
class Answers:
    """The answers of tasks: the last states by unit, and reports; outputs go to the caller."""

    caller_outputs: CallerOutputs
    epoch: int
    states: dict[int, State] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def take(self, spark: SparkSession, work: Work) -> None:
        """Run the tasks and take their answers. Raises the first DgsError that ended a task, or that parts of a stream are in disorder."""
        parts: dict[tuple[int, str], list[Edges]] = {}
        for answer in rows_of(spark, work):
            if answer.what == ERROR:
                raise error_of(answer.data)
            data = codec.decode(answer.data)
            if answer.what in (OUTPUTS, LETTER):
                self.caller_outputs.write([(self.epoch, data)])
            elif answer.what == STATE:
                self.states[answer.unit] = data
            elif answer.what == REPORT:
                self.reports.append(data)
                for stream, edges in data.edges.items():  # two units may read one stream, each in parts
                    parts.setdefault((answer.unit, stream), []).append(edges)
        for (_, stream), found in sorted(parts.items()):
            check_order(stream, found)


def rows_of(spark: SparkSession, work: Work) -> Iterator[Answer]:
    """Run one Spark task for each of ours, then the replays, and yield their answers.

    Raises WorkerLostError if Spark gives a task up: the run then restarts from its last commit.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException, PythonException

    count = len(work.tasks)
    answers = spark.range(0, count, 1, max(count, 1)).mapInArrow(batches_of(work), DDL)
    if window_joins.are_needed(work):
        answers = _placed(answers, count, "unit", "chunk").mapInArrow(window_joins.joining(work), DDL)
    if work.replays:
        placed = _placed(answers, min(len(work.replays), PLACES_A_CORE * cores_of(spark)), "unit")
        answers = placed.mapInArrow(replaying(work), DDL)
    try:
        with conf(spark, IN_ONE_JOB):
            table = answers.toArrow()
    except PythonException as error:
        raise InternalError(problem=f"a task of Spark failed: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise WorkerLostError(host="of Spark", problem=_cause(error)) from error
    yield from read_answers(table.to_batches())


def _placed(answers: DataFrame, count: int, *columns: str) -> DataFrame:
    """Return answers in order, those with the same columns in one of `count` tasks."""
    if count == 1:
        return answers.repartition(1).sortWithinPartitions("unit", "chunk", "task", "number")
    by_number = columns == ("unit",) and hasattr(answers, "repartitionById")  # since Spark 4.1
    placed = (
        answers.repartitionById(count, _modulo(count)) if by_number else answers.repartition(count, *columns)
    )
    return placed.sortWithinPartitions("unit", "chunk", "task", "number")


def _modulo(count: int) -> Column:
    from pyspark.sql import functions as sql

    return (sql.col("unit") % count).cast("int")


def _cause(error: Exception) -> str:
    """Return Spark's outermost cause in a Java trace; the error's first line without one."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: org.apache.spark")]
    return causes[0].removeprefix("Caused by: ") if causes else first_line(error)


def _as_of_one_host(
    deployment: Deployment, state: State, reports: Sequence[Report], sources: Mapping[str, Mapping[str, Any]]
) -> tuple[HostReport, RootReport]:
    """Return the reports that a single host would send at the end of this run."""
    epoch = deployment.point.epoch + 1
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


def _sources(reports: Iterable[Report]) -> dict[str, Mapping[str, Any]]:
    """Return the descriptions of the sources; if several tasks have read parts of one, that of the task that came furthest."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, about in (source for report in reports for source in report.sources.items()):
        if name not in found or about["rows"] > found[name]["rows"]:
            found[name] = about
    return found


def _figures(reports: Sequence[Report], sources: Mapping[str, Mapping[str, Any]]) -> list[HostFigures]:
    """Return the figures of the tasks. A worker whose work several tasks share has their sum, and the number of one of them.

    It is unknown how much of a stream each task has read, so the figures of streams are those of the first task, corrected by
    `sources`.
    """
    workers: dict[str, dict[str, int]] = {}
    for name, worker in (one for report in reports for one in report.per_worker.items()):
        known = workers.setdefault(name, {**worker, "events": 0, "synchronisations": 0})
        for count in ("events", "synchronisations"):
            known[count] += worker[count]
    total = {
        name: WorkerFigures(one["host"], one["events"], one["synchronisations"])
        for name, one in workers.items()
    }
    drops = {name: max(report.drops.get(name, 0) for report in reports) for name in sources}
    streams = {
        name: StreamFigures(rows=about["rows"], has_ended=True, dropped=drops[name], share=1.0)
        for name, about in sources.items()
    }
    return [
        HostFigures(
            host=i,
            events_in=report.events,
            outputs=report.outputs,
            began=report.began,
            ended=report.ended,
            first_output=report.first_output,
            workers=total if i == 0 else {},
            streams=streams if i == 0 else {},
        )
        for i, report in enumerate(reports)
    ]


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
