"""Stopped runs and Spark: the run's own queries end, other work of the session continues."""

import threading
from types import SimpleNamespace

import pytest

from dgs.spark_bridge.ingest.ingest import _run
from dgs.spark_bridge.tables.checkpoint_table import SparkStore
from tests.spark_bridge.ingest.test_ingest import waited_for

ENDLESS = "SELECT sum(hash(id)) FROM range(0, 1000000000000000, 1, 1)"


def ask(spark, ended):
    """Run an endless query, and append the error that ends it to `ended`."""
    try:
        spark.sql(ENDLESS).collect()
    except Exception as error:  # noqa: BLE001 - of Java
        ended.append(error)


def test_stop_ends_the_queries_of_the_run_and_nothing_else_in_the_session(spark):
    ours, others, stop = [], [], threading.Event()
    other = threading.Thread(target=ask, args=(spark, others))
    feed = SimpleNamespace(run=lambda spark, _stop: ask(spark, ours))
    run = threading.Thread(target=_run, args=([feed], spark, stop))
    try:
        other.start()
        run.start()
        waited_for(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 2)
        stop.set()
        run.join(120)
        assert (len(ours), others) == (1, [])
    finally:
        stop.set()
        spark.interruptAll()
        other.join()


def test_stop_that_comes_before_the_query_ends_it_too(spark):
    ended, stop = [], threading.Event()

    def late(spark, stop):
        stop.wait()
        threading.Event().wait(0.3)
        ask(spark, ended)

    run = threading.Thread(target=_run, args=([SimpleNamespace(run=late)], spark, stop))
    run.start()
    stop.set()
    run.join(120)
    assert len(ended) == 1


def test_store_is_closed_even_if_the_wait_for_the_table_is_interrupted():
    closed = []

    def interrupted():
        raise KeyboardInterrupt

    store = SparkStore(
        SimpleNamespace(close=lambda: closed.append("store")),
        SimpleNamespace(close=interrupted),
        run="r",
        keep=1,
        closing=lambda: closed.append("session"),
    )
    with pytest.raises(KeyboardInterrupt):
        store.close()
    assert closed == ["store", "session"]
