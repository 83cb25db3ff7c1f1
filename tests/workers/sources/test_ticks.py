"""Ticks: which ticks are sent, where a run with ticks resumes, and that ticks never change the content of blocks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.api.preparing import from_file, prepare
from dgs.api.verifying import case_of
from dgs.errors import PlanFileError
from dgs.job.schema import PlanFile
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.tag_sets import TagSet
from dgs.semantics import sequential
from dgs.workers.protocol.edges import Period
from dgs.workers.recovery.positions import Layer, Part, Positions
from dgs.workers.sources.ticks import LAST, Ticks
from tests.programs import BLOCK, NOTE, TICK, Blocks

TAGS = [TICK()]


def key(ts: int) -> OrderKey:
    return OrderKey(ts, 1, 0)


def read(ticks: Ticks, low: OrderKey, latest: int = 0) -> list[int]:
    """Read, and return the times of all ticks that are due."""
    ticks.follow(low, latest)
    found: list[int] = []
    while ticks.wait == 0:
        found += [ts for batch in ticks.read().batches for ts in batch.ts.tolist()]
    return found


def test_the_greatest_multiple_that_all_have_passed_comes() -> None:
    ticks = Ticks("ticks", 0, TAGS, Period(10, 3))
    assert [read(ticks, key(ts)) for ts in (3, 4, 12, 13, 47, 46)] == [[3], [], [], [13], [43], []]
    assert read(ticks, END) == [LAST]


def test_no_multiple_is_left_out_after_a_start() -> None:
    ticks = Ticks("ticks", 0, TAGS, Period(10), start=15)
    assert read(ticks, key(5)) == []
    assert [read(ticks, key(ts)) for ts in (19, 20, 52)] == [[], [20], [30, 40, 50]]
    assert read(ticks, END, latest=85) == [60, 70, 80, LAST]


def test_only_the_end_closes_a_stream_of_ticks_that_follows_no_other() -> None:
    assert read(Ticks("ticks", 0, TAGS, Period(10)), BEGIN) == []
    assert read(Ticks("ticks", 0, TAGS, Period(10)), END) == [LAST]


def test_a_resumed_stream_continues_after_its_position() -> None:
    ticks = Ticks("ticks", 0, TAGS, Period(10))
    ticks.skip_to(OrderKey(30, 0, 1))
    assert [read(ticks, key(ts)) for ts in (39, 40)] == [[], [40]]
    again = Ticks("ticks", 0, [TICK(), NOTE()], Period(10))
    again.skip_to(OrderKey(30, 0, 1))
    assert read(again, key(39)) == [30, 30]


@pytest.mark.parametrize("committed", [OrderKey(30, 0, 1), OrderKey(40, 0, 0)])
def test_the_last_committed_tick_is_not_left_out(committed: OrderKey) -> None:
    ticks = Ticks("ticks", 0, TAGS, Period(10))
    ticks.skip_to(OrderKey(10, 0, 1))
    ticks.owe(Positions({"ticks": (Layer(1, (Part(0, TagSet.of(TICK), committed),)),)}))
    assert read(ticks, key(75)) == [30, 70]


def plan_file(directory: Path, notes: dict[str, list[tuple[int, int]]], **more: Any) -> Path:
    directory.mkdir(exist_ok=True)
    streams: list[Any] = [{"id": "ticks", "tags": ["tick"], "source": {"ticks": {"every": BLOCK}}}]
    for name, rows in notes.items():
        lines = (json.dumps({"ts": ts, "payload": payload}) for ts, payload in rows)
        (directory / f"{name}.jsonl").write_text("\n".join([*lines, ""]))
        source = {"jsonl": {"path": f"{name}.jsonl"}}
        streams.append({"id": name, "tags": {"kind": "note"}, "source": source, **more.pop(name, {})})
    path = directory / "plan.yaml"
    program = {"ref": "tests.programs:Blocks"}
    path.write_text(
        json.dumps({"version": 1, "name": "blocks", "program": program, "streams": streams, **more})
    )
    return path


def expected(notes: dict[str, list[tuple[int, int]]]) -> list[Any]:
    """Return the outputs of the sequential program with a tick at every multiple."""
    ends = range(0, max((ts for rows in notes.values() for ts, _ in rows), default=0) + 2 * BLOCK, BLOCK)
    streams = [EventBatch.of("ticks", rank=0, tags=TAGS, ts=list(ends))]
    for rank, (name, rows) in enumerate(notes.items(), 1):
        ts, payload = [row[0] for row in rows], [row[1] for row in rows]
        streams.append(EventBatch.of(name, rank=rank, tags=[NOTE()], ts=ts, payload=payload))
    return [out.value for out in sequential.run(Blocks(), [[batch] for batch in streams]).outputs]


def some_notes(seed: int, streams: int = 2, rows: int = 40) -> dict[str, list[tuple[int, int]]]:
    rnd = random.Random(seed)
    times = {
        f"notes{i}": sorted(rnd.randint(0, 300) for _ in range(rnd.randint(1, rows))) for i in range(streams)
    }
    return {name: [(ts, rnd.randint(0, 9)) for ts in some] for name, some in times.items()}


@pytest.mark.parametrize("seed", range(6))
def test_blocks_are_those_of_the_sequential_program(tmp_path: Path, seed: int) -> None:
    notes = some_notes(seed)
    split = {"notes0": {"split": 2}, "runtime": {"kind": "local", "batch_rows": seed + 1}}
    optimizer = {"name": "random", "seed": seed} if seed else {"name": "greedy"}
    run = dgs.run(plan_file(tmp_path, notes, **split, optimizer=optimizer), verify=True)
    assert run.outputs == expected(notes)
    assert run.verified


def test_ticks_do_not_count_among_the_first_events(tmp_path: Path) -> None:
    notes = some_notes(1)
    first = sorted((ts, name, value) for name, rows in notes.items() for ts, value in rows)[:20]
    cut = {name: [(ts, value) for ts, of, value in first if of == name] for name in notes}
    run = dgs.run(plan_file(tmp_path, notes), runtime="local", max_events=20, verify=True)
    assert run.outputs == expected(cut)


def test_a_failed_run_resumes_after_its_ticks(tmp_path: Path) -> None:
    notes = some_notes(3, rows=200)
    path = plan_file(tmp_path, notes, runtime={"kind": "local", "batch_rows": 7}, checkpoint={"every": "1ms"})
    data = json.loads(path.read_text())
    (tmp_path / "program.py").write_text(
        "import time\nfrom pathlib import Path\nfrom tests.programs import Blocks as Sums\n\n\n"
        "class Blocks(Sums):\n    def update(self, state, event, emit):\n        time.sleep(0.001)\n"
        "        if event.ts == 2**63 - 3 or event.ts < int(Path(__file__).with_name('stop').read_text()):\n"
        "            return super().update(state, event, emit)\n        raise ValueError('not yet')\n"
    )
    path.write_text(json.dumps({**data, "program": {"ref": "program.py:Blocks"}}))
    for stop in (90, 170, 250):
        (tmp_path / "stop").write_text(str(stop))
        with pytest.raises(dgs.errors.UserCodeError):
            dgs.run(path, resume=stop > 90, run_dir=tmp_path / "run") if stop == 90 else dgs.resume(
                tmp_path / "run"
            )
    (tmp_path / "stop").write_text("1000")
    dgs.resume(tmp_path / "run")
    files = sorted((tmp_path / "run" / "outputs").glob("*.jsonl"))
    values = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(values) == sorted(expected(notes))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"streams": [{"id": "t", "tags": ["tick"], "source": {"ticks": {"every": 1}}}]}, "follow other"),
        ({"every": "5s"}, "say `time: {unit: ...}`"),
        ({"every": "0s"}, "at least 1"),
        ({"split": 2}, "`split:` does not apply"),
    ],
)
def test_wrong_sections_are_refused(tmp_path: Path, more: dict[str, Any], problem: str) -> None:
    path = plan_file(tmp_path, {"notes": [(1, 2)]})
    data = json.loads(path.read_text())
    if "every" in more:
        data["streams"][0]["source"]["ticks"] = more
    elif "split" in more:
        data["streams"][0] |= more
    else:
        data |= more
    path.write_text(json.dumps(data))
    with pytest.raises(PlanFileError, match=problem):
        dgs.run(path)


def test_a_resolved_section_is_the_same_section(tmp_path: Path) -> None:
    path = plan_file(tmp_path, {"notes": [(1, 2)]})
    config = PlanFile.model_validate(json.loads(path.read_text()))
    assert PlanFile.model_validate(config.model_dump()) == config


@pytest.mark.parametrize("seed", range(3))
def test_the_simulation_takes_ticks(tmp_path: Path, seed: int) -> None:
    case = case_of(prepare(from_file(plan_file(tmp_path, some_notes(seed)), {})))
    for number in range(15):
        case.check(100 * seed + number)
