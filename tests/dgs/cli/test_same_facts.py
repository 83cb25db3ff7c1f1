"""The same facts everywhere: events, outputs and lags at the end of a run, in the terminal, figures, metrics and results."""

import json
import re

import pytest

from dgs.observe import newest
from dgs.workers.observing.metrics import RunCollector
from dgs.workers.observing.progress_line import Progressing

pytest.importorskip("prometheus_client")


def metrics_of(figures):
    """Return the values of all series: by name and the labels beside `plan` and `run`."""
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


def numbers_in(text):
    return {
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= (?:events|outputs)\b(?!/))", text)
    }


def test_events_outputs_and_lags_agree_at_the_end(project, dgs, run_dirs):
    done = dgs("run plan.yaml --set observe.every=100ms")
    (directory,) = run_dirs()
    results, last = json.loads((directory / "results.json").read_text()), newest(directory)
    metrics = metrics_of(last)
    line = Progressing()
    line.add(last)
    assert last.phase == "done"
    assert results["events_in"] == last.events == metrics["dgs_events_total",] == 9
    assert results["outputs"] == last.outputs == metrics["dgs_outputs_total",] == 3
    assert numbers_in(done.err) == numbers_in(line.line()) == {9, 3}
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


def test_a_run_that_fails_says_so_in_its_figures(project, dgs, run_dirs, edit):
    edit("program.py", "emit(", "raise KeyError('lost') or emit(")
    assert dgs("run plan.yaml").code == 1
    (directory,) = run_dirs()
    assert newest(directory).phase == "failed"
    assert "lost" in newest(directory).generations[-1].why
