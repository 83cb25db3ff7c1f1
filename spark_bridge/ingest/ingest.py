"""Spark as the source of a run: its queries write the event logs that the workers read meanwhile.

    with feeding(job, config):
        run_job(job)

Spark starts in a thread of its own while the workers start. A query that ends closes the streams of its log. A query that fails
leaves its error in the log, and the error ends the run when the stream is read. A resumed run finds the log and Spark's checkpoint
directory in place, and Spark resumes the query.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from dgs.errors import OwnedLogError
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.ingest.feed import LOOKS_EVERY, Feed
from dgs.spark_bridge.ingest.left_out import RowsLeftOut
from dgs.spark_bridge.ingest.queries import Query, queries_of
from dgs.spark_bridge.session.running_jobs import tagging
from dgs.spark_bridge.session.session import check_installed, session
from dgs.workers.event_log.segments import is_closed
from dgs.workers.runtime.job import Caller, Job
from dgs.workers.sources.live.logged import log_path
from dgs.workers.storage.disk import make_directory
from dgs.workers.storage.locks import BusyError, FileLock

INTERRUPTS_EVERY = 0.2
"""Seconds between two interruptions of a query: the first may come before the query has begun."""


LOCK = "query.lock"
"""The file in the directory of a stream that a run locks while it feeds the stream."""


def _unheard(_sentence: str) -> None:
    """Ignore a sentence."""


@contextmanager
def feeding(
    job: Job, config: SparkConfig, caller: Caller = Caller(notify=_unheard)
) -> Iterator[Callable[[], list[RowsLeftOut]]]:
    """Run the Spark queries of a job while the block runs, and stop them at its end. Yield a function that returns what they left out.

    `caller.notify` gets a sentence when Spark starts, and one for each setting or option without effect.

    Raises OwnedLogError, PlanFileError, MissingPackageError, JavaMissingError, SparkUnreachableError at once; other errors end the run through its streams.
    """
    feeds = [
        Feed(
            query,
            log_path(query.streams[0], base_dir=job.base_dir, log_dir=job.log_dir).absolute(),
            base_dir=job.base_dir.absolute(),
            notify=caller.notify,
        )
        for query in queries_of(job.streams, unit=job.unit, skips=job.on_error == "skip")
    ]
    with contextlib.ExitStack() as locks:
        for feed in feeds:
            _hold(feed, locks)
        yield from _fed(feeds, job, config, caller)


def _hold(feed: Feed, locks: contextlib.ExitStack) -> None:
    """Lock the open streams of a query for this run. Raises OwnedLogError if another run feeds them."""
    for stream in feed.query.stream_ids:
        directory = feed.log / stream
        make_directory(directory)
        if is_closed(directory):
            continue  # any number of runs may read it
        try:
            locks.callback(FileLock(directory / LOCK).release)
        except BusyError as error:
            raise OwnedLogError(path=feed.log, stream=stream, owner=error.holder, writer="this run") from None


def _fed(
    feeds: Sequence[Feed], job: Job, config: SparkConfig, caller: Caller
) -> Iterator[Callable[[], list[RowsLeftOut]]]:
    begun = [feed for feed in feeds if feed.begin()]

    def left_out() -> list[RowsLeftOut]:
        return [found for feed in feeds if (found := feed.left_out).rows]

    if not begun:
        yield left_out
        return
    check_installed(config)
    streams = ", ".join(stream for feed in begun for stream in feed.query.stream_ids)
    caller.notify(f"Spark starts, and reads {streams}")
    work_dir = job.output_dir.absolute() / "spark"
    for feed in begun:
        feed.counts.listener = lambda: caller.rows(
            sum(one.counts.read for one in begun), sum(one.counts.committed for one in begun)
        )
    with_dgs = may_need_dgs(config, [feed.query for feed in begun])

    def entered() -> AbstractContextManager[object]:
        return session(config, work_dir, notify=caller.notify, with_dgs=with_dgs)

    with _thread(begun, entered, caller.ready):
        yield left_out


def may_need_dgs(config: SparkConfig, queries: Sequence[Query]) -> bool:
    """Return whether queries may read outputs or checkpoints of another run by the data source `dgs`, given by name or through a catalog."""
    has_catalog = config.remote is not None or any("catalog" in name.lower() for name in config.conf)
    sources = [query.source for query in queries]
    texts = [text or "" for one in sources for text in (one.format, one.sql, one.where, *one.select)]
    return has_catalog or any("dgs" in text.lower() for text in texts)


@contextmanager
def _thread(
    feeds: Sequence[Feed], entered: Callable[[], AbstractContextManager[object]], ready: Callable[[str], None]
) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        try:
            with entered() as spark:
                ready("Spark")
                _run(feeds, spark, stop)
        except Exception as error:  # noqa: BLE001 - Spark did not start, which the readers must see
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
    """Run all queries until they end or `stop` is set; other work of the session continues."""
    tag = f"dgs-{secrets.token_hex(8)}"
    tagged = tagging(spark)

    def run(feed: Feed) -> None:
        with contextlib.suppress(Exception):  # if Spark is gone, the feed reports it
            tagged.add(tag)
        feed.run(spark, stop)

    threads = [threading.Thread(target=run, args=(feed,), daemon=True) for feed in feeds]
    for thread in threads:
        thread.start()
    while alive := [thread for thread in threads if thread.is_alive()]:
        if not stop.wait(LOOKS_EVERY):
            continue
        # batch queries cannot be stopped in another way; Spark may have ended
        with contextlib.suppress(Exception):
            tagged.cancel(tag)
        alive[0].join(INTERRUPTS_EVERY)
