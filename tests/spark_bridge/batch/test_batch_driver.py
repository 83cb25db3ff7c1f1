"""Batch on Spark alone: the plan of the other runtimes, cut into tasks, gives the sequential outputs and state.

Most tests run the tasks in this process, one after the other: one test per application uses Spark.
"""

import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import dgs
from dgs import codec
from dgs.api.preparing import Launch, from_file, prepare
from dgs.api.running import run_job
from dgs.errors import OutOfOrderError, UnownedTagError, UsageError, UserCodeError, WorkerLostError
from dgs.job.run_directory import RunDirectory
from dgs.model.impl_tags import ImplTagSet
from dgs.semantics import sequential
from dgs.spark_bridge.batch import batch_driver, replays, root_events, tasks, window_joins, window_states
from dgs.spark_bridge.batch.task_outputs import error_of
from dgs.spark_bridge.batch.tasks import ERROR, LETTER, OUTPUTS, Task
from tests.programs import BARRIER, VALUE, EventWindow
from tests.strategies import random_workload

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data" / "nycflights13"
WINDOW = {
    "barriers": [(BARRIER(), 10, 0), (BARRIER(), 20, 0)],
    "a": [(VALUE(0), ts, ts) for ts in range(1, 25)],
    "b": [(VALUE(1), ts, 100) for ts in (5, 10, 15)],
}


def outputs_of(run):
    return Counter(map(codec.encode, run.outputs))


def in_order(program, streams):
    return dgs.run(program, streams=streams, runtime="local", optimizer="sequential")


@pytest.mark.parametrize("seed", range(700, 760))
def test_any_plan_gives_the_sequential_outputs_and_state(seed, here):
    work = random_workload(random.Random(seed))
    run = dgs.run(
        work.program,
        streams=dict(zip(work.stream_ids, work.batches, strict=True)),
        optimizer={"name": "random", "seed": seed, "max_leaves": 4},
        runtime={"kind": "spark", "batch_rows": random.Random(seed).choice([1, 3, 1000])},
    )
    expected = sequential.run(work.program, work.batches)
    assert outputs_of(run) == Counter(codec.encode(output.value) for output in expected.outputs)
    assert codec.encode(run.state) == codec.encode(expected.state)
    assert run.report["events_in"] == expected.events


def test_tasks_are_independent_keys(here):
    run = dgs.run(
        ROOT / "experiments/page_view_join/plan.yaml", runtime="spark", max_events=3000, verify=True
    )
    assert run.verified, run.differences
    assert len(here[0].work.tasks) == 2


class Failing(EventWindow):
    update_batch = dgs.Program.update_batch

    def update(self, state, event, emit):
        if event.ts == 15:
            raise ValueError("fifteen")
        return super().update(state, event, emit)


def test_user_code_that_raises_ends_the_run_with_its_event(here):
    with pytest.raises(UserCodeError, match="ValueError: fifteen") as caught:
        dgs.run(Failing(), streams=WINDOW, runtime="spark")
    assert caught.value.ts == 15
    assert "in update" in caught.value.trace


def test_events_that_raise_are_skipped_on_request(here):
    settings = {"on_error": "skip"}
    run = dgs.run(Failing(), streams=WINDOW, runtime="spark", settings=settings)
    assert outputs_of(run) == outputs_of(
        dgs.run(Failing(), streams=WINDOW, runtime="local", settings=settings)
    )
    assert run.report["skipped"] == 2
    assert {letter.ts for letter in run.dead_letters} == {15}


