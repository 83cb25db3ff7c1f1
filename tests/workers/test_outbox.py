"""Outputs that travelled in a checkpoint reach their sink before anything newer, also when streams are dealt otherwise by then."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from dgs.config import RuntimeConfig, SinkConfig, StreamConfig
from dgs.impl_tags import ImplTagSet
from dgs.order import OrderKey
from dgs.outputs import OutputBatch
from dgs.program import Program
from dgs.tags import Tag
from dgs.tagset import TagSet
from planner.plan import Plan, PlanNode
from workers.checkpoints import Checkpoint
from workers.checkpoints.opening import open_directory
from workers.job import Job
from workers.lanes import Lane
from workers.local import run_local
from workers.positions import Positions
from workers.sources.dealing import BLOCK

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
    """Positions: split 0 is done, split 1 and 2 have nothing but their first rows; of these nothing was accepted."""
    first = [BLOCK, BLOCK + 1]
    second = [2 * BLOCK]
    keys = {
        0: OrderKey(3 * BLOCK, 0, 3 * BLOCK),
        1: OrderKey(BLOCK + 2, 0, BLOCK + 2),
        2: OrderKey(2 * BLOCK + 1, 0, 2 * BLOCK + 1),
    }
    lanes = [Lane(i, "root", f"s/{i}", TagSet.of(VIEW)) for i in range(3)]
    before = open_directory(job(tmp_path, splits=3), lambda _files: None)
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
