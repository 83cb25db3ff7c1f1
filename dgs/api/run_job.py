"""Runs a job on the runtime that its configuration names."""

from __future__ import annotations

from dgs.workers.runtime.job import NOBODY, Caller, Job, JobResult


def run_job(job: Job, caller: Caller = NOBODY) -> JobResult:
    """Run a job on `job.runtime.kind`: `local`, `ray` or `spark`. Raises any DgsError."""
    if job.runtime.kind == "ray":
        from dgs.workers.ray_runtime.driver import run_ray

        return run_ray(job, caller)
    if job.runtime.kind == "spark":
        from dgs.api.bridge import run_spark

        return run_spark(job, caller)
    from dgs.workers.runtime.local import run_local

    return run_local(job, caller)
