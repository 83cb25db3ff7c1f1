"""Streams of Parquet files that several tasks read in parts: outputs, state and errors are those of the sequential program."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.errors import OutOfOrderError, UnownedTagError, UserCodeError
from dgs.errors.resources import CompileError
from dgs.spark_bridge.batch import batch_driver, schedule

PROGRAM = """
from dgs.monoids import KeyedWindows
from experiments.event_window.program import *

class ByKey(KeyedWindows):
    monoid = SUM
    accumulates = (dgs.kind("value", key=(0, 1)),)
    closes = (dgs.kind("barrier", key=(0, 1)),)

class Scalar(EventWindow):
    update_batch, update_windows = dgs.Program.update_batch, dgs.Program.update_windows

class Hidden(Scalar):
    def update(self, state, event, emit):
        eval("0")
        return super().update(state, event, emit)

class Failing(EventWindow):
    update_batch, update_windows = dgs.Program.update_batch, dgs.Program.update_windows

    def update(self, state, event, emit):
        if event.payload == 77:
            raise ValueError("seventy-seven")
        return super().update(state, event, emit)
"""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(schedule, "LEAST_ROWS", 1)
    monkeypatch.setattr(schedule, "LARGE_PART", 1)
    monkeypatch.setattr(schedule, "LEAST_IN_WINDOW", 5)


def write(path, ts, payload, **more):
    pq.write_table(pa.table({"ts": ts, "payload": payload, **more}), path, row_group_size=7)


@pytest.fixture
def plan(tmp_path):
    """A plan of windows over two streams of values in Parquet files, the second one split."""
    chance = np.random.default_rng(5)
    for name, rows in (("barriers", 9), ("v", 60), ("w", 45)):
        write(
            tmp_path / f"{name}.parquet", np.sort(chance.integers(0, 50, rows)), chance.integers(0, 50, rows)
        )
    (tmp_path / "own.py").write_text(PROGRAM)
    streams = [
        {
            "id": name,
            "tags": {"kind": "barrier" if name == "barriers" else "value"},
            "source": {"parquet": {"path": f"{name}.parquet"}},
            "payload": "payload",
            **({"split": 3} if name == "w" else {}),
        }
        for name in ("barriers", "v", "w")
    ]
    path = tmp_path / "plan.yaml"
    path.write_text(
        json.dumps({"version": 1, "name": "p", "program": {"ref": "own.py:EventWindow"}, "streams": streams})
    )
    return path


def test_each_row_is_read_by_one_task(here, plan):
    run = dgs.run(plan, runtime="spark", verify=True)
    assert run.verified, run.differences
    for name, rows in (("v", 60), ("w", 45)):
        parts = sorted(
            (part.start, part.stop) for task in here[0].work.tasks for part in (task.rows.get(name),) if part
        )
        assert len(parts) > 1
        assert [start for start, _ in parts] + [rows] == [0] + [stop for _, stop in parts]
    assert sum(one["events"] for one in run.report["per_worker"].values()) == 9 + 60 + 45


def alone(plan, **more):
    """Let a plan have one stream of values, and so one worker."""
    document = json.loads(plan.read_text())
    document["streams"] = [{**stream, **more} for stream in document["streams"][:2]]
    plan.write_text(json.dumps(document))


def test_one_worker_is_cut_into_windows_for_several_cores(here, plan):
    alone(plan)
    run = dgs.run(plan, runtime="spark", verify=True)
    assert run.verified, run.differences
    work = here[0].work
    assert len(work.job.plan.root.subtree_tags().streams) == 2
    assert not work.job.plan.root.children
    assert len(work.replays) == 1
    assert len([task for task in work.tasks if task.rows]) > 1
    assert run.report["per_worker"]["w0"]["events"] == 9 + 60


def test_kinds_of_one_stream_are_cut_apart(here, plan):
    """Barriers and values share a stream: tasks fold its values, and the driver reads its barriers."""
    kinds = np.where(np.arange(60) % 20 == 3, "barrier", "value")
    write(plan.parent / "v.parquet", np.arange(60), np.arange(60), kind=kinds)
    document = json.loads(plan.read_text())
    document["streams"] = [document["streams"][1]]
    document["streams"][0]["tags"] = {"kind": {"column": "kind"}, "kinds": ["value", "barrier"]}
    plan.write_text(json.dumps(document))
    run = dgs.run(plan, runtime="spark", verify=True)
    assert run.verified, run.differences
    assert here[0].work.replays[0].root.count == 3


def test_one_worker_of_accumulating_events_alone_is_folded_in_parts(here, plan):
    document = json.loads(plan.read_text())
    document["streams"] = [document["streams"][1]]
    plan.write_text(json.dumps(document))
    run = dgs.run(plan, runtime="spark", verify=True)
    assert run.verified, run.differences
    assert len(here[0].work.tasks) > 1


def test_one_worker_that_the_user_asks_for_is_one_task(here, plan):
    alone(plan)
    run = dgs.run(plan, runtime="spark", optimizer="sequential", verify=True)
    assert run.verified, run.differences
    assert (len(here[0].work.tasks), here[0].work.replays) == (1, ())


@pytest.mark.parametrize("reason", ["small windows", "one core", "not from Parquet", "up to a cut"])
def test_one_worker_is_one_task_where_a_cut_gains_nothing(here, plan, monkeypatch, reason):
    alone(plan, **({"source": {"csv": {"path": "v.csv"}}} if reason == "not from Parquet" else {}))
    (plan.parent / "v.csv").write_text("ts,payload\n1,2\n3,4\n")
    if reason == "small windows":
        write(plan.parent / "barriers.parquet", np.arange(50), np.arange(50))
    if reason == "one core":
        monkeypatch.setattr(batch_driver, "cores_of", lambda _: 1)
    run = dgs.run(
        plan, runtime="spark", verify=True, **({"max_events": 40} if reason == "up to a cut" else {})
    )
    assert run.verified, run.differences
    assert (len(here[0].work.tasks), here[0].work.replays) == (1, ())


def test_compiled_updates_fold_windows(here, plan, monkeypatch):
    """What `runtime.compile` says holds in the tasks that fold and replay, too."""
    document = json.loads(plan.read_text())
    document["program"]["ref"] = "own.py:Hidden"
    document["runtime"] = {"kind": "spark", "compile": "require"}
    plan.write_text(json.dumps(document))
    with pytest.raises(CompileError):
        dgs.run(plan)
    document["program"]["ref"] = "own.py:Scalar"
    plan.write_text(json.dumps(document))
    assert dgs.run(plan, verify=True).verified


def test_driver_gets_only_states_and_reports_of_the_units(here, plan):
    run = dgs.run(plan, runtime="spark")
    work = here[0].work
    assert len(work.replays) == 1
    assert work.replays[0].root.count == 9
    assert not work.replays[0].root.directory.exists()
    assert len(list(run.outputs)) == 9


def test_units_that_read_one_stream_each_read_all_its_parts(here, plan):
    document = json.loads(plan.read_text())
    document["program"]["ref"] = "own.py:ByKey"
    for name in ("barriers", "v", "w"):
        table = pq.read_table(plan.parent / f"{name}.parquet")
        keys = np.arange(len(table)) % 2
        write(plan.parent / f"{name}.parquet", table["ts"], table["payload"], key=keys)
    for stream in document["streams"]:
        stream["tags"]["key"] = {"column": "key"}
        stream.pop("split", None)
    plan.write_text(json.dumps(document))
    run = dgs.run(plan, runtime="spark", verify=True, optimizer={"name": "greedy", "max_leaves": 8})
    assert run.verified, run.differences
    assert len(here[0].work.replays) == 2
    tasks = here[0].work.tasks
    assert {name for task in tasks for name in task.rows}
    assert all(
        len({one.unit for one in tasks if name in one.rows}) == 2 for task in tasks for name in task.rows
    )


def test_disorder_between_two_parts_is_found(here, plan):
    ts = np.arange(60)
    ts[21:] -= 5
    write(plan.parent / "v.parquet", ts, ts)
    with pytest.raises(OutOfOrderError) as caught:
        dgs.run(plan, runtime="spark")
    found = caught.value
    assert (found.stream, found.row, found.ts, found.previous) == ("v", 21, 16, 20)


def test_error_of_user_code_names_its_event(here, plan):
    payload = np.zeros(60, dtype=np.int64)
    payload[50] = 77
    write(plan.parent / "v.parquet", np.arange(60), payload)
    plan.write_text(plan.read_text().replace("own.py:EventWindow", "own.py:Failing"))
    with pytest.raises(UserCodeError, match="seventy-seven") as caught:
        dgs.run(plan, runtime="spark")
    assert (caught.value.stream, caught.value.ts) == ("v", 50)


def test_tag_that_no_worker_owns_is_refused_in_any_part(here, plan):
    kinds = ["value"] * 59 + ["barrier"]
    write(plan.parent / "v.parquet", np.arange(60), np.arange(60), kind=kinds)
    document = json.loads(plan.read_text())
    document["streams"][1]["tags"] = {"kind": {"column": "kind"}, "kinds": ["value"]}
    plan.write_text(json.dumps(document))
    with pytest.raises(UnownedTagError, match="row 59"):
        dgs.run(plan, runtime="spark")


def test_the_sources_of_a_checkpoint_are_those_of_one_reader(here, plan, tmp_path):
    document = json.loads(plan.read_text()) | {"checkpoint": {"dir": "kept", "every": "1h"}}
    plan.write_text(json.dumps(document))
    whole = dgs.run(plan, runtime="spark", fresh=True)
    again = dgs.run(plan, runtime="local", resume=True)
    assert (again.report["events_in"], again.state) == (whole.report["events_in"], whole.state)


def test_file_damaged_after_its_footer_is_named(here, plan):
    path = Path(plan.parent / "v.parquet")
    data = bytearray(path.read_bytes())
    data[20:60] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(dgs.errors.DgsError, match="v"):
        dgs.run(plan, runtime="spark")
