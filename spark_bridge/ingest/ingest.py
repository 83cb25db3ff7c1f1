"""Spark as the source of a run: its queries write the event logs that the workers read, beside the run.

    with feeding(job, config):
        run_job(job)

Spark starts in a thread of its own while the workers start. When a query has come to its end, the streams of its log are closed; when
it has failed, the error is left in the log, and ends the run where the stream is read. A run that goes on later finds the log and
Spark's checkpoint directory where they were, and Spark goes on where it was.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dgs.job.schema import SparkConfig
from dgs.spark_bridge.ingest.feed import LOOKS_EVERY, Feed
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.spark_bridge.session.session import check_installed, session
from dgs.workers.runtime.job import Job
from dgs.workers.sources.live.logged import log_path

INTERRUPTS_EVERY = 0.2
"""Seconds between two interruptions of what is to be stopped: the first one may come before there is anything to interrupt."""


def _unheard(_sentence: str) -> None:
    """Tell nobody."""


@contextmanager
def feeding(
    job: Job, config: SparkConfig, *, verbose: bool = False, notify: Callable[[str], None] = _unheard
) -> Iterator[None]:
    """Run the Spark queries of a job while the block runs; at its end they are stopped. `notify` is told that Spark starts.

    It is told of settings and options that have no effect, too.

    Raises PlanFileError, MissingPackageError, JavaMissingError, SparkUnreachableError at once; other errors end the run through its streams.
    """
    feeds = [
        Feed(
            query,
            log_path(query.streams[0], base_dir=job.base_dir, log_dir=job.log_dir).absolute(),
            base_dir=job.base_dir.absolute(),
            notify=notify,
        )
        for query in queries_of(job.streams, unit=job.unit)
    ]
    begun = [feed for feed in feeds if feed.begin()]
    if not begun:
        yield
        return
    check_installed(config)
    streams = ", ".join(stream for feed in begun for stream in feed.query.stream_ids)
    notify(f"Spark starts, and reads {streams}")
    work_dir = job.output_dir.absolute() / "spark"
    with _thread(begun, lambda: session(config, work_dir, verbose=verbose, notify=notify)):
        yield


@contextmanager
def _thread(feeds: Sequence[Feed], entered: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        try:
            with entered() as spark:
                _run(feeds, spark, stop)
        except Exception as error:  # noqa: BLE001 - there is no Spark, which the readers must hear
            for feed in feeds:
                feed.fail(error)

    thread = threading.Thread(target=run, name="spark", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run(feeds: Sequence[Feed], spark: object, stop: threading.Event) -> None:
    """Run all queries until they have ended or are to be stopped; what else the session has to do goes on."""
    tag = f"dgs-{secrets.token_hex(8)}"
    mark, interrupt = _tagging(spark)

    def run(feed: Feed) -> None:
        with contextlib.suppress(Exception):  # Spark may be gone, which the feed says
            mark(tag)
        feed.run(spark, stop)

    threads = [threading.Thread(target=run, args=(feed,), daemon=True) for feed in feeds]
    for thread in threads:
        thread.start()
    while alive := [thread for thread in threads if thread.is_alive()]:
        if not stop.wait(LOOKS_EVERY):
            continue
        with contextlib.suppress(
            Exception
        ):  # queries that are no streams know of no stop; and Spark may be gone
            interrupt(tag)
        alive[0].join(INTERRUPTS_EVERY)


def _tagging(spark: Any) -> tuple[Callable[[str], None], Callable[[str], object]]:
    """Return what gives a tag to the jobs of a thread, and what ends the jobs that have it."""
    if getattr(spark, "_jsparkSession", None) is None:  # of Spark Connect
        return spark.addTag, spark.interruptTag
    # The tags of such a session are another one's in each thread, even by the same name.
    return spark.sparkContext.addJobTag, spark.sparkContext.cancelJobsWithTag
