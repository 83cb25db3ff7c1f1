"""The composition root: the only module that names every runtime, and Spark, which may feed a run and take its results.

Only the parts that a job needs are imported. The runtimes know nothing of Spark: they call the `Ports` of their caller.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from dgs.workers.recovery.checkpoint import CheckpointStore
from dgs.workers.runtime.job import Caller, Job, JobResult, Ports


def run_job(job: Job, caller: Caller = Caller()) -> JobResult:
    """Run a job on `job.runtime.kind`: `local`, `ray` or `spark`. Raises any DgsError."""
    caller = replace(caller, ports=spark_ports(job, caller))
    if job.runtime.kind == "ray":
        from dgs.workers.ray_runtime.ray_driver import run_ray

        return run_ray(job, caller)
    if job.runtime.kind == "spark":
        from dgs.spark_bridge.batch.batch_driver import run_spark

        return run_spark(job, caller)
    from dgs.workers.runtime.local import run_local

    return run_local(job, caller)


def fed(job: Job, *, notify: Callable[[str], None]) -> AbstractContextManager[None]:
    """Return a context that runs the Spark queries of a job's sources, and reports on them.

    Entering raises ResourceError, PlanFileError.
    """
    if not any(stream.source.kind == "spark" for stream in job.streams):
        return nullcontext()
    from dgs.spark_bridge.ingest.ingest import feeding

    return feeding(job, job.spark, notify=notify)


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
