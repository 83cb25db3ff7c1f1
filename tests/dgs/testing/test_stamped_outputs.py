"""Stamped outputs: their place is that of their block, in every runtime, whichever tick closes the block."""

from __future__ import annotations

from typing import Any

import pytest

import dgs
from dgs.errors import ProgramError
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch, Stamped, Stamps
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.semantics import sequential
from dgs.testing import run_plans, simulate
from tests.programs import BLOCK as T
from tests.programs import NOTE, TICK, Blocks

LAST = 1000


class ColumnBlocks(Blocks):
    """The same with a method for batches, which emits the outputs of every event in two calls."""

    def update_batch(self, state: Any, batch: EventBatch, emit_batch: Any) -> Any:
        for row, event in enumerate(batch.events()):
            made: list[Any] = []
            state = self.update(state, event, made.append)
            for part in (made[:1], made[1:]):
                emit_batch(part, [row] * len(part))
        return state


ITEMS = [("note", 1, 3), ("note", 9, 4), ("note", 12, 5), ("note", 47, 6), ("note", 48, 7), ("note", 71, 8)]
EVERY, SOME, ONE = (*range(T, 90, T), LAST), (20, 50, LAST), (LAST,)


def streams(ticks: tuple[int, ...] = SOME) -> dict[str, list[Any]]:
    return {"ticks": [("tick", ts, None) for ts in ticks], "items": ITEMS}


def sequential_outputs(ticks: tuple[int, ...]) -> list[sequential.Output]:
    numbers = [ts // T - 1 for ts in ticks]
    tick = EventBatch.of("ticks", rank=0, tags=[TICK()], ts=ticks, seq=numbers)
    rows = [row[1] for row in ITEMS], [row[2] for row in ITEMS]
    item = EventBatch.of("items", rank=1, tags=[NOTE()], ts=rows[0], payload=rows[1])
    return sequential.run(Blocks(), [[tick], [item]]).outputs


def test_the_sequential_program_puts_outputs_under_their_stamps() -> None:
    found = [(out.key.ts, out.key.seq, out.index, out.value) for out in sequential_outputs(ONE)]
    totals = [7, 5, 0, 0, 13, 0, 0, 8]
    want = [(T * b + T, b, i, [b, n ** (i + 1)]) for b, n in enumerate(totals) for i in range(3)]
    assert found == want


@pytest.mark.parametrize("ticks", [EVERY, SOME])
def test_ids_do_not_depend_on_the_ticks(ticks: tuple[int, ...]) -> None:
    assert sequential_outputs(ticks) == sequential_outputs(ONE)


@pytest.mark.parametrize("program", [Blocks, ColumnBlocks])
@pytest.mark.parametrize("ticks", [EVERY, SOME, ONE])
def test_outputs_of_a_run_are_in_the_order_of_their_stamps(
    program: type[Program], ticks: tuple[int, ...]
) -> None:
    run = dgs.run(program(), streams=streams(ticks), runtime="local")
    assert run.outputs == [output.value for output in sequential_outputs(ONE)]
    assert run.to_arrow()["ts"].to_pylist() == [output.key.ts for output in sequential_outputs(ONE)]


@pytest.mark.parametrize("program", [Blocks, ColumnBlocks])
def test_random_plans_and_crashes_lose_and_repeat_nothing(program: type[Program]) -> None:
    run_plans(program, streams(), 20)
    simulate(program, streams(), seeds=60)


def test_stamps_that_go_back_are_refused() -> None:
    values = [Stamped(30, 2, ["x"]), Stamped(20, 1, ["y"])]
    batch = OutputBatch.of(
        "ticks", rank=0, tags=[Tag("tick")], ts=[40, 40], seq=[3, 3], index=[0, 1], values=values
    )
    with pytest.raises(ProgramError, match="ts 20, seq 1, after ts 30, seq 2"):
        Stamps(["tick"]).put(batch)


def test_a_split_stream_has_no_stamps(tmp_path: Any) -> None:
    rows = tmp_path / "ticks.jsonl"
    rows.write_text('{"ts": 10}\n')
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: p\nprogram: {ref: 'p.py:Blocks'}\nstreams:\n"
        "  - {id: ticks, split: 2, tags: [tick], source: {jsonl: {path: ticks.jsonl}}}\n"
    )
    (tmp_path / "p.py").write_text("from tests.programs import Blocks\n")
    with pytest.raises(ProgramError, match="stamps outputs of stream 'ticks'"):
        dgs.run(plan)
