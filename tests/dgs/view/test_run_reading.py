"""The view of a run, read from its directory."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from dgs.observe import Generation
from dgs.view.moments import Placed
from dgs.view.page import page, shape_of
from dgs.view.run_reading import RunView
from dgs.view.shown_figures import Shown
from dgs.workers.observing.figure_lines import FiguresFile
from dgs.workers.runtime.observed import gathered
from tests.dgs.view.drawn_runs import BEGAN, figures_of, tree
from tests.dgs.view.left_runs import leave


def seen_in(directory, status):
    with closing(RunView(directory, lambda: status)) as view:
        return view.seen()


def test_a_run_that_waits_says_for_which_stream_since_when_and_who_waits(tmp_path):
    seen = seen_in(leave(tmp_path, seconds=60, status="running", mute_since=40), "running")
    last = seen.moments[-1]
    assert last.sentence == "Worker w0 waits for stream 'rules' to pass 2013-07-16 09:28:40."
    assert "heard 19 s ago" in last.more
    assert "5 more workers wait behind it" in last.more
    assert [stream.name for stream in last.streams if stream.is_waited_for] == ["rules"]
    assert [worker.state for worker in last.workers] == ["waiting"] + ["held"] * 5


def test_counts_become_rates_within_a_generation(tmp_path):
    seen = seen_in(leave(tmp_path, seconds=30, restart=12), "done")
    before, restarted = (next(m for m in seen.moments if m.at == at) for at in (8.0, 13.0))
    assert before.rate == pytest.approx(9000 * 3)
    assert all(worker.rate >= 0 for worker in restarted.workers)


def test_a_restart_is_reported_with_its_reason(tmp_path):
    seen = seen_in(leave(tmp_path, seconds=30, restart=12), "done")
    restarts = [one for one in seen.happenings if one.kind == "restart"]
    assert [(one.at, one.text) for one in restarts] == [
        (12.0, "generation 2 began: host 2 was lost: its process ended (signal 9)")
    ]


def test_the_tree_is_that_of_the_plan(tmp_path):
    plan = tree(20)
    seen = seen_in(leave(tmp_path, plan, seconds=5), "done")
    parents = {
        one.name: None if one.parent is None else seen.plans[0][one.parent].name for one in seen.plans[0]
    }
    assert parents == {one.name: None if one.parent is None else plan[one.parent].name for one in plan}


def test_workers_of_an_unknown_plan_are_shown_in_one_level(tmp_path):
    directory = leave(tmp_path, tree(4), seconds=5)
    (directory / "plans.ndjson").unlink()
    assert [one.parent for one in seen_in(directory, "done").plans[-1]] == [None, 0, 0, 0]


def test_a_plan_is_drawn_once_there_are_figures_of_it(tmp_path):
    directory = leave(tmp_path, tree(3), seconds=5, status="running")
    with (directory / "plans.ndjson").open("a") as file:
        file.write(json.dumps({"id": "alone"}) + "\n")
    with closing(RunView(directory, lambda: "running")) as view:
        before = view.seen()
        FiguresFile(directory, warn=print).add(figures_of((Placed("alone", None),), 7, restart=5))
        assert view.news()
        after = view.seen()
    assert [page(seen).html.count("data-plan=") for seen in (before, after)] == [1, 2]
    assert shape_of(before) != shape_of(after)


def test_a_run_without_figures_shows_its_plan_and_its_results(tmp_path):
    results = {"events_in": 1234, "outputs": 5, "seconds": 2.5, "error": {"message": "update failed"}}
    directory = leave(tmp_path, seconds=1, status="failed", results=results)
    moment = seen_in(directory, "failed").moments[-1]
    assert "has no figures" in moment.sentence
    assert "update failed" in moment.more
    assert "1,234 events, 5 outputs" in moment.more
    assert len(moment.workers) == 6


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    directory = leave(tmp_path, seconds=10, status="running")
    file = directory / "figures.ndjson"
    file.write_bytes(file.read_bytes()[:-40])
    seen = seen_in(directory, "killed")
    assert [moment.at for moment in seen.moments][-1] == 8.0
    assert seen.moments[-1].sentence == "The process of the run was killed."


def test_figures_of_another_version_are_named_and_the_rest_is_shown(tmp_path):
    directory = leave(tmp_path, seconds=10, results={"events_in": 7, "outputs": 1, "seconds": 1.0})
    file = directory / "figures.ndjson"
    file.write_text(file.read_text().replace('"version":1', '"version":99'))
    seen = seen_in(directory, "done")
    assert "version 99" in seen.note
    assert "7 events" in seen.moments[-1].more


def test_a_run_that_ended_with_an_error_says_it(tmp_path):
    directory = leave(tmp_path, seconds=10, status="failed", results={"error": {"message": "DGS700: no"}})
    assert seen_in(directory, "failed").moments[-1].sentence == "The run has failed: DGS700: no."


def test_news_are_the_lines_since_the_last_look(tmp_path):
    directory = leave(tmp_path, seconds=10, status="running")
    status = ["running"]
    view = RunView(directory, lambda: status[0])
    before = len(view.seen().moments)
    view.news()
    assert len(view.seen().moments) == before
    status[0] = "killed"
    assert [moment.status for moment in view.news()] == ["killed"]
    assert view.is_over
    assert view.news() == []


def test_a_page_that_stays_open_keeps_a_bounded_history_with_its_beginning_and_all_of_late():
    shown, plan = Shown(), tree(3)
    shown.know_plans([plan])
    for second in range(1, 4001):
        shown.add(figures_of(plan, second))
    seen = shown.seen(id="1", name="payments", status="running", about="", unit="ms")
    times = [moment.at for moment in seen.moments]
    assert len(times) <= 1200
    assert times[0] == 1
    assert times[-300:] == list(range(3701, 4001))
    assert len(seen.happenings) <= 2000


def test_figures_of_the_host_that_reports_first_belong_to_the_whole_plan():
    shown, plan = Shown(), tree(3)
    shown.know_plans([tree(20), plan])
    whole = replace(figures_of(plan, 2, hosts=2), generations=(Generation(1, BEGAN, 3, 2),))
    of_one_host = {name: worker for name, worker in whole.workers.items() if worker.host == 0}
    first, second = shown.add(replace(whole, workers=of_one_host)), shown.add(whole)
    assert [moment.plan for moment in (first, second)] == [1, 1]
    assert [worker.host for worker in first.workers] == ["0", "", "0"]
    assert [worker.host for worker in second.workers] == ["0", "1", "0"]
    assert (first.hosts, second.hosts) == (2, 2)


def test_work_of_a_lost_generation_is_no_part_of_the_next_one(tmp_path):
    directory, plan = leave(tmp_path, seconds=12, status="running"), tree(6)
    lost = figures_of(plan, 12, restart=12)
    for figures in (replace(gathered((), lost), phase="starting"), figures_of(plan, 13, restart=12)):
        FiguresFile(directory, warn=print).add(figures)
    seen = seen_in(directory, "running")
    starting, running = seen.moments[-2:]
    assert starting.sentence == "The run starts again."
    assert starting.more.startswith("Host 2 was lost: its process ended (signal 9).")
    assert (starting.streams, starting.sinks, starting.between_hosts) == ((), (), "")
    assert {now.rate for now in starting.workers} == {0.0}
    assert max(now.rate for now in running.workers) < 10_000
    assert shape_of(seen) == shape_of(replace(seen, moments=seen.moments[:-2]))
