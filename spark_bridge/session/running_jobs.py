"""Settings for some jobs of a session, and tags, by which the jobs of one thread are cancelled while others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple


class Tags(NamedTuple):
    """Functions that tag the later jobs of the calling thread, no longer tag them, and cancel the running jobs with a tag."""

    add: Callable[[str], None]
    remove: Callable[[str], None]
    cancel: Callable[[str], object]


def tagging(spark: Any) -> Tags:
    """Return the functions for a session."""
    if getattr(spark, "_jsparkSession", None) is None:  # a session of Spark Connect
        return Tags(spark.addTag, spark.removeTag, spark.interruptTag)
    # A classic session keeps its tags per thread, so the tags go to the context.
    context = spark.sparkContext
    return Tags(context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)


@contextmanager
def conf(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session, which may be a user's, some settings while the block runs."""
    before = {name: spark.conf.get(name, None) for name in settings}
    differing = [name for name, value in settings.items() if before[name] != value]
    for name in differing:
        spark.conf.set(name, settings[name])
    try:
        yield
    finally:
        for name in differing:
            if before[name] is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, before[name])
