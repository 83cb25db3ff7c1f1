"""Flows in plan files: `flow:` in place of `program:`, for every verb, with streams bound by their names."""

from __future__ import annotations

import json
import random
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dgs
from dgs.api.preparing import from_file, prepare
from dgs.api.verifying import case_of
from dgs.cli.app import app
from dgs.errors import PlanFileError, ProgramImportError
from dgs.flow import FlowError
from dgs.job.loading import load_callable
from tests.workers.runtime.test_ticks_of_hosts import run_hosts

FLOWS = """\
from pathlib import Path

import dgs
from dgs.flow import KeyedOrdered, count, every, flow, on, sliding, tumbling
from dgs.monoids import COUNT, SUM

WORD = dgs.kind("word", key=str)


def split(_, line):
    if "boom" in line and Path(__file__).with_name("stop").exists():
        raise ValueError("boom")
    return line.split()


@flow()
def bag(lines: str):
    return lines.flat_map(split).key_by(lambda _, word: word).aggregate(COUNT).each(
        lambda word, n, _: [word, n])


@flow()
def long(lines: str, *, least=3):
    return lines.flat_map(split).filter(lambda _, word: len(word) >= least)


@flow(clock=every(10))
def windows(lines: str, *, idle="all"):
    words = lines.flat_map(split).key_by(lambda _, word: word)
    return words.aggregate(COUNT, over=sliding(30), idle=idle).each(lambda word, n, at: [at, word, n])


@flow(clock=every(10))
def lengths(lines: str):
    return lines.aggregate(COUNT, over=tumbling("10s"))


class Gaps(KeyedOrdered):
    def initial_state(self): return None
    def on_item(self, last, word, at, emit):
        emit(0 if last is None else at - last)
        return at
    def on_marker(self, last, word, at, emit):
        emit(-at)
        return last


@flow(clock=every(10))
def gaps(lines: str):
    words = lines.each(lambda _, line, at: (at, line)).flat_map(lambda _, row: [(row[0], w) for w in split(_, row[1])])
    times = words.key_by(lambda _, row: row[1]).map(lambda _, row: row[0])
    waits = times.apply(Gaps())
    return waits.pairs(lambda word, gap: (len(word), gap)).aggregate(SUM).each(lambda size, total, at: [at, size, total])


@flow(clock=on("ends"))
def between(ends: str, lines: str):
    words = lines.flat_map(split).key_by(lambda _, word: word)
    return words.aggregate(COUNT).each(lambda word, n, at: [at, word, n])


class Numbers(dgs.Program):
    depends = dgs.Dependence((WORD, WORD, dgs.SAME_KEY))
    def init(self): return {}
    def update(self, state, event, emit):
        state[event.tag.key] = state.get(event.tag.key, 0) + 1
        emit([event.ts, event.tag.key, state[event.tag.key]])
        return state
    def fork(self, state, left, right):
        mine = {word for word in state if WORD(word) in right}
        return {w: n for w, n in state.items() if w not in mine}, {w: state[w] for w in mine}
    def join(self, left, right): return left | right


@flow()
def numbered(lines: str):
    words = lines.flat_map(split)
    return words.into(Numbers(), tag=lambda _, word: WORD(word), payload=lambda _, word: None)
"""
NAMES = ("bag", "long", "windows", "gaps", "between", "numbered")


def lines(seed: int, count: int = 60) -> list[tuple[int, str]]:
    rnd = random.Random(seed)
    times = sorted(rnd.choice([rnd.randint(0, 60), rnd.randint(0, 400)]) for _ in range(count))
    words = ["a", "bb", "ccc", "dddd", "ee", "fff"]
    return [(ts, " ".join(rnd.choices(words, k=rnd.choice([0, 1, 2, 5])))) for ts in times]


