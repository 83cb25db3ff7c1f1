"""`on_error: skip` in flows: items that raise, and only these, are dropped with one dead letter each, under any plan and any ticks."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.flow.flow_program import FINAL
from dgs.semantics import sequential
from tests.dgs.flow import flows
from tests.dgs.flow.test_plan_files import outputs_of, write
from tests.workers.runtime.test_ticks_of_hosts import run_hosts

BROKEN = """\
import dgs
from dgs.flow import KeyedOrdered, KeyedUnordered, every, flow, sliding
from dgs.monoids import COUNT, SUM

BAD = {"row": "boom", "late": "kaputt"}


def split(_, line):
    if BAD["row"] in line:
        raise ValueError(f"bad row {line}")
    return line.split()


def told(word, n, at):
    if word == BAD["late"]:
        raise ValueError("bad word")
    return [at, word, n]


class Last(KeyedOrdered):
    def on_item(self, last, word, value, emit):
        if value == "bang":
            raise ValueError("bad item")
        emit([word, last])
        return value
    def on_marker(self, last, word, at, emit):
        if word == BAD["late"] and at == 20:
            raise ValueError("bad marker")
        emit([at, word, "marker"])
        return last


class Rising(KeyedUnordered):
    monoid = COUNT
    def initial_state(self): return 0
    def update_state(self, state, n): return state + n
    def on_marker(self, state, word, at, emit):
        if word == BAD["late"] and at == 20:
            raise ValueError("bad marker")
        emit(word, [at, word, state])


def words(lines):
    return lines.flat_map(split).key_by(lambda _, word: word)


@flow()
def free(lines: str): return lines.flat_map(split)

@flow(clock=every(10))
def summed(lines: str): return words(lines).aggregate(COUNT, over=sliding(30), idle="all").each(told)

@flow(clock=every(10))
def ordered(lines: str): return words(lines).apply(Last())

@flow(clock=every(10))
def rising(lines: str): return words(lines).apply(Rising()).each(lambda _, row, __: row)

def fails(batch, place):
    from pathlib import Path
    if Path(place).exists() and batch.ts[-1] >= 50:
        raise OSError("the sink is closed")

@flow(clock=every(10))
def blocks(lines: str):
    def block(word, items, at):
        if word == BAD["late"]:
            raise ValueError("bad block")
        yield [at, word, len(items)]
    return words(lines).block(block)
"""
NAMES = ("free", "summed", "ordered", "rising", "blocks")


def lines(seed: int, count: int = 40) -> list[tuple[int, str]]:
    rnd = random.Random(seed)
    words = ["a", "bb", "ccc", "kaputt", "bang", "boom"]
    weights = [9, 9, 9, 3, 2, 2]
    times = sorted(rnd.randint(0, 70) for _ in range(count))
    return [(ts, " ".join(rnd.choices(words, weights, k=rnd.choice([0, 1, 2, 4])))) for ts in times]


def plan(directory: Path, name: str, seed: int, **more: Any) -> Path:
    path = write(directory, name, {"lines": lines(seed)}, on_error="skip", **more)
    (directory / "flows.py").write_text(BROKEN)
    return path


def letters(directory: Path) -> list[Any]:
    found = [
        json.loads(line)
        for file in directory.glob("dead-letter-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return sorted(
        [letter["stream"], letter["ts"], letter["row"], letter["key"] if letter["row"] is None else None]
        for letter in found
    )


def expected(directory: Path, name: str, seed: int) -> tuple[list[Any], int]:
    """Return the outputs and the number of letters, by the sequential program with ticks at every place."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"broken_{name}", directory / "flows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = getattr(module, name).compiled()
    streams = flows.batches(made, {"lines": readable(made, lines(seed))}, [*range(0, 100, 10), FINAL])
    run = sequential.run(made.program, streams, on_error="skip")
    unreadable = len(lines(seed)) - len(readable(made, lines(seed)))
    return sorted([output.value for output in run.outputs], key=repr), len(run.skipped) + unreadable


def readable(made: Any, rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the rows for which the front of a compiled flow does not raise."""
    return rows if made.reads is None else [row for row in rows if "boom" not in row[1]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_failing_items_are_left_out_once(tmp_path: Path, name: str, seed: int) -> None:
    optimizer = {"name": "random", "seed": seed} if seed else {"name": "greedy"}
    path = plan(tmp_path, name, seed, optimizer=optimizer, lines={"split": 1 + seed})
    run = dgs.run(path, run_dir=tmp_path / "run", verify=True)
    outputs, count = expected(tmp_path, name, seed)
    assert run.verified
    assert sorted(run.outputs, key=repr) == outputs
    assert len(letters(tmp_path / "run")) == count > 0


@pytest.mark.parametrize("name", ["summed", "ordered"])
def test_hosts_leave_out_the_same(tmp_path: Path, name: str) -> None:
    runtime = {"kind": "ray", "hosts": 3, "batch_rows": 3}
    path = plan(tmp_path, name, 2, runtime=runtime, optimizer={"name": "random", "seed": 1})
    assert sorted(run_hosts(path, hosts=3, seed=1), key=repr) == expected(tmp_path, name, 2)[0]


@pytest.mark.parametrize("name", ["summed", "ordered"])
def test_a_resumed_run_has_each_letter_once(tmp_path: Path, name: str) -> None:
    more = {"optimizer": {"name": "random", "seed": 3}, "checkpoint": {"every": "1ms"}}
    sinks = [
        {"callable": {"ref": "flows.py:fails", "args": {"place": str(tmp_path / "stop")}}},
        {"jsonl": {"path": "outputs"}},
    ]
    path = plan(tmp_path, name, 4, sinks=sinks, runtime={"kind": "local", "batch_rows": 3}, **more)
    whole = dgs.run(path, run_dir=tmp_path / "whole")
    (tmp_path / "stop").touch()
    with pytest.raises(dgs.DgsError, match="the sink is closed"):
        dgs.run(path, run_dir=tmp_path / "run")
    (tmp_path / "stop").unlink()
    some = letters(tmp_path / "run")
    dgs.resume(tmp_path / "run")
    assert letters(tmp_path / "run") == letters(tmp_path / "whole")
    assert outputs_of(tmp_path) == expected(tmp_path, name, 4)[0]
    assert len(some) < whole.report["skipped"]


def test_without_errors_careful_closing_is_closing() -> None:
    for seed in range(150):
        case = flows.case(seed)
        made = case.made
        if made.shape == "free":
            continue
        streams = flows.batches(made, case.inputs, case.ticks)
        run = sequential.run(made.program.when_skipping(), streams)
        assert flows.counted(output.value for output in run.outputs) == case.means(), f"seed {seed}"


def test_letters_do_not_depend_on_ticks(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(BROKEN)
    from dgs.job.loading import load_callable

    for name in ("summed", "rising", "blocks"):
        made = load_callable(f"flows.py:{name}", tmp_path).compiled()

        def left_out(ticks: list[int], made: Any = made) -> Counter[Any]:
            run = sequential.run(
                made.program, flows.batches(made, {"lines": readable(made, lines(7))}, ticks), on_error="skip"
            )
            return Counter((letter.identity, letter.key, letter.error) for letter in run.skipped)

        assert left_out([FINAL]) == left_out([*range(0, 100, 10), FINAL]) != Counter()
