"""The report of a run: its start-up and its work."""

from dgs.api.reports import StartUp


def test_work_begins_when_hosts_and_spark_have_started(monkeypatch):
    times = iter([103.0, 105.0, 109.0])
    monkeypatch.setattr("dgs.workers.runtime.process.now", lambda: next(times))
    start_up = StartUp(100.0)
    for part in ("Ray", "Spark", "Ray"):  # a later generation starts its hosts again
        start_up.ready(part)
    assert start_up.seconds == {"Ray": 3.0, "Spark": 5.0}
    assert start_up.of_work(4.0) == 2.0  # the hosts waited 2 s for Spark
    assert start_up.of_work(1.0) == 0.0  # a log that had rows already
    assert StartUp(100.0).of_work(4.0) == 4.0
