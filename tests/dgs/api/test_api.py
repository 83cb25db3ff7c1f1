"""`dgs.run` from Python: programs over streams in memory, plan files, results."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dgs
from dgs.errors import MissingPackageError, PlanFileError, UsageError
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.sinks.kept_outputs import KeptOutputs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def __init__(self, scale=1):
        self.scale = scale

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            return state + self.scale * event.payload
        emit(state)
        return 0

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


class Records(Sums):
    def update(self, state, event, emit):
        if event.tag.kind == BARRIER:
            emit({"sum": state, "at": event.ts * 0.5})
        return super().update(state, event, lambda _: None)


BARRIERS = [("barrier", 2, None), ("barrier", 4, None)]
LEFT = [("value", 1, 1), ("value", 2, 10), ("value", 3, 100)]
RIGHT = [("value", 1, 2), ("value", 4, 20)]
STREAMS = {"barriers": BARRIERS, "left": LEFT, "right": RIGHT}


def test_run_gives_outputs_state_plan_and_report():
    run = dgs.run(Sums, streams=STREAMS, verify=True)
    assert (run.outputs, run.state, run.verified) == ([3, 110], 20, True)
    assert (run.report["events_in"], run.report["outputs"], run.report["runtime"]) == (7, 2, "local")
    assert isinstance(run.plan, Plan)
    assert run.run_dir is None


@pytest.mark.parametrize(
    ("order", "outputs"),
    [(["barriers", "left", "right"], [3, 110]), (["left", "right", "barriers"], [13, 120])],
)
def test_order_of_streams_breaks_ties(order, outputs):
    assert dgs.run(Sums, streams={name: STREAMS[name] for name in order}).outputs == outputs


@pytest.mark.parametrize(
    "left",
    [
        LEFT,
        tuple(LEFT),
        (item for item in LEFT),
        [dgs.Event(VALUE(), "any", ts, payload) for _, ts, payload in LEFT],
        [EventBatch.of("any", rank=9, tags=[VALUE()], ts=[1, 2, 3], payload=np.array([1, 10, 100]))],
        EventBatch.of("any", rank=9, tags=[VALUE()], ts=[1, 2, 3], payload=[1, 10, 100]),
        [*LEFT[:2], dgs.Heartbeat("left", 2), LEFT[2]],
        [(dgs.Tag("value"), ts, payload) for _, ts, payload in LEFT],
    ],
    ids=["tuples", "tuple", "generator", "events", "batches", "batch", "heartbeat", "tags"],
)
def test_items_may_have_many_forms(left):
    run = dgs.run(Sums(), streams={**STREAMS, "left": left}, verify=True)
    assert (run.outputs, run.verified) == ([3, 110], True)


def test_empty_streams_are_fine():
    run = dgs.run(Sums, streams={"barriers": BARRIERS, "left": []}, verify=True)
    assert (run.outputs, run.verified) == ([0, 0], True)


def test_program_instance_keeps_its_arguments():
    assert dgs.run(Sums(scale=2), streams=STREAMS).outputs == [6, 220]


def test_given_plan_is_run_unchanged():
    leaf = PlanNode(
        "all",
        ImplTagSet.of({"barriers": TagSet.of(BARRIER), "left": TagSet.of(VALUE), "right": TagSet.of(VALUE)}),
    )
    run = dgs.run(Sums, streams=STREAMS, plan=Plan(leaf))
    assert run.plan == Plan(leaf)
    assert list(run.report["per_worker"]) == ["all"]


@pytest.mark.parametrize(
    "options", [{"optimizer": "sequential"}, {"optimizer": {"name": "greedy", "max_leaves": 1}}]
)
def test_optimizer_by_name_or_section(options):
    assert dgs.run(Sums, streams=STREAMS, **options).report["workers"] == 1


def test_max_events_and_settings_are_those_of_the_command_line():
    run = dgs.run(Sums, streams=STREAMS, max_events=4, settings={"runtime.batch_rows": 1}, verify=True)
    assert (run.report["events_in"], run.outputs, run.verified) == (4, [3], True)


def test_wrong_setting_names_itself():
    with pytest.raises(
        PlanFileError, match=r"runtime=: runtime.kind: expected 'ray', 'local' or 'spark', got 'locl'"
    ):
        dgs.run(Sums, streams=STREAMS, runtime="locl")


def test_program_without_streams_is_refused():
    with pytest.raises(UsageError, match="needs streams"):
        dgs.run(Sums)


def test_verification_failure_is_reported_not_raised():
    class Wrong(Sums):
        def join(self, left, right):
            return max(left, right)

    sides = [PlanNode(name, ImplTagSet.of({name: TagSet.of(VALUE)})) for name in ("left", "right")]
    plan = Plan(PlanNode("root", ImplTagSet.of(barriers=TagSet.of(BARRIER)), children=tuple(sides)))
    run = dgs.run(Wrong, streams=STREAMS, verify=True, plan=plan)
    assert run.verified is False
    assert run.differences[0].startswith("the outputs differ from those of the sequential program")
    assert "NOT equal" in repr(run)


def test_nothing_is_written_without_a_plan_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dgs.run(Sums, streams=STREAMS)
    assert not list(tmp_path.iterdir())


def test_run_dir_is_written_when_asked_for(tmp_path):
    run = dgs.run(Sums, streams=STREAMS, run_dir=tmp_path / "run")
    assert run.run_dir == tmp_path / "run"
    assert {path.name for path in run.run_dir.iterdir()} == {
        "outputs",
        "plan.yaml",
        "results.json",
        "run.json",
        "lock",
        "figures.ndjson",
        "plans.ndjson",
        "run.log",
    }
    assert run.outputs == [3, 110]


def test_plan_file_runs_as_from_the_command_line(project, run_dirs):
    run = dgs.run("plan.yaml", verify=True, settings={"program.args.scale": 2})
    assert (run.outputs, run.verified, run.run_dir) == ([6, 220, 440], True, run_dirs()[0])


def test_everything_in_a_plan_by_hand_means_the_tags_of_its_streams(project):
    text = Path("plan.yaml").read_text()
    leaves = 'children: [{id: w1, tags: {left: "*"}}, {id: w2, tags: {right: "*"}}]'
    Path("plan.yaml").write_text(f'{text}plan: {{id: w0, tags: {{barriers: "*"}}, {leaves}}}\n')
    run = dgs.run("plan.yaml", verify=True)
    assert [node.id for node in run.plan.nodes()] == ["w0", "w1", "w2"]
    assert run.verified


def test_plan_file_takes_memory_from_python(project, edit):
    edit("plan.yaml", "{csv: {path: left.csv}}", "{memory: mine}")
    assert dgs.run("plan.yaml", streams={"mine": [{"ts": [1, 2], "amount": [5, 6]}]}).outputs == [7, 6, 220]


def test_to_arrow_holds_values_with_their_events():
    table = dgs.run(Sums, streams=STREAMS).to_arrow()
    assert table.to_pylist() == [
        {"ts": 2, "stream": "barriers", "kind": "barrier", "key": None, "value": 3},
        {"ts": 4, "stream": "barriers", "kind": "barrier", "key": None, "value": 110},
    ]


def test_to_arrow_makes_columns_of_records():
    table = dgs.run(Records, streams=STREAMS).to_arrow()
    assert table.column_names == ["ts", "stream", "kind", "key", "sum", "at"]
    assert table["at"].to_pylist() == [1.0, 2.0]


def test_to_arrow_of_no_outputs_and_of_mixed_ones():
    class Mixed(Sums):
        def update(self, state, event, emit):
            emit("text" if event.ts % 2 else 7)
            return state

    assert dgs.run(Sums, streams={"left": LEFT}).to_arrow().num_rows == 0
    with pytest.raises(UsageError, match="no common Arrow type"):
        dgs.run(Mixed, streams={"left": LEFT}).to_arrow()


def test_to_pandas_without_pandas_names_the_package(monkeypatch):
    monkeypatch.setattr("dgs.frames.output_list.find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match="pip install pandas"):
        dgs.run(Sums, streams=STREAMS).to_pandas()


def test_repr_summarises_the_run():
    assert repr(dgs.run(Sums, streams=STREAMS)).startswith("<Run Sums: 7 events, 2 outputs in ")


def test_import_loads_nothing_heavy():
    script = "import sys, dgs; print([m for m in ('numpy', 'pyarrow', 'ray', 'pyspark', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Numbers(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.payload)
        return state + 1


def test_outputs_stay_on_disk_until_they_are_asked_for(monkeypatch):
    asked = []
    read = KeptOutputs.__iter__
    monkeypatch.setattr(KeptOutputs, "__iter__", lambda kept: asked.append(kept) or read(kept))
    events = [("value", ts, "x" * 100) for ts in range(50)]
    run = dgs.run(Numbers, streams={"values": events}, settings={"runtime.buffer_bytes": "1KiB"})
    while_it_ran = len(asked)  # outputs that were held until their commit
    assert run.outputs == [payload for _, _, payload in events]
    assert len(asked) == while_it_ran + 1
    assert asked[-1] not in asked[:-1]
    assert pickle.loads(pickle.dumps(run)).outputs == run.outputs