def write(directory: Path, name: str, streams: dict[str, list[tuple[int, str]]], **more: Any) -> Path:
    (directory / "flows.py").write_text(FLOWS)
    sections = []
    for stream, rows in streams.items():
        text = "".join(json.dumps({"ts": ts, "payload": line}) + "\n" for ts, line in rows)
        (directory / f"{stream}.jsonl").write_text(text)
        source = {"jsonl": {"path": f"{stream}.jsonl"}}
        sections.append({"id": stream, "source": source, **more.pop(stream, {})})
    data = {"version": 1, "name": name, "flow": {"ref": f"flows.py:{name}"}, "streams": sections}
    path = directory / "plan.yaml"
    path.write_text(json.dumps({**data, "runtime": {"kind": "local", "batch_rows": 7}, **more}))
    return path


def inputs(name: str, seed: int) -> dict[str, list[tuple[int, str]]]:
    ends = {"ends": [(ts, "end") for ts, _ in lines(seed + 1, 8)]} if name == "between" else {}
    return {**ends, "lines": lines(seed)}


def meant(directory: Path, name: str, streams: dict[str, list[tuple[int, str]]]) -> list[Any]:
    return sorted(load_callable(f"flows.py:{name}", directory).denote(streams), key=repr)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_a_run_has_the_outputs_of_the_definition_of_its_flow(tmp_path: Path, name: str, seed: int) -> None:
    streams = inputs(name, seed)
    optimizer = {"name": "random", "seed": seed} if seed else {"name": "greedy"}
    path = write(tmp_path, name, streams, optimizer=optimizer, lines={"split": 1 + seed})
    run = dgs.run(path, verify=True)
    assert sorted(run.outputs, key=repr) == meant(tmp_path, name, streams)
    assert run.verified


@pytest.mark.parametrize(
    "command",
    [
        "run --verify",
        "plan --compare",
        "explain --types",
        "check --max-examples 2",
        "simulate --seeds 1",
        "predict",
    ],
)
def test_commands_take_a_flow(tmp_path: Path, command: str) -> None:
    verb, *flags = command.split()
    done = CliRunner().invoke(app, [verb, str(write(tmp_path, "between", inputs("between", 3))), *flags])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", NAMES)
def test_hosts_have_the_outputs_of_the_definition(tmp_path: Path, name: str) -> None:
    streams = inputs(name, 4)
    runtime = {"kind": "ray", "hosts": 3, "batch_rows": 3}
    path = write(tmp_path, name, streams, runtime=runtime, optimizer={"name": "random", "seed": 1})
    assert sorted(run_hosts(path, hosts=3, seed=1), key=repr) == meant(tmp_path, name, streams)


@pytest.mark.parametrize("name", NAMES)
def test_the_simulation_runs_flows(tmp_path: Path, name: str) -> None:
    streams = {**inputs(name, 5), "lines": lines(5, 12)}
    case = case_of(prepare(from_file(write(tmp_path, name, streams), {})))
    for seed in range(4):
        case.check(seed)


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_run_of_a_flow_resumes(tmp_path: Path, name: str) -> None:
    streams = {**inputs(name, 6), "lines": lines(6, 300)}
    optimizer = {"name": "random", "seed": 3}
    for place in (150, 230):
        streams["lines"][place] = (streams["lines"][place][0], "a boom b")
    path = write(tmp_path, name, streams, checkpoint={"every": "1ms"}, optimizer=optimizer)
    (tmp_path / "stop").touch()
    with pytest.raises(dgs.errors.UserCodeError, match="boom"):
        dgs.run(path, run_dir=tmp_path / "run")
    (tmp_path / "stop").unlink()
    dgs.resume(tmp_path / "run")
    assert outputs_of(tmp_path / "run") == meant(tmp_path, name, streams)


def outputs_of(directory: Path) -> list[Any]:
    files = (directory / "outputs").glob("*.jsonl")
    return sorted((json.loads(line) for file in files for line in file.read_text().splitlines()), key=repr)


