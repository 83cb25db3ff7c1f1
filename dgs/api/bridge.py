"""Where Spark takes part in a run: the one place here that names `spark_bridge`, and only when a job asks for it.

The bridge is built on this package and not the other way round, so it is found by its name.

>>> job_names_spark(None)
False
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dgs.job.schema import CheckpointConfig
from dgs.workers.recovery.checkpoint import CheckpointStore

if TYPE_CHECKING:
    from dgs.workers.runtime.job import Caller, Job, JobResult

PACKAGE = "spark_bridge"


def run_spark(job: Job, caller: Caller) -> JobResult:
    """Run a job on Spark alone."""
    result: JobResult = _part("batch").run_spark(job, caller)
    return result


def with_table(store: CheckpointStore, job: Job, caller: Caller) -> CheckpointStore:
    """Return a store whose commits are also told to the table of `checkpoint: {spark: ...}`, if there is one."""
    if not job_names_spark(job.checkpoint):
        return store
    followed: CheckpointStore = _part("store").following(store, job, caller.notify)
    return followed


def named_outputs(job: Job, caller: Caller) -> AbstractContextManager[None]:
    """Return what makes the tables of `sinks: [{spark: {table: ...}}]` known to Spark's catalog, if there are any."""
    if not any(sink.kind == "spark" and sink.details.table is not None for sink in job.sinks):
        return nullcontext()
    registering: AbstractContextManager[None] = _part("output_tables").registering(job, caller.notify)
    return registering


def job_names_spark(checkpoint: CheckpointConfig | None) -> bool:
    """Return whether checkpoints are told to a table."""
    return checkpoint is not None and checkpoint.spark is not None


def _part(name: str) -> Any:
    return import_module(f"{PACKAGE}.{name}")
