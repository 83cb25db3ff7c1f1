"""Fronts: the events of a row are made where it is read, under splits, on several hosts, in parts, and after a failure."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.errors import ProgramError, UserCodeError
from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from dgs.workers.sources.fronted import MOST, Front
from tests.workers.runtime.test_ticks_of_hosts import run_hosts

WORD = kind("word", key=range(4))
WRONG = "bad"


class Words(Program):
    """The number of each word so far, for every word of every line. An event is a word; lines are split where they are read."""

    depends = Dependence((WORD, WORD, SAME_KEY))

    @staticmethod
    def front(_stream: str, _ts: int, line: str) -> list[tuple[Tag, str]]:
        words = line.split()
        if WRONG in words:
            raise ValueError(f"a line with {WRONG!r}")
        return [(WORD(len(word) % 4), word) for word in words]

    def init(self) -> dict[str, int]:
        return {}

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        state[event.payload] = state.get(event.payload, 0) + 1
        emit([event.ts, event.payload, state[event.payload]])
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> Any:
        mine = {word for word in state if WORD(len(word) % 4) in right}
        return {w: n for w, n in state.items() if w not in mine}, {w: state[w] for w in mine}

    def join(self, left: Any, right: Any) -> Any:
        return left | right


def lines(seed: int, count: int = 60) -> list[tuple[int, str]]:
    rnd = random.Random(seed)
    words = ["a", "bb", "ccc", "dddd", "ee", "f"]
    return [(ts // 3, " ".join(rnd.choices(words, k=rnd.choice([0, 1, 2, 7])))) for ts in range(count)]


def expected(rows: list[tuple[int, str]], most: int | None = None) -> list[Any]:
    seen: Counter[str] = Counter()
    made = []
    for ts, line in rows:
        for word in line.split():
            seen[word] += 1
            made.append([ts, word, seen[word]])
    return made[:most]


def plan_file(directory: Path, rows: list[tuple[int, str]], *, split: int = 1, **more: Any) -> Path:
    text = "".join(json.dumps({"ts": ts, "payload": line}) + "\n" for ts, line in rows)
    (directory / "lines.jsonl").write_text(text)
    stream = {"id": "lines", "tags": ["word"], "split": split, "source": {"jsonl": {"path": "lines.jsonl"}}}
    program = {"ref": "tests.workers.sources.test_fronted:Words"}
    data = {"version": 1, "name": "words", "program": program, "streams": [stream]}
    path = directory / "plan.yaml"
    path.write_text(json.dumps({**data, "runtime": {"kind": "local", "batch_rows": 7}, **more}))
    return path


@pytest.mark.parametrize("split", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_events_are_those_of_each_row_in_order(tmp_path: Path, seed: int, split: int) -> None:
    rows = lines(seed)
    optimizer = {"name": "random", "seed": seed}
    run = dgs.run(plan_file(tmp_path, rows, split=split, optimizer=optimizer), verify=True)
    assert run.outputs == expected(rows)
    assert run.verified


def test_the_first_events_are_counted_after_the_front(tmp_path: Path) -> None:
    rows = lines(1)
    assert dgs.run(plan_file(tmp_path, rows), max_events=10, verify=True).outputs == expected(rows, 10)


@pytest.mark.parametrize("seed", range(4))
def test_hosts_give_the_outputs_of_the_sequential_program(tmp_path: Path, seed: int) -> None:
    rows = lines(seed)
    runtime = {"kind": "ray", "hosts": 3, "batch_rows": 1 + seed}
    path = plan_file(tmp_path, rows, split=2, runtime=runtime, optimizer={"name": "random", "seed": seed})
    assert sorted(run_hosts(path, hosts=3, seed=seed)) == sorted(expected(rows))


@pytest.mark.parametrize("sink", [None, {"sqlite": {"path": "out.db", "table": "words"}}])
def test_a_failed_run_resumes_within_a_row(tmp_path: Path, sink: dict[str, Any] | None) -> None:
    rows = lines(2, 200)
    (tmp_path / "program.py").write_text(
        "import time\nfrom pathlib import Path\nfrom tests.workers.sources.test_fronted import Words as Plain\n\n\n"
        "class Words(Plain):\n    def update(self, state, event, emit):\n        time.sleep(0.0005)\n"
        "        if sum(state.values()) < int(Path(__file__).with_name('stop').read_text()):\n"
        "            return super().update(state, event, emit)\n        raise ValueError('not yet')\n"
    )
    more = {
        "program": {"ref": "program.py:Words"},
        "checkpoint": {"every": "1ms"},
        "sinks": [sink] if sink else [],
    }
    path = plan_file(tmp_path, rows, optimizer={"name": "sequential"}, split=2, **more)
    for stop in (101, 203, 10**6):
        (tmp_path / "stop").write_text(str(stop))
        try:
            dgs.run(path, run_dir=tmp_path / "run") if stop == 101 else dgs.resume(tmp_path / "run")
        except UserCodeError:
            assert stop < 10**6
    assert sorted(values_of(tmp_path, sink)) == sorted(expected(rows))


def values_of(directory: Path, sink: dict[str, Any] | None) -> list[Any]:
    if sink is None:
        files = (directory / "run" / "outputs").glob("*.jsonl")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]
    import sqlite3

    with sqlite3.connect(directory / "out.db") as database:
        return [json.loads(value) for (value,) in database.execute("select value from words")]


def test_a_row_whose_front_raises_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match=r"at row 1 of stream 'lines', ts 7, .*\(lines.jsonl, line 2\)"):
        dgs.run(plan_file(tmp_path, [(5, "a bb"), (7, "a bad")]))


def test_a_row_whose_front_raises_is_skipped_once(tmp_path: Path) -> None:
    rows = [(5, "a bb"), (7, "a bad"), (8, "a")]
    run = dgs.run(plan_file(tmp_path, rows, on_error="skip"), verify=True)
    assert run.outputs == expected([rows[0], rows[2]])
    assert [(one.stream, one.ts) for one in run.dead_letters] == [("lines", 7)]
    assert "a line with 'bad'" in run.dead_letters[0].error


def test_a_row_with_too_many_events_is_refused() -> None:
    front = Front("s", lambda *_: [(WORD(0), 1)] * (MOST + 1), program="p", unread=WORD(0), skips=False)
    with pytest.raises(ProgramError, match="R05 row 3 of stream 's' becomes 1,048,577 events"):
        front(EventBatch.of("s", rank=0, tags=[Tag("row")], ts=[5], seq=[3], payload=["x"]))