def test_dead_letters_do_not_come_to_a_caller_that_collects_nothing(here, tmp_path):
    path = plan_file(tmp_path, on_error="skip", sinks=[{"jsonl": {"path": "out"}}])
    (tmp_path / "own.py").write_text(FAILING_AT_SEVEN)
    plan = json.loads(path.read_text()) | {"program": {"ref": "own.py:Failing"}}
    path.write_text(json.dumps(plan))
    launch = Launch(prepare(from_file(path, {})), RunDirectory(tmp_path / "run"))
    job = launch.job
    job = replace(job, runtime=job.runtime.model_copy(update={"kind": "spark"}))
    result = run_job(job)
    answers = [answer.what for answer in replays.replayed(here[0].work, here[0].answers)]
    assert not {OUTPUTS, LETTER} & set(answers)
    assert (result.figures.events, result.figures.skipped) == (21, 2)
    assert lines_in(tmp_path / "out") == [SUMS[0], SUMS[1] - 7 - 7]
    letters = [
        line
        for file in (tmp_path / "run").rglob("dead-letter-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert [json.loads(line)["ts"] for line in letters] == [7, 7]


FAILING_AT_SEVEN = """
import dgs
from experiments.event_window.program import EventWindow

class Failing(EventWindow):
    update_batch, update_windows = dgs.Program.update_batch, dgs.Program.update_windows

    def update(self, state, event, emit):
        if event.ts == 7:
            raise ValueError("seven")
        return super().update(state, event, emit)
"""


def test_disorder_reaches_the_caller_unchanged(here):
    with pytest.raises(OutOfOrderError) as caught:
        dgs.run(EventWindow(), streams={**WINDOW, "a": [(VALUE(0), 5, 1), (VALUE(0), 4, 1)]}, runtime="spark")
    assert (caught.value.stream, caught.value.row) == ("a", 1)


def plan_file(folder, **sections):
    """Write a plan of windows over two files of values, and a file of barriers."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("b", [5, 9]), ("v0", range(10)), ("v1", range(3, 12))):
        lines = [json.dumps({"ts": ts, "payload": ts}) for ts in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    program = ROOT / "experiments/event_window/program.py"
    sources = {name: {"jsonl": {"path": f"{name}.jsonl"}} for name in ("b", "v0", "v1")}
    plan = {
        "version": 1,
        "name": "windows",
        "program": {"ref": f"{program}:EventWindow"},
        "streams": [
            {"id": name, "tags": {"kind": "barrier" if name == "b" else "value"}, "source": source}
            for name, source in sources.items()
        ],
        **sections,
    }
    path = folder / "plan.yaml"
    path.write_text(json.dumps(plan))
    return path


SUMS = [0 + 1 + 2 + 3 + 4 + 3 + 4, 2 * (5 + 6 + 7 + 8)]
"""The sums of the values before the barriers at 5 and 9. A value at the time of a barrier belongs to the next window."""


def lines_in(folder):
    return sorted(
        json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()
    )


def test_outputs_are_committed_to_files_once(here, tmp_path):
    path = plan_file(tmp_path, sinks=[{"jsonl": {"path": "out"}}])
    for _ in range(2):  # the second run replaces the first
        run = dgs.run(path, runtime="spark", fresh=True)
        assert lines_in(tmp_path / "out") == SUMS
    assert run.report["outputs"] == 2
    assert not list(tmp_path.rglob("*.partial"))


def test_accumulating_events_are_folded_by_a_task_for_each_leaf(here, tmp_path):
    run = dgs.run(plan_file(tmp_path), runtime="spark")
    assert sorted(run.outputs) == SUMS
    assert [task.plan for task in here[0].work.tasks] == [None, None]
    assert run.report["events_in"] == 21
    assert sum(one["events"] for one in run.report["per_worker"].values()) == 21


def test_each_window_is_joined_to_one_partial_state(here, tmp_path):
    dgs.run(plan_file(tmp_path), runtime="spark")
    work, before = here[0].work, here[0].folds
    after = list(window_joins.joined_answers(work, before))
    assert [one.task for one in before] == [0, 1]
    assert [codec.decode(one.data) for one in after] == [[(0, SUMS[0]), (1, SUMS[1]), (2, 9 + 9 + 10 + 11)]]


@pytest.mark.parametrize(
    ("windows_a_chunk", "largest_row", "most_folds"), [(1, 99, 1), (2, 1, 16), (1024, 1, 1)]
)
def test_windows_are_joined_in_chunks_of_any_size(  # noqa: PLR0917 - three sizes
    here, tmp_path, monkeypatch, windows_a_chunk, largest_row, most_folds
):
    for module in (window_states, tasks, replays):
        monkeypatch.setattr(module, "WINDOWS_A_CHUNK", windows_a_chunk)
    monkeypatch.setattr(window_states, "LARGEST_ROW", largest_row)
    monkeypatch.setattr(window_states, "FIRST", 1)
    monkeypatch.setattr(window_joins, "MOST_FOLDS", most_folds)
    run = dgs.run(plan_file(tmp_path), runtime="spark", verify=True)
    assert run.verified
    assert len(here[0].folds) == 6


def test_events_of_a_root_that_cannot_be_written_are_read_again(here, tmp_path, monkeypatch):
    monkeypatch.setattr(root_events, "_is_put", lambda _batch, _file: False)
    run = dgs.run(plan_file(tmp_path), runtime="spark")
    assert [replay.root.has_events for replay in here[0].work.replays] == [False]
    assert sorted(run.outputs) == SUMS


def test_join_that_raises_ends_the_run(here, tmp_path):
    dgs.run(plan_file(tmp_path), runtime="spark")
    work, (one, other) = here[0].work, here[0].folds
    other = other._replace(data=codec.encode([(0, "no number")]))
    [answer] = window_joins.joined_answers(work, [one, other])
    assert answer.what == ERROR
    assert "join of program EventWindow raised TypeError" in str(error_of(answer.data))


def test_run_that_fails_commits_nothing(here, tmp_path):
    path = plan_file(tmp_path, sinks=[{"jsonl": {"path": "out"}}])
    with (tmp_path / "v1.jsonl").open("a") as file:
        file.write('{"ts": 1, "payload": 0}\n')
    with pytest.raises(OutOfOrderError):
        dgs.run(path, runtime="spark")
    assert not list((tmp_path / "out").glob("part-*.jsonl"))


def test_run_that_was_stopped_on_another_runtime_is_finished_here(here, tmp_path):
    path = plan_file(tmp_path, sinks=[{"jsonl": {"path": "out"}}], checkpoint={"dir": "kept", "every": "1h"})
    whole = dgs.run(path, runtime="spark", fresh=True)
    again = dgs.run(path, runtime="spark", resume=True)
    assert (again.report["events_in"], again.state) == (whole.report["events_in"], whole.state)
    assert lines_in(tmp_path / "out") == SUMS


def test_tag_that_no_worker_owns_is_refused(here, tmp_path):
    path = plan_file(tmp_path)
    plan = json.loads(path.read_text())
    plan["streams"][1]["tags"] = {"kind": {"column": "kind"}, "kinds": ["value"]}
    path.write_text(json.dumps(plan))
    (tmp_path / "v0.jsonl").write_text('{"ts": 1, "payload": 0, "kind": "barrier"}\n')
    with pytest.raises(UnownedTagError, match="barrier"):
        dgs.run(path, runtime="spark")


def test_live_sources_are_refused(tmp_path):
    path = plan_file(tmp_path)
    plan = json.loads(path.read_text())
    plan["streams"][1]["source"] = {"socket": {"port": 0}}
    path.write_text(json.dumps(plan))
    with pytest.raises(UsageError, match="'v0' is live"):
        dgs.run(path, runtime="spark")


APPLICATIONS = [
    ("event_window/plan.yaml", 30_000),
    ("page_view_join/plan.yaml", 5_000),
    ("fraud_detection/plan.yaml", 30_000),
]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("path", "events"), APPLICATIONS)
def test_application_on_spark_has_the_sequential_outputs(path, events):
    run = dgs.run(ROOT / "experiments" / path, runtime="spark", max_events=events, verify=True)
    assert run.verified, run.differences
    assert run.report["events_in"] == events


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the nycflights13 data is not beside the checkout")
@pytest.mark.usefixtures("spark")
def test_flights_on_spark_have_the_sequential_outputs():
    path = ROOT / "experiments" / "flights" / "plan_split.yaml"
    run = dgs.run(path, runtime="spark", max_events=3_000, verify=True)
    assert run.verified, run.differences


def test_task_that_spark_loses_is_a_lost_worker(spark, monkeypatch):
    def dies(_batches):
        os._exit(3)
        yield

    monkeypatch.setattr(batch_driver, "batches_of", lambda _work: dies)
    with pytest.raises(WorkerLostError):
        list(batch_driver.rows_of(spark, SimpleNamespace(tasks=(Task(0, ImplTagSet.of({})),), replays=())))