def test_arguments_and_classes_are_given(tmp_path: Path) -> None:
    streams = inputs("long", 1)
    path = write(tmp_path, "long", streams, flow={"ref": "flows.py:long", "args": {"least": 4}, "classes": 3})
    assert sorted(dgs.run(path).outputs) == [w for w in meant(tmp_path, "long", streams) if len(w) >= 4]


def test_the_resolved_plan_file_runs_again(tmp_path: Path) -> None:
    streams = inputs("windows", 2)
    first = dgs.run(write(tmp_path, "windows", streams), run_dir=tmp_path / "run")
    again = dgs.run(tmp_path / "run" / "plan.yaml", fresh=True)
    assert again.outputs == first.outputs


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ({"streams": ["lnes"]}, PlanFileError, "stream 'lnes' is no parameter of it; did you mean 'lines'?"),
        ({"streams": []}, PlanFileError, "at least 1"),
        ({"streams": ["lines", "more"]}, PlanFileError, "stream 'more' is no parameter of it; it has lines"),
        ({"flow": {"ref": "flows.py:bags"}}, ProgramImportError, "did you mean 'bag'"),
        ({"flow": {"ref": "flows.py:Numbers"}}, ProgramImportError, "not a flow: write `program:`"),
        ({"flow": {"ref": "flows.py:bag", "args": {"x": 1}}}, FlowError, "cannot be called"),
        ({"flow": {"ref": "flows.py:bag", "clases": 1}}, PlanFileError, "did you mean 'classes'?"),
        ({"program": {"ref": "flows.py:Numbers"}}, PlanFileError, "not both"),
        ({"flow": None}, PlanFileError, "missing key 'program'"),
        (
            {"flow": {"ref": "flows.py:lengths"}, "time": {"unit": "s"}},
            PlanFileError,
            "its window is of 10s, and ts is in s",
        ),
    ],
)
def test_wrong_plan_files_name_the_problem(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], problem: str
) -> None:
    path = write(tmp_path, "bag", inputs("bag", 1))
    data = json.loads(path.read_text())
    if "streams" in change:
        change = {"streams": [{**data["streams"][0], "id": name} for name in change["streams"]]}
    path.write_text(json.dumps({**data, **change}))
    with pytest.raises(error, match=textwrap.shorten(problem, 200).replace("?", r"\?")):
        dgs.run(path)


def test_a_wrong_call_in_a_flow_is_a_mistake_for_every_command(tmp_path):
    (tmp_path / "wrong.py").write_text(
        "from dgs.flow import flow\nfrom dgs.monoids import SUM\n\n@flow()\ndef wrong(lines):\n    return lines.aggregate(SUM, field='n')\n"
    )
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nname: wrong\nflow: {ref: 'wrong.py:wrong'}\n"
        "streams: [{id: lines, source: {jsonl: {path: lines.jsonl}}}]\nruntime: {kind: local}\n"
    )
    (tmp_path / "lines.jsonl").write_text('{"ts": 1, "n": 2}\n')
    for command in ("run", "plan", "explain", "check", "simulate"):
        done = CliRunner().invoke(app, [command, str(tmp_path / "plan.yaml")])
        assert done.exit_code == 3, done.output
        assert "wrong.py:6" in done.output
        assert "unexpected keyword argument 'field'" in done.output


def test_each_problem_of_the_section_flow_is_reported_once(tmp_path):
    flow = "{ref: 'words.py:words', classes: 0, args: 5, clases: 3}"
    streams = "[{id: lines, source: {jsonl: {path: lines.jsonl}}}]"
    (tmp_path / "plan.yaml").write_text(f"version: 1\nname: words\nflow: {flow}\nstreams: {streams}\n")
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "plan.yaml")])
    found = re.findall(r"plan.yaml:(\d+:\d+): ", done.output)
    assert (done.exit_code, sorted(found)) == (3, sorted(set(found)))
    assert len(found) == 3
    assert not any(place.startswith("1:") for place in found)
