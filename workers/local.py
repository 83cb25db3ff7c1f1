"""The local runtime: all workers in this process, one thread, no network."""

from __future__ import annotations

import time

from dgs.errors import StalledError
from workers.central import Central, merged_figures
from workers.deployment import Deployment
from workers.engine import Engine
from workers.job import Job, JobResult, Progress

PROGRESS_EVERY = 0.2
"""Seconds between two calls of the progress callback."""


def run_local(job: Job, progress: Progress | None = None) -> JobResult:
    """Run a job in this process and return its result. Raises any DgsError; outputs are then left as `.partial`."""
    engine, central = Engine(Deployment(job, hosts=1), 0), Central(job)
    started = reported = time.time()
    complete = False
    try:
        while engine.final is None:
            if not engine.step():
                if engine.idle_seconds is None:
                    raise StalledError(reason=engine.waits_for())
                time.sleep(min(engine.idle_seconds, PROGRESS_EVERY))
            central.write(engine.take_outputs())
            if progress is not None and time.time() - reported > PROGRESS_EVERY:
                reported = time.time()
                progress(engine.counts["events"], engine.counts["outputs"])
        seconds = time.time() - started
        complete = True
    finally:
        engine.close(complete=complete)
        central.close(complete=complete)
    figures = merged_figures([engine.figures()], seconds=seconds, started=started)
    return JobResult(engine.final.state, central.outputs, figures)
