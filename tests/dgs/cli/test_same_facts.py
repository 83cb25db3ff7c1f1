"""The same facts everywhere: events, outputs and lags at the end of a run, in the terminal, page, figures, metrics and results."""

import json
import os
import re
import signal
from contextlib import closing

import pytest

from dgs.observe import newest
from dgs.view.pictures.texts import count, seconds
from dgs.view.run_reading import RunView
from dgs.view.scenes import Pictures
from dgs.workers.observing.metrics import RunCollector
from dgs.workers.observing.progress_line import Progressing, duration
from tests.dgs.recovering import EARLY, PLAN, THERE, meanwhile, write_project

pytest.importorskip("prometheus_client")


def metrics_of(figures):
    """Return the values of all series by name and labels, without the labels `plan` and `run`."""
    collector = RunCollector("run", clock=lambda: figures.t)
    collector.take(figures)
    return {
        (
            sample.name,
            *(label for name, label in sample.labels.items() if name not in ("plan", "run")),
        ): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def page_of(directory, status):
    """Return the texts of the page at the end of a run, by slot."""
    with closing(RunView(directory, lambda: status)) as view:
        seen = view.seen()
    return Pictures(seen).scene(seen.moments[-1])


def line_of(figures):
    progress = Progressing()
    progress.add(figures)
    return progress.line()


def numbers_in(text):
    return {
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= (?:events|outputs)\b(?!/))", text)
    }


def test_events_outputs_and_lags_agree_at_the_end(project, dgs, run_dirs):
    done = dgs("run plan.yaml --set observe.every=100ms")
    (directory,) = run_dirs()
    results, last = json.loads((directory / "results.json").read_text()), newest(directory)
    metrics = metrics_of(last)
    page, terminal = page_of(directory, "done"), done.err
    assert last.phase == "done"
    assert results["events_in"] == last.events == metrics["dgs_events_total",] == 9
    assert results["outputs"] == last.outputs == metrics["dgs_outputs_total",] == 3
    assert numbers_in(terminal) == numbers_in(line_of(last)) == numbers_in(page["more"]) == {9, 3}
    assert (page["events"], page["outputs"]) == ("9 in all, mean rate", "3 outputs in all")
    assert page["rate"] == f"{count(last.events / last.seconds)}/s"
    assert f"{results['throughput_eps']:,.0f} events/s" in terminal
    assert f"9 events, 3 outputs in {seconds(last.seconds)}" in page["more"]
    assert [fact.split()[-1] for fact in re.findall("(?:events|outputs) .*", dgs("runs show").out)] == [
        "9",
        "3",
    ]
    assert results["seconds"] == pytest.approx(last.seconds, abs=1e-3)
    assert {name: worker["events"] for name, worker in results["per_worker"].items()} == {
        name: worker.events for name, worker in last.workers.items()
    }
    for name, worker in last.workers.items():
        assert metrics["dgs_worker_events_total", name] == worker.events
    for name, stream in last.streams.items():
        assert (stream.has_ended, stream.behind, stream.lag_seconds) == (True, 0, None)
        assert metrics["dgs_stream_events_total", name] == stream.events
        assert results["drops"][name] == stream.dropped == metrics["dgs_dropped_total", name]
    assert sum(stream.events for stream in last.streams.values()) == last.events
    assert sum(worker.events for worker in last.workers.values()) == last.events
    assert sum(worker.outputs for worker in last.workers.values()) == last.outputs
    assert last.sinks["jsonl"].outputs == last.outputs


def test_lags_of_a_run_that_is_stopped_agree(project, dgs):
    begin = 1_700_000_000
    write_project(
        project, plan=PLAN.replace("streams:", "time: {unit: s}\nstreams:", 1), waits_at=[begin + EARLY]
    )
    for name in ("barriers.csv", "left.csv", "right.csv"):
        later = re.sub(
            r"^\d+", lambda ts: str(begin + int(ts[0])), (project / name).read_text(), flags=re.MULTILINE
        )
        (project / name).write_text(later)
    with meanwhile(THERE, lambda: os.kill(os.getpid(), signal.SIGINT)):
        dgs("run plan.yaml --run-dir there")
    last, results = newest(THERE), json.loads((THERE / "results.json").read_text())
    metrics, page = metrics_of(last), page_of(THERE, "stopped")
    lags = {name: stream.lag_seconds for name, stream in last.streams.items()}
    assert (last.phase, results["status"]) == ("stopped", "stopped")
    assert results["events_in"] == last.events == metrics["dgs_events_total",] > 0
    assert min(lags.values()) > last.t - begin - EARLY - 200
    for name, lag in lags.items():
        assert metrics["dgs_stream_lag_seconds", name] == lag
        assert duration(lag) in next(
            line for line in dgs("top there").out.splitlines() if line.startswith(name)
        )
    part = re.search(r"\d+ %", line_of(last))[0]  # bounded input: the line has no lag
    assert page["done"].startswith(part)
    assert page["done"].endswith(f"{seconds(max(lags.values()))} behind the clock")
    assert page["events"].startswith(f"{last.events:,} in all")


def test_a_run_that_fails_says_so_in_its_figures(project, dgs, run_dirs, edit):
    edit("program.py", "emit(", "raise KeyError('lost') or emit(")
    assert dgs("run plan.yaml").code == 1
    (directory,) = run_dirs()
    last, results = newest(directory), json.loads((directory / "results.json").read_text())
    assert last.phase == "failed"
    assert "lost" in last.generations[-1].why
    metrics, page = metrics_of(last), page_of(directory, "failed")
    assert results["events_in"] == last.events == metrics["dgs_events_total",] > 0
    assert results["outputs"] == last.outputs == metrics["dgs_outputs_total",]
    assert results["seconds"] == pytest.approx(last.seconds, abs=1e-3)
    assert page["events"].startswith(f"{last.events:,} in all")
