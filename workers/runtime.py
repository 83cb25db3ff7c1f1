"""Runs a job on the runtime that its configuration names."""

from __future__ import annotations

from workers.job import Job, JobResult, Progress


def run_job(job: Job, progress: Progress | None = None) -> JobResult:
    """Run a job on `job.runtime.kind`: `local` or `ray`. Raises any DgsError."""
    if job.runtime.kind == "ray":
        from workers.ray_runtime import run_ray

        return run_ray(job, progress)
    from workers.local import run_local

    return run_local(job, progress)
