"""What runs beside a job to bring its input: the Spark queries of its sources. Without any, nothing of Spark is loaded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from dgs.job.schema import PlanFile

if TYPE_CHECKING:
    from dgs.workers.runtime.job import Job


def fed(job: Job, config: PlanFile, *, notify: Callable[[str], None]) -> AbstractContextManager[None]:
    """Return what runs the Spark queries of a job while it is entered, and tells that it does.

    Entering raises ResourceError, PlanFileError.
    """
    if not any(stream.source.kind == "spark" for stream in job.streams):
        return nullcontext()
    from dgs.spark_bridge.ingest.ingest import feeding

    return feeding(job, config.spark, notify=notify)
