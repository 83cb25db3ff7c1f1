"""`dgs top`: of a finished run, in a pipe, as data, and of a run without figures."""

import json
import socket
from contextlib import closing

import pytest

from dgs.job.run_directory import RunDirectory
from dgs.workers.observing.figure_lines import FiguresFile
from dgs.workers.observing.figures import RunFigures, StreamFigures, Wait, WorkerFigures
from tests.dgs.view.left_runs import leave

STUCK = RunFigures(
    t=100.0,
    name="sums",
    phase="running",
    events=70,
    outputs=7,
    workers={
        "w0": WorkerFigures(
            0, 70, waits_for=Wait("child", "w1", 9, 95.0), update_seconds=3.0, idle_seconds=1.0
        ),
        "w1": WorkerFigures(1, waits_for=Wait("stream", "[rules]", 9, 90.0), held_events=5),
        "w2": WorkerFigures(1, 3),
    },
    streams={
        "values": StreamFigures(rows=70, events=70, frontier=50, heard=99.0, has_ended=True),
        "[rules]": StreamFigures(rows=3, events=3, frontier=4, heard=88.0),
    },
)


@pytest.fixture
def stuck(project):
    """The directory of a run that was killed while it waited for a stream."""
    directory = RunDirectory.create(project / ".dgs" / "runs" / "stuck")
    directory.note(name="sums", plan_file="../../../plan.yaml", started=90.0, status="running")
    FiguresFile(directory.path, warn=pytest.fail).add(STUCK)
    return directory


def test_a_pipe_gets_tables_with_what_holds_the_run_back_first(stuck, dgs):
    done = dgs("top")
    text = done.out.splitlines()
    assert text[0].startswith("sums: killed, 70 events, 7 outputs")
    assert text[1] == (
        "worker w1 waits for stream '[rules]' to pass 9; last heard 12 s ago; 5 events held; 1 more worker waits behind it"
    )
    first = [line.split()[0] for line in text if line]
    assert [name for name in first if name in ("[rules]", "values", "w0", "w1", "w2")] == [
        "[rules]",
        "values",
        "w1",
        "w0",
        "w2",
    ]


def test_figures_as_data_have_names(stuck, dgs):
    data = json.loads(dgs("top stuck --json").out)
    assert data["workers"]["w1"]["waits_for"] == {"kind": "stream", "on": "[rules]", "key": 9, "since": 90.0}
    assert data["held_back_by"].startswith("worker w1 waits for stream")


def test_names_are_no_commands_to_the_terminal(project, dgs):
    leave(project, status="running", mute_since=20, mute="ru\x1b[31mles\x07\u202e", seconds=30)
    told = dgs("top").out
    assert "ru�[31mles��" in told
    assert all(letter.isprintable() or letter == "\n" for letter in told)


def test_a_finished_run_has_the_figures_of_its_results(project, dgs, run_dirs):
    dgs("run plan.yaml")
    (directory,) = run_dirs()
    results, data = json.loads((directory / "results.json").read_text()), json.loads(dgs("top --json").out)
    assert (data["status"], data["events"], data["outputs"]) == (
        "done",
        results["events_in"],
        results["outputs"],
    )


def test_a_run_without_figures_is_named(project, dgs):
    dgs("run plan.yaml --set observe=off")
    done = dgs("top")
    assert done.code == 3
    assert "has no figures" in done.err


def test_a_run_whose_port_for_metrics_is_taken_does_not_begin(project, dgs, run_dirs):
    pytest.importorskip("prometheus_client")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        done = dgs(f"run plan.yaml --set runtime.metrics.port={taken.getsockname()[1]}")
    assert done.code == 4
    assert "error[DGS552]: metrics cannot be served at 127.0.0.1:" in done.err
    assert not any((directory / "outputs").exists() for directory in run_dirs())


def test_metrics_without_figures_are_a_contradiction(project, dgs):
    done = dgs("run plan.yaml --set runtime.metrics.port=0 --set observe=off")
    assert done.code == 3
    assert "metrics are made of figures" in done.err
