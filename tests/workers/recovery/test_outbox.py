"""Outputs from a checkpoint's outbox reach their sink before newer ones, also under another dealing of streams."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from dgs.job.schema import RuntimeConfig, SinkConfig, StreamConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.lanes import Lane
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.positions import BLOCK, Positions
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.local import run_local
from dgs.workers.runtime.store_opening import open_directory
from dgs.workers.sinks.sqlite_sink import SqliteSink
from dgs.workers.sinks.sqlite_tables import Writer

VIEW = Tag("view")


class Echo(Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.payload)
        return state


def job(folder: Path, *, splits: int) -> Job:
    stream = StreamConfig(
        id="s", source={"memory": "s"}, tags={"kind": "view"}, payload="payload", split=splits
    )
    owned = {name: TagSet.of(VIEW) for name in stream.impl_streams}
    rows = list(range(3 * BLOCK))
    return Job(
        Echo(),
        Plan(PlanNode("root", ImplTagSet.of(owned))),
        (stream,),
        folder,
        folder,
        RuntimeConfig(kind="local"),
        sinks=(SinkConfig.model_validate({"sqlite": {"path": "out.db"}}),),
        memory={"s": [{"ts": rows, "payload": rows}]},
        checkpoint_dir=folder / "checkpoints",
        resumes=True,
    )


def outputs(seqs: list[int], split: int) -> OutputBatch:
    return OutputBatch.of(
        f"s/{split}", rank=0, tags=[VIEW], ts=seqs, seq=seqs, index=[0] * len(seqs), values=seqs
    )


def test_outbox_of_another_dealing_is_delivered_though_out_of_order_under_the_new_one(tmp_path):
    """Positions: split 0 is done, splits 1 and 2 have only their first rows, none of which was accepted."""
    first = [BLOCK, BLOCK + 1]
    second = [2 * BLOCK]
    keys = {
        0: OrderKey(3 * BLOCK, 0, 3 * BLOCK),
        1: OrderKey(BLOCK + 2, 0, BLOCK + 2),
        2: OrderKey(2 * BLOCK + 1, 0, 2 * BLOCK + 1),
    }
    lanes = [Lane(i, "root", f"s/{i}", TagSet.of(VIEW)) for i in range(3)]
    before = open_directory(job(tmp_path, splits=3), lambda _files: None)
    run = before.name_run(resumes=False)
    SqliteSink(tmp_path / "out.db", "outputs", Writer(run, generation=1)).close()
    before.begin()
    zero = outputs(list(range(BLOCK)), 0)
    outbox = (outputs(second, 2), zero, outputs(first, 1))
    before.commit(Checkpoint(1, b"\x00", Positions.of(lanes, keys, {"s": 3}), outbox=outbox))
    before.close()
    run_local(job(tmp_path, splits=1))
    values = [
        json.loads(v) for (v,) in sqlite3.connect(tmp_path / "out.db").execute("SELECT value FROM outputs")
    ]
    assert sorted(values) == list(range(3 * BLOCK))
